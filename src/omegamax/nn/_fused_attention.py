"""When attention can go to the fused kernels, and how its arguments are laid out for them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch._subclasses import FakeTensor

from omegamax._arguments import is_number
from omegamax._checks import is_plain
from omegamax._numerics import is_autocast_enabled
from omegamax._torch_internals import in_forward_mode, in_jit_trace, in_transform
from omegamax.maps import Omega, Tsallis
from omegamax.nn import _attention_operation as operation
from omegamax.nn._pairs import Pairs, broadcast
from omegamax.nn._support import AttentionSupport, share_of_zeros
from omegamax.nn.alpha import Alpha
from omegamax.nn.transforms import Entmax, Entmax15, Sparsemax

FEW = 16  # queries that the maps of rows serve better: a step of decoding
MAPS = (Tsallis, Entmax, Entmax15, Sparsemax)
KINDS = (Tensor, torch.nn.Parameter, FakeTensor)


class FusedCall(NamedTuple):
    """One call of the kernels, ready but for its options."""

    q: Tensor
    k: Tensor
    v: Tensor
    alpha: float | Tensor
    pairs: Pairs
    scale: float
    shape: tuple[int, ...]

    def __call__(self, deterministic: bool, support: bool, dropout: float) -> tuple[Tensor, AttentionSupport | None]:
        pairs = self.pairs
        deterministic = deterministic or torch.are_deterministic_algorithms_enabled()
        window = (pairs.offset, pairs.left, pairs.right)
        options = (self.alpha, pairs.mask, pairs.slopes, pairs.lengths, window, self.scale, deterministic, support)
        out, counts = operation.attend(self.q, self.k, self.v, *options, dropout)
        if len(self.shape) != 3:  # batch, heads and queries are as they should be
            out = out.reshape(*self.shape, out.shape[-1])
        if counts is None:
            return out, None
        return out, AttentionSupport(*(x.reshape(self.shape[:-1]) for x in share_of_zeros(*counts.unbind())))


def find_fused_call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    transform: Omega | torch.nn.Module,
    pairs: Pairs,
    scale: float,
    shape: tuple[int, ...],
) -> FusedCall | None:
    """Return the call that computes attention with scores of this shape, or None if there is no kernel for it."""
    if not isinstance(transform, MAPS):  # first: softmax has another way to go
        return None
    if not operation.usable(q) or shape[-2] <= FEW or shape[-1] == 0 or not is_number(scale) or scale <= 0:
        return None
    if not is_differentiated_plainly(q, k, v, pairs):
        return None
    if is_autocast_enabled(q):
        q, k, v = _cast(q, k, v)
    widest = max(q.shape[-1], v.shape[-1])
    if q.dtype not in operation.DTYPES or not q.dtype == k.dtype == v.dtype or widest > operation.WIDEST:
        return None
    if not q.device == k.device == v.device or (pairs.lengths is not None and len(shape) < 4):
        return None
    heads, lead = (shape[-3] if len(shape) > 2 else 1), shape[:-3]
    of_keys, of_values = [x.shape[-3] if x.dim() > 2 else 1 for x in (k, v)]
    groups = max(of_keys, of_values, 1)
    # Keys and values grouped in different ways, or values for more texts than there are queries and keys.
    if min(of_keys, of_values) not in (1, groups) or heads % groups or broadcast(lead, v.shape[:-3]) != lead:
        return None
    alpha = find_alpha_by_head(transform, heads, len(shape))
    if alpha is None:
        return None
    if isinstance(alpha, Tensor):
        alpha = alpha.to(q.device)
    q, k, v = _four(q, lead, heads), _four(k, lead, groups), _four(v, lead, groups)
    if pairs.mask is not None or pairs.lengths is not None:
        pairs = pairs._replace(
            mask=None if pairs.mask is None else _four_of_mask(pairs.mask, lead),
            lengths=None if pairs.lengths is None else pairs.lengths.reshape(-1),
        )
    return FusedCall(q, k, v, alpha, pairs, scale, tuple(shape[:-1]))


def is_differentiated_plainly(q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> bool:
    """Tell whether gradients are asked for in reverse mode if at all, and not those of masks and slopes."""
    mask, slopes = pairs.mask, pairs.slopes
    if torch.is_grad_enabled() and (
        (mask is not None and mask.requires_grad) or (slopes is not None and slopes.requires_grad)
    ):
        return False
    if in_forward_mode():
        return False
    if torch.compiler.is_compiling():
        return True
    if in_transform() or in_jit_trace():
        return False
    return type(q) in KINDS and type(k) in KINDS and type(v) in KINDS


def _cast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Cast as torch does for its own attention, under autocast."""
    dtype = torch.get_autocast_dtype(tensors[0].device.type)
    return tuple(x.to(dtype) if x.dtype != torch.float64 else x for x in tensors)


