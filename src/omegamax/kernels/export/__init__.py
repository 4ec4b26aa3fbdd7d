r"""Maps in plain operators of torch, for graphs that run without omegamax: ONNX, ``torch.export``, ``torch.jit.trace``.

A function here takes what the kernel of its name takes. No step depends on values: loops have a fixed number of steps.
Rows may have any length, except for :func:`tv_chain`; where it is known while a graph is made, fewer steps are written
down. Closed forms are computed in the dtype of the scores, all others in float64, because thresholds are differences of
sums. As everywhere, a row with nothing left (all ``-inf``) gives zeros, one that holds NaN or ``+inf`` gives NaN.
"""

from omegamax.kernels.export.bounds import box_simplex, capped_softmax, k_subsets
from omegamax.kernels.export.chain import tv_chain
from omegamax.kernels.export.thresholds import entmax, normmax

__all__ = ["box_simplex", "capped_softmax", "entmax", "k_subsets", "normmax", "tv_chain"]
