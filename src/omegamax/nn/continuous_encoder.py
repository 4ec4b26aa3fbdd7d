"""A transformer layer between basis functions: attention whose cost does not depend on the length."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_number, check_sizes
from omegamax._checks import check_floating
from omegamax._numerics import disable_autocast, working_dtype
from omegamax.basis import Basis, GaussianRBF, RidgeFit, grid_positions
from omegamax.maps import Omega
from omegamax.nn.multihead import MultiheadAttention

NAME = "ContinuousEncoderLayer"
# In units of their distance. The sum of such bumps is constant to 1e-4, and they are easily told from each other, so
# that coefficients are about as large as values.
_WIDTH = 0.7


class ContinuousEncoderLayer(torch.nn.TransformerEncoderLayer):
    r"""A :class:`torch.nn.TransformerEncoderLayer` whose self-attention is between the coefficients of a signal.

    .. math:: X(t) = B^\top \psi(t), \qquad B' = \mathrm{MultiHead}(B, B, B), \qquad X'(t) = B'^\top \psi(t)

    Values at L positions become N coefficients by ridge regression, these attend to each other at a cost of
    :math:`O(N^2)`, and the result is evaluated at the L positions again, which with the fit costs :math:`O(LN)`. What
    is too fine for N functions passes by, in the residual connection; the rest of the layer works on each position.

    The same parameters serve any length and any resolution: a signal that is observed at more positions has the same
    coefficients, up to what it does between them. Positions should therefore be encoded as functions of t in [0, 1],
    not of an index. Called as torch's layer is, with the same parameters under the same names, also in a
    :class:`torch.nn.TransformerEncoder`.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first: as in torch.
        bias, device, dtype: as in torch.
        functions: N Gaussian bumps over [0, 1]; for images a tuple, how many along each axis, ``(8, 8)``; or any basis.
        penalty: of the ridge regression, where the squared error is a mean over positions.
        transform: name of a map, an Omega or a module, in place of softmax.

    ``forward(src, src_mask=None, src_key_padding_mask=None, is_causal=False, *, size=None)`` takes ``[L, B, D]``, or
    ``[B, L, D]`` if ``batch_first``, or ``[L, D]``. In two dimensions L are the cells of an image, row by row: a square
    one, or one of ``size (H, W)``; with ``batch_first`` the image may come as ``[B, H, W, D]`` as well. In one
    dimension padding (True in ``src_key_padding_mask``) leaves the rest spread over [0, 1]; of an image it leaves cells
    out. A ``src_mask`` between positions has no meaning here, and is refused.

        >>> layer = ContinuousEncoderLayer(32, 4, functions=16, batch_first=True).eval()
        >>> layer(torch.randn(2, 1000, 32)).shape, layer(torch.randn(2, 10, 32)).shape
        (torch.Size([2, 1000, 32]), torch.Size([2, 10, 32]))
        >>> image = ContinuousEncoderLayer(32, 4, functions=(6, 6), batch_first=True)
        >>> image(torch.randn(2, 28, 28, 32)).shape
        torch.Size([2, 28, 28, 32])

    Reference: Farinhas, "Visual attention with sparse and continuous transformations" (thesis, 2021), Sec. 7.2, which
    proposes it; Vaswani et al. (NeurIPS 2017).
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        functions: int | tuple[int, ...] | Basis = 64,
        penalty: float = 1e-4,
        transform: str | Omega | torch.nn.Module = "entmax15",
    ):
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
        )
        self.self_attn = MultiheadAttention(
            d_model,
            nhead,
            dropout,
            bias,
            batch_first=batch_first,
            device=device,
            dtype=dtype,
            transform=transform,
        )
        basis = functions if isinstance(functions, Basis) else _make_basis(functions, device)
        self.fit = RidgeFit(basis, None, check_number(NAME, "penalty", penalty, above=0), mean=True)

    @property
    def basis(self) -> Basis:
        """Return the functions of the signal."""
        return self.fit.basis

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        size: tuple[int, ...] | None = None,
    ) -> Tensor:
        """Return what comes of ``src``, in its shape."""
        check_floating(NAME, "src", src)
        if src_mask is not None or is_causal:
            raise ValueError(
                f"{NAME}: src_mask and is_causal say which positions see each other, but attention is between functions"
            )
        size = self._find_size(src, size)
        x = src
        if self.norm_first:
            x = x + self._attend(self.norm1(x), size, src_key_padding_mask)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._attend(x, size, src_key_padding_mask))
        return self.norm2(x + self._ff_block(x))

    def _attend(self, x: Tensor, size: tuple[int, ...], padding: Tensor | None) -> Tensor:
        """Return self-attention between the coefficients of ``x``, evaluated where x is."""
        by_length = not self.self_attn.batch_first and x.dim() == 3
        values = x.transpose(0, 1) if by_length else x.flatten(-1 - self._axes(x), -2)
        dtype, device = working_dtype(values), values.device
        with disable_autocast(device):
            design, operator, present = self._matrices(values, size, padding, dtype)
            kept = values.to(dtype)
            if present is not None:  # a zero column would not stop a NaN
                kept = torch.where(present.unsqueeze(-1), kept, 0.0)
            coefficients = (operator @ kept).to(x.dtype)
        if by_length:
            coefficients = coefficients.transpose(0, 1)
        out = self.self_attn(coefficients, coefficients, coefficients, need_weights=False)[0]
        if by_length:
            out = out.transpose(0, 1)
        with disable_autocast(device):
            out = (design @ out.to(dtype)).to(out.dtype)
        return self.dropout1(out.transpose(0, 1) if by_length else out.reshape(x.shape))

    def _matrices(
        self, values: Tensor, size: tuple[int, ...], padding: Tensor | None, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the functions at positions ``[*, L, N]``, the fit ``[*, N, L]``, and where values are ``[*, L]``."""
        width, device = values.shape[-2], values.device
        points = grid_positions(size, dtype=torch.float64, device=device)
        if padding is None:
            lengths = size[0] if len(size) == 1 else size
            operator = self.fit.operator(lengths, width=width, dtype=dtype, device=device)
            return self.basis(points).to(dtype), operator, None
        present = _check_padding(padding, values)
        if len(size) == 1:  # what is there is spread over [0, 1]
            rank, count = present.cumsum(-1), present.sum(-1, keepdim=True).clamp(min=1)
            points = ((2 * rank - 1).to(torch.float64) / (2 * count)).unsqueeze(-1)
        else:
            points = points.expand(*present.shape, -1)
        operator = self.fit.operator(positions=points, mask=present, dtype=dtype, device=device)
        design = torch.where(present.unsqueeze(-1), self.basis(points).to(dtype), 0.0)
        return design, operator, present

    def _axes(self, src: Tensor) -> int:
        """Return over how many axes of ``src`` the positions lie."""
        n = self.basis.dimension
        return n if n > 1 and src.dim() == n + 2 and self.self_attn.batch_first else 1

    def _find_size(self, src: Tensor, size: tuple[int, ...] | None) -> tuple[int, ...]:
        """Return how many positions there are along each axis."""
        n, features = self.basis.dimension, self.self_attn.embed_dim
        axes = self._axes(src)
        if (src.dim() not in (2, 3) and axes == 1) or src.shape[-1] != features or 0 in src.shape[1:]:
            given = f"got shape {tuple(src.shape)}"
            shapes = f"[B, L, {features}]" if self.self_attn.batch_first else f"[L, B, {features}]"
            raise ValueError(f"{NAME}: src must be {shapes} or [L, {features}] with L >= 1, {given}")
        if axes == n > 1:
            return tuple(src.shape[1:-1])
        width = src.shape[0] if src.dim() == 2 or not self.self_attn.batch_first else src.shape[1]
        if n == 1:
            return (width,)
        side = round(width ** (1 / n))
        size = (side,) * n if size is None else check_sizes(NAME, "size", size, n)
        if math.prod(size) != width:
            raise ValueError(f"{NAME}: size must give {width} cells, got {size}")
        return size


def _make_basis(functions: int | tuple[int, ...], device: torch.device | str | None) -> GaussianRBF:
    """Return bumps on a grid from end to end, as wide along each axis as their distance there asks for."""
    sizes = check_sizes(NAME, "functions", functions)
    widths = [_WIDTH / max(k - 1, 1) for k in reversed(sizes)]  # x is the last axis of an array
    grid = GaussianRBF.grid(sizes, len(sizes), 1.0, False, device=device)
    if len(set(widths)) == 1:
        return GaussianRBF(grid.centers, widths[0] ** 2, False)
    scale = grid.centers.new_tensor(widths).square().expand(len(grid), -1)
    return GaussianRBF(grid.centers, scale, False)


def _check_padding(padding: Tensor, values: Tensor) -> Tensor:
    """Return where there is a value: torch's mask, bool or float, turned around."""
    if tuple(padding.shape) != tuple(values.shape[:-1]):
        wanted, given = tuple(values.shape[:-1]), tuple(padding.shape)
        raise ValueError(f"{NAME}: src_key_padding_mask must have shape {wanted}, got {given}")
    if padding.dtype == torch.bool:
        return ~padding
    if not padding.is_floating_point():
        raise TypeError(f"{NAME}: src_key_padding_mask must be bool (True leaves out) or float, got {padding.dtype}")
    return padding > -math.inf
