"""The ``adasplash`` package (0.2) on top of omegamax: change one import, keep the rest.

    >>> import torch
    >>> import omegamax.compat.adasplash as adasplash
    >>> adasplash.triton_sparsemax(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.7500, 0.2500, 0.0000])
    >>> q = k = v = torch.eye(3).reshape(1, 1, 3, 3)
    >>> adasplash.adasplash(q, k, v, alpha=2.0, is_causal=True)[0, 0, 1]
    tensor([0.2113, 0.7887, 0.0000])

Where the two differ: it also runs on CPUs, any length and any head size do, every alpha is exact, and numbers of
iterations, histograms and fast mathematics are accepted and not needed. Its submodules are here under their names,
``adasplash.triton_entmax`` and the like, with the functions that are called from outside, not with the kernels.
"""

from __future__ import annotations

from omegamax.compat.adasplash._attention import adasplash as adasplash
from omegamax.compat.adasplash._attention import adasplash2 as adasplash2
from omegamax.compat.adasplash._attention import adasplash_no_block_mask as adasplash_no_block_mask
from omegamax.compat.adasplash._attention import adasplash_v1 as adasplash_v1
from omegamax.compat.adasplash._attention import adasplash_v2 as adasplash_v2
from omegamax.compat.adasplash._attention import entmax_attention as entmax_attention
from omegamax.compat.adasplash._rows import triton_entmax as triton_entmax
from omegamax.compat.adasplash._rows import triton_entmax15 as triton_entmax15
from omegamax.compat.adasplash._rows import triton_entmax_v1 as triton_entmax_v1
from omegamax.compat.adasplash._rows import triton_entmax_v2 as triton_entmax_v2
from omegamax.compat.adasplash._rows import triton_sparsemax as triton_sparsemax

__version__ = "0.2.0"  # of the package that this stands in for

__all__ = [
    "__version__",
    "adasplash",
    "adasplash2",
    "adasplash_no_block_mask",
    "adasplash_v1",
    "adasplash_v2",
    "entmax_attention",
    "triton_entmax",
    "triton_entmax15",
    "triton_entmax_v1",
    "triton_entmax_v2",
    "triton_sparsemax",
]
