"""Softmax, sparsemax and everything between, beyond and below: the Tsallis family."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import apply_mask, check_above, check_scores
from omegamax._map_parameters import row_parameter
from omegamax._numerics import on_support
from omegamax._operation import Map, solve_vjp
from omegamax.kernels import export
from omegamax.kernels.rows import alpha_vjp, entmax_in_alpha, entmax_vjp
from omegamax.maps._tsallis_entropy import conjugate_at, negative_entropy, negative_entropy_in_alpha
from omegamax.maps.omega import Omega
from omegamax.maps.record import Learnable, MapRecord
from omegamax.maps.registry import register


class Shannon(Omega):
    r"""Negative Shannon entropy, ``sum_i p_i log p_i``: the regulariser of softmax.

    >>> Shannon().argmax(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.5741, 0.3482, 0.0777])
    """

    keeps_order = True
    name = "softmax"
    margin = math.inf

    def __call__(self, p: Tensor) -> Tensor:
        return torch.special.xlogy(p, on_support(p)[1]).sum(-1)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return softmax(z, dim, mask=mask)

    def conjugate_at(self, z: Tensor, p: Tensor, origin: Tensor | None = None) -> Tensor:
        return conjugate_at(1.0, z, p, origin)

    def __repr__(self) -> str:
        return "Shannon()"


class Tsallis(Omega):
    r"""Negative Tsallis entropy, ``(sum_i p_i^alpha - 1) / (alpha (alpha - 1))``: the regulariser of entmax.

    Args:
        alpha: in (0, inf]; a float, or a tensor that broadcasts to the scores with size 1 along the axis of
            normalisation. 1 is Shannon, 2 the squared norm (sparsemax).

        >>> Tsallis(2.0).argmax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.7500, 0.2500, 0.0000])
        >>> Tsallis(1.5).margin
        2.0
    """

    keeps_order = True

    def __init__(self, alpha: float | Tensor = 1.5):
        check_above("Tsallis", "alpha", alpha, 0.0)
        self.alpha = alpha

    @property
    def name(self) -> str:
        if isinstance(self.alpha, Tensor):
            return "entmax"
        return {1.0: "softmax", 1.5: "entmax15", 2.0: "sparsemax"}.get(float(self.alpha), "entmax")

    @property
    def margin(self) -> float:
        alpha = float(self.alpha.min()) if isinstance(self.alpha, Tensor) else self.alpha
        return 1 / (alpha - 1) if alpha > 1 else math.inf

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (self.alpha,)

    def with_parameters(self, *parameters: float | Tensor) -> Tsallis:
        return Tsallis(*parameters)

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        return (-negative_entropy_in_alpha(p, self.alpha).unsqueeze(-1),)

    def __call__(self, p: Tensor) -> Tensor:
        return negative_entropy(p, self.alpha)

    def conjugate_at(self, z: Tensor, p: Tensor, origin: Tensor | None = None) -> Tensor:
        return conjugate_at(self.alpha, z, p, origin)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return entmax(z, self.alpha, dim, mask=mask)

    def __repr__(self) -> str:
        return f"Tsallis(alpha={self.alpha})"


def softmax(z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""Return the baseline: positive everywhere, Shannon's entropy as regulariser.

    .. math:: \arg\max_{p \in \Delta} \langle p, z \rangle - \sum_i p_i \log p_i
              = \frac{\exp z}{\sum_j \exp z_j}

    Unlike :func:`torch.softmax`, a row whose entries are all masked gives zeros, not NaN.

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``, summing to one along ``dim``.

        >>> softmax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.5741, 0.3482, 0.0777])

    Reference: Martins et al. (NeurIPS 2020), Example 1 in Sec. 2.
    """
    return _apply("softmax", z, 1.0, dim, mask)


def sparsemax(z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""Return the Euclidean projection of the scores onto the simplex: the sparse counterpart of softmax.

    .. math:: \arg\max_{p \in \Delta} \langle p, z \rangle - \tfrac12 \lVert p \rVert^2 = [z - \tau(z)]_+

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``: non-negative, sums to one along ``dim``, exactly zero off the support.

        >>> sparsemax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.7500, 0.2500, 0.0000])

    Reference: Martins & Astudillo (ICML 2016), Prop. 1 and Alg. 1.
    """
    return _apply("sparsemax", z, 2.0, dim, mask)


def entmax15(z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""Return what is half-way between softmax and sparsemax: sparse, yet smooth. Exact.

    .. math:: \arg\max_{p \in \Delta} \langle p, z \rangle - \tfrac43 \bigl(\textstyle\sum_i p_i^{3/2} - 1\bigr)
              = [z/2 - \tau(z)]_+^2

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``: non-negative, sums to one along ``dim``, exactly zero off the support.

        >>> entmax15(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.6740, 0.3260, 0.0000])
        >>> entmax15(torch.tensor([3.0, 0.5, -1.0]))
        tensor([1., 0., 0.])

    Reference: Peters, Niculae & Martins (ACL 2019), Sec. 3.3 and Alg. 2.
    """
    return _apply("entmax15", z, 1.5, dim, mask)


