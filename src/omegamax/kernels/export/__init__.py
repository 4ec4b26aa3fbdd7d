r"""Maps in plain operators of torch, for graphs that run without omegamax: ONNX, ``torch.export``, ``torch.jit.trace``.

A function here takes what the kernel of its name takes. No step depends on values: loops have a fixed number of steps.
Rows may have any length, except for :func:`tv_chain`; where it is known while a graph is made, fewer steps are written
down. Closed forms are computed in the dtype of the scores, all others in float64, because thresholds are differences of
sums. As everywhere, a row with nothing left (all ``-inf``) gives zeros, one that holds NaN or ``+inf`` gives NaN.
"""

from omegamax.kernels.export.bounds import box_simplex as box_simplex
from omegamax.kernels.export.bounds import capped_softmax as capped_softmax
from omegamax.kernels.export.bounds import k_subsets as k_subsets
from omegamax.kernels.export.chain import tv_chain as tv_chain
from omegamax.kernels.export.thresholds import entmax as entmax
from omegamax.kernels.export.thresholds import normmax as normmax
