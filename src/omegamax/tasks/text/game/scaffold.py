"""Explanations that students learn from: an explainer that is trained through the students' own training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_integer, check_number
from omegamax.tasks.text.game.explainers import Batch, Classifier, decide, read_attention, take_words
from omegamax.tasks.text.game.trained import RATE, Epoch, average_words, make_explainer

Explain = Callable[[Batch], Tensor]  # from a batch to weights of its words [B, L]


class Student(NamedTuple):
    r"""Someone who reads whole texts and learns to decide as the classifier does, with attention of their own.

    With vectors e of the words, which they know from before,

    .. math:: q_l \propto \exp \langle a, e_l \rangle, \qquad z = b + A^\top \sum_l q_l e_l,

    and of pairs a second matrix for the mean of the second sentence.

    Args:
        attend: a, ``[D]``.
        weight: A, ``[D, C]``, of pairs ``[2 D, C]``.
        bias: b, ``[C]``.
        vectors: e, ``[words, D]``, which stay as they are.
    """

    attend: Tensor
    weight: Tensor
    bias: Tensor
    vectors: Tensor

    @classmethod
    def beginner(cls, classifier: Classifier) -> Student:
        """Return a student who knows nothing but the vectors of a classifier's words.

        These are scaled, so that the square of their norm is 1 in the mean.
        """
        e = classifier.embedding.weight.detach()
        e = e / e[1:].square().sum(-1).mean().sqrt().clamp(min=torch.finfo(e.dtype).tiny)
        size = e.shape[1] * (1 if classifier.config.alignment is None else 2)
        classes = classifier.config.classes
        return cls(e.new_zeros(e.shape[1]), e.new_zeros(size, classes), e.new_zeros(classes), e)

    def read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return logits ``[B, C]``, and the logarithm of the attention, ``[B, L]``, 0 at padding."""
        words = batch["words"]
        e = F.embedding(words, self.vectors)
        scores = (e @ self.attend).masked_fill(words == 0, -torch.inf)
        log_q = scores.log_softmax(-1)
        context = torch.einsum("bl,bld->bd", log_q.exp(), e)
        if "second" in batch:
            context = torch.cat([context, average_words(batch["second"], self.vectors)], -1)
        return context @ self.weight + self.bias, log_q.masked_fill(words == 0, 0.0)

    @torch.no_grad()
    def guess(self, batch: Batch) -> Tensor:
        """Return the classes that the student takes the classifier to decide for, ``[B]``, without any explanation."""
        return self.read(batch)[0].argmax(-1)


def compute_loss(student: Student, batch: Batch, decided: Tensor, weights: Tensor | None, strength: float) -> Tensor:
    r"""Return what a student makes small, of decisions :math:`\hat y` and of an explanation p.

    .. math:: \frac1B \sum_b -\log \mathrm{softmax}(z_b)_{\hat y_b} - \beta \sum_l p_{bl} \log q_{bl}

    Up to what does not depend on the student, the sum is the Kullback-Leibler divergence of p to q.

    Args:
        weights: p, ``[B, L]``; None: the student is told decisions alone.
        strength: :math:`\beta`.
    """
    logits, log_q = student.read(batch)
    loss = F.cross_entropy(logits, decided)
    return loss if weights is None else loss - strength * (weights * log_q).sum(-1).mean()


def make_steps(
    student: Student,
    batch: Batch,
    decided: Tensor,
    weights: Tensor | None,
    *,
    steps: int,
    rate: float,
    strength: float,
    differentiable: bool = False,
) -> Student:
    """Return the student after so many steps of gradient descent; ``differentiable`` in the explanation if asked."""
    for _ in range(steps):
        goes_on = differentiable and student.attend.requires_grad  # from the step before
        own = [value if goes_on else value.detach().requires_grad_() for value in student[:3]]
        with torch.enable_grad():
            loss = compute_loss(Student(own[0], own[1], own[2], student.vectors), batch, decided, weights, strength)
            slopes = torch.autograd.grad(loss, own, create_graph=differentiable)
        moved = [value - rate * slope for value, slope in zip(own, slopes, strict=True)]
        student = Student(moved[0], moved[1], moved[2], student.vectors)
    return student if differentiable else Student(*(value.detach() for value in student))


