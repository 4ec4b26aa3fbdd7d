"""A memory of constant size for a past of any length: a continuous signal that is attended to by a density."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_choice, check_count, check_interval, check_number
from omegamax._checks import check_floating, check_shape
from omegamax._numerics import disable_autocast, working_dtype
from omegamax.basis import Basis
from omegamax.basis.grid import cell_centres
from omegamax.densities import BetaGaussian
from omegamax.maps import Omega
from omegamax.nn._contraction import Contraction, place_quantiles
from omegamax.nn._head import DensityHead, locate
from omegamax.nn._memory_arguments import NAME, check_density, check_lengths, make_basis, read_state
from omegamax.nn.alpha import Alpha, hold_alpha
from omegamax.nn.continuous import make_density
from omegamax.nn.memory_state import MemoryState
from omegamax.nn.transforms import apply, resolve


class LongTermMemory(torch.nn.Module):
    r"""The memory of the infinity-former: an unbounded past in N coefficients, read by continuous attention.

    .. math:: X(t) = B^\top \psi(t), \; t \in [0, 1], \qquad
              c = E_p[X(t)]^\top W_v = E_p[\psi(t)]^\top B\, W_v

    Hidden vectors are a signal X over [0, 1], the oldest at 0, fitted by ridge regression on N functions. When L more
    come, the signal is pressed into :math:`[0, \tau]` (it is evaluated at M points there) and they fill the rest; one
    more fit gives N new coefficients. So a vector that is k updates old has :math:`\tau^k` of the room that it once
    had: what is old is remembered by its outline, at a cost that depends on N, M and L only.

    Each head h reads with a density p over [0, 1], any :class:`~omegamax.densities.BetaGaussian`. Its moments are

    * ``moments="predicted"`` (the paper's): from the scores :math:`s_j = \langle W_q q, W_k B_j \rangle / \sqrt d` of
      the coefficients, the mean is :math:`\operatorname{sigmoid}(a^\top s + a_0)` and the variance
      :math:`\operatorname{softplus}(b^\top s + b_0)`;
    * ``moments="matched"``: those of discrete attention to the signal at N positions, by ``transform``, where each
      weight is spread over its cell. It finds by content where to look, without having to learn where that is.

    Nothing of the past is in the module: it holds parameters only.

    * ``initial_state(batch)`` is an empty memory, which gives a context of zeros;
    * ``update(state, hidden [B, L, D], lengths=None)`` is the state after further vectors, of which example i has the
      first ``lengths[i]``; with none it stays as it is;
    * ``forward(query [B, Q, D], state)`` gives the context ``[B, Q, D]`` and the density, of batch ``[B, H, Q]``;
    * ``observe(state, density)`` adds to the histogram of where attention was. With ``sticky`` memories the next update
      evaluates the past at quantiles of it, so that what was attended to has more room from then on.

    Gradients flow through updates into hidden vectors of any age; ``state.detach()`` cuts them off, as the paper does.

    Args:
        dim: D, features of hidden vectors and queries, a multiple of ``heads``.
        functions: N, Gaussian bumps on a regular grid, as wide as they are apart; or any basis over one dimension.
        heads: H.
        alpha: of the densities, above 1/3; 1 is the Gaussian, above they have compact support. A float, or ``[H]``.
        contraction: :math:`\tau`.
        samples: M, by default 4 N.
        penalty: of the ridge regression.
        sticky: share of the M points placed by attention, the rest are regular; 1 in the paper, 0 for none of it.
        bins: of the histogram.
        moments, transform: see above.
        width: standard deviation that predicted densities start from, before training moves it.
        gate: multiply hidden vectors, on their way in, by the sigmoid of a convolution over three of them.
        learnable: learn alpha for each head, within ``bounds``.

        >>> memory = LongTermMemory(8, functions=32, heads=2, alpha=2.0)
        >>> state = memory.initial_state(3)
        >>> for segment in torch.randn(10, 3, 64, 8):  # 640 vectors, and 32 coefficients
        ...     state = memory.update(state, segment)
        >>> context, density = memory(torch.randn(3, 5, 8), state)
        >>> context.shape, density.mean.shape, state.coefficients.shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 5, 1]), torch.Size([3, 32, 8]))

    Reference: Martins, Marinho & Martins (ACL 2022), infinity-former, Sec. 3; continuous attention: Martins et al.
    (NeurIPS 2020). There :math:`\tau` is 0.5 or 0.75, points are drawn from the histogram instead of placed at its
    quantiles, and zeros are fitted around [0, 1].
    """

    alpha: float | Tensor | Alpha

    def __init__(
        self,
        dim: int,
        functions: int | Basis = 64,
        *,
        heads: int = 1,
        alpha: float | Tensor = 1.0,
        contraction: float = 0.75,
        samples: int | None = None,
        penalty: float = 0.01,
        sticky: float = 0.0,
        bins: int = 128,
        moments: str = "predicted",
        transform: str | Omega | torch.nn.Module = "softmax",
        width: float = 0.1,
        gate: bool = False,
        learnable: bool = False,
        bounds: tuple[float, float] = (0.75, 2.0),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.dim, self.heads = check_count(NAME, "dim", dim), check_count(NAME, "heads", heads)
        if dim % heads:
            raise ValueError(f"{NAME}: dim must be a multiple of heads, got {dim} and {heads}")
        basis = make_basis(functions, device)
        self.functions = len(basis)
        check_interval(NAME, "contraction", contraction, "(0, 1)")
        samples = 4 * self.functions if samples is None else check_count(NAME, "samples", samples)
        # Without a penalty an empty stretch of the signal would be fitted by anything.
        penalty = check_number(NAME, "penalty", penalty, above=0)
        self.contraction = Contraction(basis, contraction, samples, penalty)
        self.sticky = float(check_interval(NAME, "sticky", sticky, "[0, 1]"))
        self.bins = check_count(NAME, "bins", bins) if sticky else 0
        check_choice(NAME, "moments", moments, ("predicted", "matched"))
        self.moments = moments
        if isinstance(alpha, Tensor):
            alpha = check_shape(NAME, "alpha", alpha, heads, meaning="one for each head").unsqueeze(-1)
        hold_alpha(self, alpha, learnable, heads if learnable else None, bounds, above=1 / 3)
        check_number(NAME, "width", width, above=0)
        made: dict = {"device": device, "dtype": dtype}
        self.query, self.key, self.value, self.out = (torch.nn.Linear(dim, dim, False, **made) for _ in range(4))
        self.gate = torch.nn.Conv1d(dim, dim, 3, padding=1, **made) if gate else None
        self.head: DensityHead | None = None
        self.transform: Omega | torch.nn.Module | None = None
        if moments == "predicted":
            self.head = DensityHead(self.functions, 1, device, dtype)
            with torch.no_grad():
                self.head.bias[1] = math.log(math.expm1(width**2))  # type: ignore[index]
        else:
            self.transform = resolve(NAME, transform)

    @property
    def basis(self) -> Basis:
        """Return the functions of the signal."""
        return self.contraction.basis

    def initial_state(self, batch: int, *, device: torch.device | str | None = None) -> MemoryState:
        """Return the empty memories of a batch."""
        check_count(NAME, "batch", batch, least=0)
        weight = self.key.weight
        device = weight.device if device is None else device
        zeros = torch.zeros(batch, self.functions, self.dim, dtype=working_dtype(weight), device=device)
        length = torch.zeros(batch, dtype=torch.long, device=device)
        return MemoryState(zeros, length, zeros.new_zeros(batch, self.bins))

    def update(self, state: MemoryState, hidden: Tensor, lengths: Tensor | None = None) -> MemoryState:
        """Return the state after hidden vectors ``[B, L, D]``, of which the first ``lengths [B]`` are there."""
        state, width = read_state(state, "hidden", hidden, self.functions, self.dim), hidden.shape[-2]
        if lengths is not None:
            lengths = check_lengths(lengths, len(hidden), width).to(hidden.device)
        if width == 0:
            return state
        if self.gate is not None:
            hidden = hidden * self._open(hidden, lengths)
        empty, points = state.length == 0, None
        if self.sticky:
            points = place_quantiles(state.histogram, self.contraction.samples, self.sticky)
        with disable_autocast(hidden.device):
            new = self.contraction(state.coefficients, hidden.to(state.coefficients.dtype), empty, lengths, points)
        if lengths is None:
            return MemoryState(new, state.length + width, torch.zeros_like(state.histogram))
        histogram = torch.where((lengths == 0)[:, None], state.histogram, 0.0)
        return MemoryState(new, state.length + lengths, histogram)

    def forward(self, query: Tensor, state: MemoryState) -> tuple[Tensor, BetaGaussian]:
        """Return the context ``[B, Q, D]`` of queries ``[B, Q, D]``, and the density, of batch ``[B, H, Q]``."""
        state = read_state(state, "query", query, self.functions, self.dim)
        signal = state.coefficients.to(self.key.weight.dtype)
        q = self._split(self.query(query))
        if self.moments == "matched":
            signal = self._regular(state.coefficients).to(signal.dtype)
        k = self._split(self.key(signal))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.dim // self.heads)  # [B, H, Q, N]
        with disable_autocast(query.device):
            density = self._make_density(scores.to(working_dtype(scores)))
            r = density.expect(self.basis)
            # The mean of the signal first: values are linear in it, and N may be large.
            mean = torch.einsum("bhqn,bnd->bhqd", r.to(state.coefficients.dtype), state.coefficients)
        weight = self.value.weight.unflatten(0, (self.heads, -1))  # [H, d, D]
        context = torch.einsum("bhqe,hde->bqhd", mean.to(weight.dtype), weight).flatten(-2)
        return self.out(context).to(query.dtype), density

    def observe(self, state: MemoryState, density: BetaGaussian, mask: Tensor | None = None) -> MemoryState:
        """Return the state with attention added to its histogram.

        Args:
            density: of batch ``[B, H, Q]``, as ``forward`` gives it. What lies outside [0, 1] does not count.
            mask: which queries count, ``[B, Q]``.
        """
        if not self.sticky:
            raise ValueError(f"{NAME}: observe needs sticky > 0 at construction, got {self.sticky:g}")
        state = MemoryState(*state)
        check_density(density, mask, len(state.length), self.heads)
        edges = torch.linspace(0, 1, self.bins + 1, dtype=density.loc.dtype, device=density.loc.device)
        mass = density.cdf(edges.reshape(-1, 1, 1, 1, 1)).diff(dim=0).clamp(min=0)  # [bins, B, H, Q]
        if mask is not None:
            mass = torch.where(mask[:, None, :], mass, 0.0)
        histogram = state.histogram + mass.sum((-2, -1)).T.to(state.histogram.dtype)
        return MemoryState(state.coefficients, state.length, histogram)

    def recall(self, state: MemoryState, positions: Tensor) -> Tensor:
        """Return the signal ``[B, P, D]`` at positions ``[P]`` of [0, 1], or ``[B, P]``: what is left of the past."""
        check_floating(NAME, "positions", positions)
        coefficients = state.coefficients
        return self.basis(positions.unsqueeze(-1)).to(coefficients.dtype) @ coefficients

    def _make_density(self, scores: Tensor) -> BetaGaussian:
        """Return the density for scores ``[B, H, Q, N]``."""
        alpha = self.alpha
        if isinstance(alpha, Alpha):
            alpha = alpha(scores).squeeze(-1)
        if self.head is not None:
            # In the precision of the scores: half would not tell neighbouring functions apart.
            weight, bias = (w.to(scores.dtype) for w in (self.head.weight, self.head.bias))
            mean, root = locate(F.linear(scores, weight, bias), 1)
            return make_density(mean, alpha, root.square())
        assert self.transform is not None
        p = apply(self.transform, scores)
        t = cell_centres(self.functions, 0, p.dtype, p.device)
        mean = (p * t).sum(-1, keepdim=True)
        variance = (p * (t - mean).square()).sum(-1, keepdim=True) + 1 / (12 * self.functions**2)
        return make_density(mean, alpha, variance.unsqueeze(-1))

    def _regular(self, coefficients: Tensor) -> Tensor:
        """Return the signal at N regular positions, ``[B, N, D]``."""
        t = cell_centres(self.functions, 0, torch.float64, coefficients.device)
        with disable_autocast(coefficients.device):
            return self.basis(t.unsqueeze(-1)).to(coefficients.dtype) @ coefficients

    def _open(self, hidden: Tensor, lengths: Tensor | None) -> Tensor:
        """Return how much of each hidden vector enters, ``[B, L, D]``."""
        assert self.gate is not None
        if lengths is not None:
            present = torch.arange(hidden.shape[-2], device=hidden.device) < lengths[:, None]
            hidden = torch.where(present.unsqueeze(-1), hidden, 0.0)
        return self.gate(hidden.transpose(-2, -1)).transpose(-2, -1).sigmoid()

    def _split(self, x: Tensor) -> Tensor:
        """Return ``[B, L, D]`` as ``[B, H, L, d]``."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def extra_repr(self) -> str:
        alpha = "" if isinstance(self.alpha, torch.nn.Module) else f", alpha={self.alpha}"
        return f"{self.dim}, heads={self.heads}{alpha}, moments={self.moments!r}, sticky={self.sticky:g}"
