"""How good predictions of the next token are that may give the true one no probability at all."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_integer, is_number
from omegamax._checks import check_integers, check_predictions, readable
from omegamax._numerics import exact_dtype, working_dtype
from omegamax.metrics._jensen_shannon import jensen_shannon

REDUCTIONS = ("mean", "sum", "none")
# Halvings of [0, 1]: beyond what float64 tells apart above 1e-14.
HALVINGS = 100


def epsilon_perplexity(
    p: Tensor,
    target: Tensor | None = None,
    *,
    epsilon: float,
    vocabulary: int | None = None,
    ignore_index: int = -100,
) -> Tensor:
    r"""Return the perplexity after ``epsilon`` was added to every probability; a scalar.

    .. math:: \exp\Bigl(-\frac1n \sum_{i=1}^n \log \frac{p_i(x_i) + \epsilon}{1 + \epsilon V}\Bigr)

    The perplexity itself, at epsilon = 0, is infinite if one true token of a corpus has probability zero. Smoothing is
    the mixture :math:`(1 - \lambda) p + \lambda / V` with :math:`\lambda = \epsilon V / (1 + \epsilon V)`: between p
    and the uniform distribution, at infinity, whose perplexity is V. Different maps have different best epsilons,
    :func:`~omegamax.metrics.best_epsilon`, to be found on other data.

    Args:
        p: probabilities ``[*, V]``; or those of the true tokens alone, ``[*]``, without ``target``, for corpora whose
            predictions do not fit into memory.
        target: true tokens ``[*]``.
        epsilon: >= 0.
        vocabulary: V, where p are those of the true tokens.
        ignore_index: of targets that do not count. Without any that do, the result is NaN.

        >>> p = torch.tensor([[0.75, 0.25, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]])
        >>> epsilon_perplexity(p, torch.tensor([0, 3]), epsilon=0.0)
        tensor(inf)
        >>> epsilon_perplexity(p, torch.tensor([0, 3]), epsilon=0.25)
        tensor(4.)

    Reference: Martins, Marinho & Martins, "Sparse text generation" (EMNLP 2020).
    """
    name = "epsilon_perplexity"
    if not is_number(epsilon):
        raise TypeError(f"{name}: epsilon must be a number, got {type(epsilon).__name__}")
    if not epsilon >= 0:
        raise ValueError(f"{name}: epsilon must be >= 0, got {epsilon:g}")
    true, size = _true(name, p, target, vocabulary, ignore_index)
    if epsilon == math.inf:
        smooth = torch.full_like(true, 1 / size)
    else:
        smooth = (true + epsilon) / (1 + epsilon * size)
    return (-smooth.log().mean()).exp().to(working_dtype(p))


@torch.no_grad()
def best_epsilon(
    p: Tensor,
    target: Tensor | None = None,
    *,
    vocabulary: int | None = None,
    ignore_index: int = -100,
) -> float:
    r"""Return the epsilon with the least perplexity on these data, in [0, inf].

    .. math:: \arg\max_{\lambda \in [0, 1]} \sum_i \log\bigl((1 - \lambda) p_i(x_i) + \lambda / V\bigr), \qquad
              \epsilon = \frac{\lambda}{(1 - \lambda) V}

    The sum is concave in lambda, so that halving finds it. It is infinite for predictions that are no better than
    uniform ones.

    Args:
        p, target, vocabulary, ignore_index: as for :func:`~omegamax.metrics.epsilon_perplexity`.

        >>> p = torch.tensor([[0.75, 0.25, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]])
        >>> round(best_epsilon(p, torch.tensor([0, 3])), 6)
        0.75
    """
    name = "best_epsilon"
    true, size = _true(name, p, target, vocabulary, ignore_index)
    if not len(true):
        raise ValueError(f"{name}: target must hold at least one token to count, got none")
    gain = 1 / size - true

    def slope(weight: float) -> float:
        return float((gain / ((1 - weight) * true + weight / size)).mean())

    if bool((true > 0).all()) and slope(0.0) <= 0:
        return 0.0
    if slope(1.0) >= 0:
        return math.inf
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return high / (size * (1 - high))


def sparsemax_score(p: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    r"""Return one minus the sparsemax loss of a prediction, in [0, 1]; 1 is best.

    .. math:: p(x) + \tfrac12 \sum_v p_v (1 - p_v)

    It is defined for every distribution, dense or sparse: the least sparsemax loss of scores of which p is the
    sparsemax. A prediction that is certain has 1 where it is right and 0 where it is wrong.

    Args:
        p: probabilities ``[*, V]``.
        target: true tokens ``[*]``.
        ignore_index: of targets that do not count; they score 0 without reduction.
        reduction: ``"mean"`` over those that do, ``"sum"`` or ``"none"``.

        >>> p = torch.tensor([[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
        >>> sparsemax_score(p, torch.tensor([0, 1, 2]), reduction="none")
        tensor([0.9375, 1.0000, 0.0000])

    Reference: Martins, Marinho & Martins, "Sparse text generation" (EMNLP 2020).
    """
    name = "sparsemax_score"
    p, index, kept = _pairs(name, p, target, ignore_index, reduction)
    value = p.gather(-1, index)[..., 0] + 0.5 * (p * (1 - p)).sum(-1)
    return _reduce(value, kept, reduction)


def jensen_shannon_score(
    p: Tensor,
    target: Tensor,
    *,
    base: float = math.e,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Return the Jensen-Shannon divergence between a prediction and the true token, in [0, log 2]; 0 is best.

    .. math:: \mathrm{JS}(p, e_x) = \tfrac12 \mathrm{KL}(p \Vert m) + \tfrac12 \mathrm{KL}(e_x \Vert m),
              \qquad m = \tfrac12 (p + e_x)

    Unlike the likelihood it is finite where p(x) = 0; it is a falling function of p(x) alone.

    Args:
        base: of the logarithm, nats by default; with 2 the largest value is 1.
        p, target, ignore_index, reduction: as for :func:`~omegamax.metrics.sparsemax_score`.

        >>> p = torch.tensor([[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
        >>> jensen_shannon_score(p, torch.tensor([0, 1, 2]), base=2, reduction="none")
        tensor([0.1379, 0.0000, 1.0000])

    Reference: Martins, Marinho & Martins, "Sparse text generation" (EMNLP 2020). The divergence is that of
    :func:`omegamax.metrics.jensen_shannon`.
    """
    name = "jensen_shannon_score"
    p, index, kept = _pairs(name, p, target, ignore_index, reduction)
    # All other tokens have the same ratio to the mean: they count as one.
    others = p.scatter(-1, index, 0.0).sum(-1)
    two = torch.stack([p.gather(-1, index)[..., 0], others], -1)
    return _reduce(jensen_shannon(two, two.new_tensor([1.0, 0.0]), base=base), kept, reduction)


def support_size(p: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    r"""Return how many tokens could have come at a step, :math:`|\{v : p_v > 0\}|`; the mean over steps by default.

    Args:
        p, target, ignore_index, reduction: as for :func:`~omegamax.metrics.sparsemax_score`; of the targets only those
            that are ignored matter.

        >>> p = torch.tensor([[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])
        >>> support_size(p, torch.tensor([0, 1, -100]))
        tensor(1.5000)
    """
    p, _, kept = _pairs("support_size", p, target, ignore_index, reduction)
    return _reduce((p > 0).sum(-1).to(p.dtype), kept, reduction)


def _pairs(name: str, p: Tensor, target: Tensor, ignore_index: int, reduction: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return predictions ``[*, V]``, indices ``[*, 1]`` with 0 for what is ignored, and what is not, ``[*]``."""
    check_choice(name, "reduction", reduction, REDUCTIONS)
    check_predictions(name, p)
    check_integers(name, "target", target, "a tensor of tokens")
    if target.shape != p.shape[:-1]:
        wanted = "p [*, V] and target [*]"
        raise ValueError(f"{name}: wanted {wanted}, got shapes {tuple(p.shape)} and {tuple(target.shape)}")
    kept = target != ignore_index
    index = torch.where(kept, target, 0).long()
    if readable(index) and index.numel() and not 0 <= int(index.min()) <= int(index.max()) < p.shape[-1]:
        wanted = f"tokens in [0, {p.shape[-1]}) or ignore_index={ignore_index}"
        raise ValueError(f"{name}: target must hold {wanted}, got {int(index.min())} to {int(index.max())}")
    return p.to(working_dtype(p)), index[..., None], kept


def _true(
    name: str, p: Tensor, target: Tensor | None, vocabulary: int | None, ignore_index: int
) -> tuple[Tensor, int]:  # fmt: skip
    """Return probabilities of the true tokens that count, ``[n]``, and the size of the vocabulary."""
    if (target is None) == (vocabulary is None):
        raise ValueError(f"{name}: give target, or vocabulary with p of the true tokens; got both or neither")
    if target is None:
        check_predictions(name, p)
        true, size = p.flatten(), check_integer(name, "vocabulary", vocabulary, 1)
    else:
        p, index, kept = _pairs(name, p, target, ignore_index, "none")
        true, size = p.gather(-1, index)[..., 0][kept], p.shape[-1]
    return true.to(exact_dtype(p.device)), size


def _reduce(value: Tensor, kept: Tensor, reduction: str) -> Tensor:
    value = torch.where(kept, value, 0.0)
    if reduction == "none":
        return value
    return value.sum() / kept.sum() if reduction == "mean" else value.sum()