def entmax(z: Tensor, alpha: float | Tensor = 1.5, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""Return a member of the Tsallis family: softmax at alpha = 1, sparsemax at 2, argmax at infinity.

    .. math:: \arg\max_{p \in \Delta} \langle p, z \rangle - \frac{\sum_i p_i^\alpha - 1}{\alpha(\alpha - 1)}
              = \bigl[(\alpha - 1) z - \tau(z)\bigr]_+^{1/(\alpha - 1)}

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        alpha: in (0, inf]; a float, or a tensor that broadcasts to ``z`` with size 1 along ``dim``. Gradients reach
            it, also at and around alpha = 1.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``, summing to one along ``dim``; for alpha > 1 exactly zero off the support. At ``inf`` the maxima
        share the mass.

        >>> entmax(torch.tensor([1.0, 0.5, -1.0]), alpha=1.25)
        tensor([0.6315, 0.3451, 0.0235])
        >>> entmax(torch.tensor([1.0, 1.0, -1.0]), alpha=float("inf"))
        tensor([0.5000, 0.5000, 0.0000])

    Reference: Peters, Niculae & Martins (ACL 2019), Eq. 10; gradient in alpha: Correia, Niculae & Martins (EMNLP
    2019), Prop. 1.
    """
    dim = check_scores("entmax", z, dim)
    alpha = check_above("entmax", "alpha", alpha, 0.0)
    if not isinstance(alpha, float):
        alpha = row_parameter("entmax", "alpha", alpha, z, dim)
    z = apply_mask("entmax", z, mask)
    half = z.dtype.itemsize == 2 and not torch.is_autocast_enabled(z.device.type)
    if half and isinstance(alpha, float) and alpha > 2:
        # Beyond sparsemax slopes are negative powers of probabilities: these are kept in float32 for them.
        return _entmax(z.float(), alpha, dim=dim).to(z.dtype)
    return _entmax(z, alpha, dim=dim)


def _apply(name: str, z: Tensor, alpha: float, dim: int, mask: Tensor | None) -> Tensor:
    """Return the probabilities of the member called ``name``."""
    if mask is None and type(z) is Tensor and z.is_cuda:
        p = _entmax.launch_again(z, alpha, dim)
        if p is not None:
            return p
    dim = check_scores(name, z, dim)
    return _entmax(apply_mask(name, z, mask), alpha, dim=dim)


def _vjp(g: Tensor, p: Tensor, alpha: float | Tensor, *, dim: int):
    dz = solve_vjp("entmax_vjp", entmax_vjp, p, g, alpha, dim)
    return dz, lambda: solve_vjp("alpha_vjp", alpha_vjp, p, g, alpha, dim)


def _jvp(tangents, p: Tensor, alpha: float | Tensor, *, dim: int) -> Tensor:
    dz, dalpha = tangents
    out = torch.zeros_like(p) if dz is None else entmax_vjp(p, dz, alpha, dim)
    return out if dalpha is None else out + dalpha * entmax_in_alpha(p, alpha, dim)


_entmax = Map(
    "entmax",
    ["alpha"],
    partial(kernels.solve, "entmax"),
    _vjp,
    _jvp,
    gradient=partial(kernels.solve, "entmax_vjp"),
    export=export.entmax,
)


def _program(cp, p, omega: Tsallis):
    return (cp.sum(cp.power(p, omega.alpha)) - 1) / (omega.alpha * (omega.alpha - 1))


register(
    MapRecord(
        "softmax",
        softmax,
        lambda: Shannon(),  # a function, whose signature torch.compile can read
        summary="dense baseline: every entry positive",
        complexity="O(K)",
        cite="bridle1990probabilistic",
        colour="#6b7785",
        program=lambda cp, p, omega: -cp.sum(cp.entr(p)),
        loss="softmax_loss",
    )
)


register(
    MapRecord(
        "sparsemax",
        sparsemax,
        lambda: Tsallis(2.0),
        summary="Euclidean projection onto the simplex: exact zeros, piecewise linear",
        complexity="O(K) expected",
        cite="martins2016softmax",
        colour="#d1495b",
        program=lambda cp, p, omega: (cp.sum_squares(p) - 1) / 2,
        loss="sparsemax_loss",
    )
)


register(
    MapRecord(
        "entmax15",
        entmax15,
        lambda: Tsallis(1.5),
        summary="exact zeros and a smooth gradient: the safest first choice",
        complexity="O(K) expected",
        cite="peters2019sparse",
        colour="#2176ae",
        program=_program,
        loss="entmax15_loss",
    )
)


register(
    MapRecord(
        "entmax",
        entmax,
        Tsallis,
        summary="the whole family, alpha learnable: 1 softmax, 2 sparsemax, inf argmax",
        complexity="O(K) a step, 2-6 steps",
        cite="correia2019adaptively",
        example={"alpha": 1.25},
        colour="#2a9d8f",
        program=_program,
        learnable=Learnable("alpha", bounds=(1.0, 2.0), above=0.0),
        loss="entmax_loss",
    )
)
