"""When attention to a paged cache can go to the GPU's kernels, and how its arguments are laid out for them."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._checks import is_plain
from omegamax._torch_internals import in_forward_mode
from omegamax.kernels.attention.paged import Decoded, PagedCall
from omegamax.maps import Omega
from omegamax.nn import _attention_operation as operation
from omegamax.nn._fused_attention import find_alpha_by_head
from omegamax.nn.paged_cache import PagedCache


def decode_on_gpu(
    q: Tensor, cache: PagedCache, transform: Omega | torch.nn.Module, scale: float, limits: Tensor
) -> Decoded | None:
    """Return attention of ``q [*, H, L, D]`` to the first ``limits`` keys of the cache; None without a kernel.

    The kernels wait for nothing, give no gradients, and take entmax with alpha in (1, 2]. What is returned has the
    leading axes of ``q``.
    """
    if not operation.usable(q) or not is_plain(q) or in_forward_mode() or not is_number(scale):
        return None
    keys, values = cache.keys, cache.values
    widest = max(keys.shape[-1], values.shape[-1])
    if q.dtype != keys.dtype or not {q.dtype, values.dtype} <= set(operation.DTYPES) or widest > operation.WIDEST:
        return None
    *lead, heads, count, features = q.shape
    alpha = find_alpha_by_head(transform, heads, q.dim())
    if alpha is None or keys.shape[-2] == 0 or keys.device != q.device:
        return None
    learnt = q.requires_grad or (isinstance(alpha, Tensor) and alpha.requires_grad)
    if learnt and torch.is_grad_enabled():
        return None
    texts = keys.shape[:-2].numel()
    rows = q.shape[:-1].numel() // max(texts, 1)
    alphas = None
    if isinstance(alpha, Tensor):
        by_query = alpha.detach().to(q.device, torch.float32)[:, None].expand(*lead, heads, count)
        alphas = by_query.reshape(texts, rows).contiguous()
    low, high = cache.extremes
    call = PagedCall(
        q=q.detach().reshape(texts, rows, features).contiguous(),
        k=keys.flatten(0, -3),
        v=values.flatten(0, -3),
        low=low.flatten(0, -3),
        high=high.flatten(0, -3),
        codes=cache.codes.flatten(0, -4),
        limits=limits.expand(*lead, heads, count).reshape(texts, rows).to(torch.int32).contiguous(),
        alpha=0.0 if isinstance(alpha, Tensor) else alpha,
        alphas=alphas,
        scale=float(scale),
        page=cache.page,
    )
    from omegamax.kernels.attention.triton.decode import decode

    out, *certificate = decode(call)
    shape = (*lead, heads, count)
    return Decoded(out.reshape(*shape, out.shape[-1]), *(x.reshape(shape) for x in certificate))
