"""Scores of the next token as log-probabilities of a map, for one's own loop and for those of other libraries."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import check_above, check_scores
from omegamax._numerics import returned_dtype, working_dtype
from omegamax.maps import NormEntropy, Omega, Tsallis, get, records


def log_probabilities(z: Tensor, omega: str | Omega = "entmax15", temperature: float = 1.0) -> Tensor:
    r"""Return the logarithms of a map's probabilities, ``-inf`` off its support; ``[*, V] -> [*, V]``.

    .. math:: \log \hat p_\Omega(z / T)

    Softmax is taken in logarithms throughout, and entmax and normmax with an alpha near one where they need it, so that
    probabilities do not underflow to zeros that these maps do not have. A row without a finite score is ``-inf``
    everywhere.

    Args:
        z: scores; ``-inf`` rules a token out.
        omega: name of a map or an Omega whose probabilities sum to one; its parameters are shared by all rows.
        temperature: T > 0, by which scores are divided.

        >>> log_probabilities(torch.tensor([1.0, 0.5, -1.0]), "sparsemax")
        tensor([-0.2877, -1.3863,    -inf])
    """
    name = "log_probabilities"
    check_scores(name, z, -1)
    check_above(name, "temperature", temperature, 0.0)
    rows = log_rows(z.to(working_dtype(z)), distribution(name, omega), temperature, working_dtype(z))
    return rows.to(returned_dtype(z))


class LogitsProcessor:
    r"""A map of the library in the generation loop of transformers, or of whatever calls ``(tokens, scores)``.

    Scores come out as log-probabilities, ``-inf`` off the support: the softmax that such a loop applies to them gives
    the probabilities of the map back, and exact zeros stay zeros. It works after a ``log_softmax`` too, as a beam
    search may apply, since maps do not see a shift. It is meant to be the last that touches the scores::

        model.generate(tokens, do_sample=True, top_k=0, logits_processor=[LogitsProcessor("entmax15")])

    Samplers of other libraries may cut further by default (``top_k`` above): say so if that is not wanted.

    Args:
        omega, temperature: as for :func:`log_probabilities`.

        >>> process = LogitsProcessor("sparsemax")
        >>> process(torch.tensor([[3, 5]]), torch.tensor([[1.0, 0.5, -1.0]])).softmax(-1)
        tensor([[0.7500, 0.2500, 0.0000]])

    Reference: Martins, Marinho & Martins, "Sparse text generation" (EMNLP 2020), who sample from entmax.
    """

    def __init__(self, omega: str | Omega = "entmax15", temperature: float = 1.0):
        name = type(self).__name__
        self.omega = distribution(name, omega)
        check_above(name, "temperature", temperature, 0.0)
        self.temperature = temperature

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the log-probabilities of the scores ``[B, V]``; the tokens so far do not matter."""
        return log_probabilities(scores, self.omega, self.temperature)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.omega!r}, temperature={self.temperature:g})"


def distribution(name: str, omega: str | Omega) -> Omega:
    """Return the Omega, if its map gives a distribution over the last axis alone."""
    omega = get(omega)
    total = omega.total
    whole = bool((total == 1).all()) if isinstance(total, Tensor) else total == 1
    if not whole or getattr(omega, "at_most", False):
        raise ValueError(f"{name}: omega must give probabilities that sum to one, got {omega!r}")
    record = records().get(omega.name)
    if record is not None and record.image and getattr(omega, "shape", None) is None:
        raise ValueError(f"{name}: omega must be normalised over the vocabulary alone, got {omega!r}")
    return omega


def log_rows(z: Tensor, omega: Omega, temperature: float, dtype: torch.dtype) -> Tensor:
    """Return the logarithms of the probabilities of each row; the logarithm is taken in ``dtype``."""
    if temperature != 1:
        # A common score is taken off first, so that a low temperature raises none to infinity.
        top = z.amax(-1, keepdim=True)
        z = (z - torch.where(top.isfinite(), top, 0.0)) / temperature
    if omega.name == "softmax":
        empty = (z == -math.inf).all(-1, keepdim=True)
        return torch.where(empty, -math.inf, torch.where(empty, 0.0, z).log_softmax(-1, dtype=dtype))
    p = omega.argmax(z)
    # Rounding may take a probability above one, which no log-probability is.
    return _restore_underflow(p.to(dtype).log().clamp(max=0), p, z, omega)


def _restore_underflow(log_p: Tensor, p: Tensor, z: Tensor, omega: Omega) -> Tensor:
    r"""Give entries back that are in the support though their probability is no number of its precision.

    .. math:: \log p_i = \log p_m + \frac{\log(1 + (z_i - z_m) / s)}{\alpha - 1}, \qquad
              s = \frac{p_m^{\alpha - 1}}{\alpha - 1} \text{ or } (p_m / \lVert p \rVert_\alpha)^{\alpha - 1}

    for entmax or normmax, m the largest: powers of 1 / (alpha - 1), which are tiny long before they are zero.
    """
    if not isinstance(omega, Tsallis | NormEntropy):
        return log_p
    limits = torch.finfo(z.dtype)
    rounding, smallest = 1e3 * limits.eps, math.log(limits.tiny)
    if not isinstance(omega.alpha, Tensor) and math.log(rounding) > smallest * (omega.alpha - 1):
        return log_p  # what is far enough from the threshold to be told from it does not underflow
    # What is not asked for is kept finite below, so that gradients are.
    power = torch.as_tensor(omega.alpha, dtype=log_p.dtype, device=log_p.device) - 1
    top, place = z.max(-1, keepdim=True)
    below = torch.where(z > -math.inf, z.to(log_p.dtype) - top, 0.0)
    best = log_p.gather(-1, place)
    best = torch.where(best > -math.inf, best, 0.0)
    if isinstance(omega, Tsallis):
        share = power * below / (power * best).exp()
    else:
        share = below / (power * (best - (omega(p).unsqueeze(-1).to(log_p.dtype) + 1).log())).exp()
    inside = share > rounding - 1
    logs = torch.where(inside, share, 0.0).log1p() / torch.where(power == 0, 1.0, power)
    found = best + torch.where(power == 0, below, logs)
    return torch.where((p == 0) & inside & (found < smallest), found, log_p)
