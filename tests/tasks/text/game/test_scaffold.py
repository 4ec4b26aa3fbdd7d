"""Scaffolds: students learn most from the words that decide, and an explainer finds them through the students."""

import pytest
import torch

from omegamax.models.text import TextAnswer, TextClassifier, TextConfig, WordAttention
from omegamax.tasks.text.game import Student, teach_student, train_scaffold
from omegamax.tasks.text.game.explainers import read_attention
from omegamax.tasks.text.game.scaffold import compute_loss, make_steps

WORDS = 32  # 2 to 7 tell one class, 8 to 13 the other, the rest nothing
KEYS = 14


class KeyClassifier(TextClassifier):
    """Decides by the one word of a text that tells."""

    def forward(self, batch):
        words = batch["words"]
        first, second = (words >= 2) & (words < 8), (words >= 8) & (words < KEYS)
        attention = WordAttention((words != 0).sum(-1), words != 0, torch.ones(words.shape) / words.shape[1])
        return TextAnswer(torch.stack([first.sum(-1), second.sum(-1)], -1).to(self.embedding.weight), attention)


@pytest.fixture
def classifier():
    torch.manual_seed(0)
    made = KeyClassifier(TextConfig.small(WORDS, 2, word_dim=WORDS, hidden_dim=4, score_dim=4)).eval()
    with torch.no_grad():
        made.embedding.weight.copy_(torch.eye(WORDS))
    return made


def make_texts(generator, count=16, length=6):
    words = torch.randint(KEYS, WORDS, (count, length), generator=generator)
    place = torch.randint(0, length, (count,), generator=generator)
    words[torch.arange(count), place] = torch.randint(2, KEYS, (count,), generator=generator)
    return {"words": words}


def make_epoch(index, count=10):
    generator = torch.Generator().manual_seed(index)
    return [make_texts(generator) for _ in range(count)]


def succeed(classifier, explain, lessons):
    test = make_texts(torch.Generator().manual_seed(1000), 300)
    student = teach_student(classifier, lessons, explain)
    return float((student.guess(test) == classifier(test).logits.argmax(-1)).double().mean())


def test_explainer_finds_the_words_that_decide_and_students_learn_from_them(classifier):
    explainer = train_scaffold(classifier, make_epoch, epochs=12, explainer_rate=1e-2)
    test = make_texts(torch.Generator().manual_seed(1000), 300)
    with torch.no_grad():
        inside = (read_attention(explainer(test)) * (test["words"] < KEYS)).sum(-1)
    assert float(inside.mean()) > 0.95  # 1 / 6 by chance

    def scaffold(batch):
        with torch.no_grad():
            return read_attention(explainer(batch))

    lessons = make_epoch(500, 6)
    found = {
        "none": succeed(classifier, None, lessons),
        "scaffold": succeed(classifier, scaffold, lessons),
        "right": succeed(classifier, lambda batch: (batch["words"] < KEYS).float(), lessons),
        "equal": succeed(classifier, lambda batch: torch.full(batch["words"].shape, 1 / 6), lessons),
    }
    assert found["scaffold"] > found["none"] + 0.1 and found["scaffold"] > found["equal"] + 0.1
    assert found["scaffold"] >= found["right"] - 0.02


def test_gradient_through_the_steps_of_a_student_is_that_of_finite_differences(classifier):
    classifier = classifier.double()
    lesson, exam = make_epoch(3, 2)
    decided = classifier(lesson).logits.argmax(-1)
    torch.manual_seed(1)
    beginner = Student.beginner(classifier)
    student = Student(*(0.3 * torch.randn_like(value) for value in beginner[:3]), beginner.vectors)

    def examine(weights, differentiable):
        taught = make_steps(
            student, lesson, decided, weights, steps=3, rate=2.0, strength=0.7, differentiable=differentiable
        )
        return torch.nn.functional.cross_entropy(taught.read(exam)[0], classifier(exam).logits.argmax(-1))

    weights = torch.rand(lesson["words"].shape, dtype=torch.float64).requires_grad_()
    (found,) = torch.autograd.grad(examine(weights, True), weights)
    for place in ((0, 0), (3, 5), (15, 2)):
        move = torch.zeros_like(weights)
        move[place] = 1e-5
        with torch.no_grad():
            slope = (examine(weights + move, False) - examine(weights - move, False)) / 2e-5
        assert float(found[place]) == pytest.approx(float(slope), abs=1e-9)


def test_a_step_is_gradient_descent_on_the_loss(classifier):
    lesson = make_epoch(4, 1)[0]
    decided, weights = classifier(lesson).logits.argmax(-1), torch.full(lesson["words"].shape, 1 / 6)
    student = Student.beginner(classifier)
    own = [value.clone().requires_grad_() for value in student[:3]]
    slopes = torch.autograd.grad(
        compute_loss(Student(*own, student.vectors), lesson, decided, weights, 0.5), own, allow_unused=False
    )
    moved = make_steps(student, lesson, decided, weights, steps=1, rate=0.25, strength=0.5)
    for before, slope, after in zip(student[:3], slopes, moved[:3], strict=True):
        assert torch.allclose(after, before - 0.25 * slope, rtol=0, atol=1e-7) and not after.requires_grad


def test_student_does_not_look_at_padding(classifier):
    torch.manual_seed(2)
    student = Student(torch.randn(WORDS), torch.randn(WORDS, 2), torch.randn(2), torch.randn(WORDS, WORDS))
    short = torch.tensor([[3, 9, 20]])
    logits, log_q = student.read({"words": torch.nn.functional.pad(short, (0, 4))})
    alone, own = student.read({"words": short})
    assert torch.allclose(logits, alone, atol=1e-6) and torch.allclose(log_q[:, :3], own, atol=1e-6)
    assert not log_q[:, 3:].any()


def test_settings_that_make_no_sense_are_refused(classifier):
    for settings in ({"epochs": 0}, {"steps": 0}, {"rate": 0.0}, {"strength": -1.0}, {"explainer_rate": 0.0}):
        with pytest.raises(ValueError, match=f"train_scaffold: {next(iter(settings))} must be"):
            train_scaffold(classifier, make_epoch, **settings)