def teach_student(
    classifier: Classifier,
    batches: Iterable[Batch],
    explain: Explain | None = None,
    *,
    steps: int = 5,
    rate: float = 5.0,
    strength: float = 1.0,
) -> Student:
    """Return a student who was taught with a classifier's decisions, and with explanations where there are some.

    Args:
        classifier: in evaluation mode.
        batches: each gone through once, with ``steps`` of gradient descent.
        explain: from a batch to weights of its words, ``[B, L]``, which sum to one; None: no explanation.
        steps, rate, strength: of the student, see :func:`train_scaffold`.
    """
    student, device = Student.beginner(classifier), classifier.embedding.weight.device
    for batch in batches:
        given = take_words(batch, device)
        weights = None if explain is None else explain(given)
        decided = decide(classifier, given)
        student = make_steps(student, given, decided, weights, steps=steps, rate=rate, strength=strength)
    return student


def train_scaffold(
    classifier: Classifier,
    epoch: Epoch,
    *,
    epochs: int = 5,
    steps: int = 5,
    rate: float = 5.0,
    strength: float = 1.0,
    explainer_rate: float = RATE,
    seed: int = 0,
) -> Classifier:
    r"""Return a network whose attention, 1.5-entmax, is what students learn from best to simulate a classifier.

    Explanations are scaffolds: students have them while they learn, and are then asked without. The explainer
    :math:`\phi` makes the loss of students small on texts that they were not taught with,

    .. math:: \min_\phi \; \mathrm{CE}\bigl(\theta_K(\phi); \text{next batch}\bigr), \qquad
              \theta_{i + 1} = \theta_i - \eta \nabla_\theta
              \bigl[\mathrm{CE}(\theta_i) + \beta \, \mathrm{KL}(p_\phi \,\|\, q_{\theta_i})\bigr],

    by gradients through K unrolled steps of a :class:`Student`, who goes on from there to the next batch; in each epoch
    a beginner takes the place. No implicit differentiation: what earlier batches did to the student counts as given.

    Args:
        classifier: in evaluation mode.
        epoch: from the index of an epoch to its batches, two at least, with ``words [B, L]``, and ``second [B, M]`` for
            pairs.
        epochs: how many.
        steps: K.
        rate: :math:`\eta`.
        strength: :math:`\beta`.
        explainer_rate: of Adam for the explainer.
        seed: of what the explainer does not take from the classifier, see :func:`~.trained.make_explainer`.

    Reference: Fernandes, Treviso, Pruthi, Martins and Neubig, "Learning to scaffold: optimizing model explanations for
    teaching" (NeurIPS 2022), Sec. 3, with one unrolled step; there the explainer weighs the heads of the classifier.
    """
    name = "train_scaffold"
    check_integer(name, "epochs", epochs, least=1)
    check_integer(name, "steps", steps, least=1)
    check_number(name, "rate", rate, above=0)
    check_number(name, "strength", strength, above=0)
    check_number(name, "explainer_rate", explainer_rate, above=0)
    explainer = make_explainer(classifier, seed)
    optimiser = torch.optim.Adam(explainer.parameters(), explainer_rate)
    for index in range(epochs):
        student, lesson = Student.beginner(classifier), None
        for batch in epoch(index):
            exam = take_words(batch, classifier.embedding.weight.device)
            if lesson is not None:
                weights = read_attention(explainer(lesson))
                taught = make_steps(
                    student,
                    lesson,
                    decide(classifier, lesson),
                    weights,
                    steps=steps,
                    rate=rate,
                    strength=strength,
                    differentiable=True,
                )
                loss = F.cross_entropy(taught.read(exam)[0], decide(classifier, exam))
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                student = Student(*(value.detach() for value in taught))
            lesson = exam
    return explainer.eval()