def find_alpha_by_head(transform: Omega | torch.nn.Module, heads: int, rank: int) -> float | Tensor | None:
    """Return the alpha of entmax, a scalar or one for each head, if it lies between 1 and 2; None for other maps."""
    kind = type(transform)
    if kind is Entmax15 or kind is Sparsemax:
        alpha: float | Tensor | Alpha = 1.5 if kind is Entmax15 else 2.0
    elif isinstance(transform, (Tsallis, Entmax)) and kind in (Tsallis, Entmax):
        alpha = transform.alpha
    else:
        return None
    if isinstance(transform, torch.nn.Module) and has_hooks(transform):
        return None
    if isinstance(alpha, Alpha):
        axis = -3 if alpha.axis is None or alpha.axis == rank - 3 else alpha.axis
        inside = alpha.low >= 1 and alpha.high <= 2 and axis == -3 and not has_hooks(alpha)
        return _by_head(alpha.value, heads) if inside else None
    if not isinstance(alpha, Tensor):
        return float(alpha) if operation.LOWEST <= alpha <= 2 else None
    if alpha.numel() not in (1, heads) or (alpha.numel() > 1 and (alpha.dim() < 3 or alpha.shape[-3] != heads)):
        return None
    return _by_head(alpha, heads) if _inside(alpha) else None


def has_hooks(module: torch.nn.Module) -> bool:
    """Tell whether hooks listen to its calls."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _by_head(alpha: Tensor, heads: int) -> Tensor:
    return alpha.reshape(-1).expand(heads)


def _inside(alpha: Tensor) -> bool:
    """Reads the values, which waits for the device: not while a graph is made."""
    if torch.compiler.is_compiling() or not is_plain(alpha):
        return False
    if alpha.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    low, high = (float(x) for x in alpha.detach().aminmax())
    return low >= operation.LOWEST and high <= 2


def _four(x: Tensor, lead: tuple[int, ...], heads: int) -> Tensor:
    """Reshape to ``[B, heads, *, *]``, all leading axes in one."""
    if x.shape[:-2] == (*lead, heads) and len(lead) == 1:
        return x
    return x.expand(*lead, heads, *x.shape[-2:]).reshape(math.prod(lead), heads, *x.shape[-2:])


def _four_of_mask(mask: Tensor, lead: tuple[int, ...]) -> Tensor:
    """Four axes that broadcast to ``[B, H, L, S]``; a mask that is the same for all stays small."""
    mask = mask.float() if mask.dtype == torch.float64 else mask
    if mask.dim() > 1 and mask.stride(-2) == 0:  # expanded by the caller
        mask = mask[..., :1, :]
    if mask.dim() == 4 and len(lead) == 1:
        return mask
    mask = mask.reshape((1,) * max(3 - mask.dim(), 0) + tuple(mask.shape))
    if all(size == 1 for size in mask.shape[:-3]):
        return mask.reshape(1, *mask.shape[-3:])
    return mask.expand(*lead, *mask.shape[-3:]).reshape(math.prod(lead), *mask.shape[-3:])
