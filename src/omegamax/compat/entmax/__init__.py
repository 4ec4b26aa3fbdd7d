"""The ``entmax`` package (1.3) on top of omegamax: change one import, keep the rest.

    >>> import torch
    >>> import omegamax.compat.entmax as entmax
    >>> entmax.sparsemax(torch.tensor([1.0, 0.5, -1.0]), dim=-1)
    tensor([0.7500, 0.2500, 0.0000])
    >>> entmax.Entmax15Loss()(torch.tensor([[3.0, 0.0, -1.0]]), torch.tensor([0]))
    tensor(0.)

Where the two differ: rows with every entry masked give zeros, half precision is computed in float32, any negative
``dim`` works, ``n_iter`` and ``ensure_sum_one`` are always honoured, a bisection with ``n_iter`` enough for the dtype
is exact, negative ``ignore_index`` values are honoured, and gradients reach ``alpha`` and ``budget``.
"""

from omegamax.compat.entmax.activations import Entmax15 as Entmax15
from omegamax.compat.entmax.activations import Sparsemax as Sparsemax
from omegamax.compat.entmax.activations import entmax15 as entmax15
from omegamax.compat.entmax.activations import sparsemax as sparsemax
from omegamax.compat.entmax.losses import Entmax15Loss as Entmax15Loss
from omegamax.compat.entmax.losses import EntmaxBisectLoss as EntmaxBisectLoss
from omegamax.compat.entmax.losses import NormmaxBisectLoss as NormmaxBisectLoss
from omegamax.compat.entmax.losses import SparsemaxBisectLoss as SparsemaxBisectLoss
from omegamax.compat.entmax.losses import SparsemaxLoss as SparsemaxLoss
from omegamax.compat.entmax.losses import entmax15_loss as entmax15_loss
from omegamax.compat.entmax.losses import entmax_bisect_loss as entmax_bisect_loss
from omegamax.compat.entmax.losses import normmax_bisect_loss as normmax_bisect_loss
from omegamax.compat.entmax.losses import sparsemax_bisect_loss as sparsemax_bisect_loss
from omegamax.compat.entmax.losses import sparsemax_loss as sparsemax_loss
from omegamax.compat.entmax.root_finding import BudgetBisect as BudgetBisect
from omegamax.compat.entmax.root_finding import EntmaxBisect as EntmaxBisect
from omegamax.compat.entmax.root_finding import NormmaxBisect as NormmaxBisect
from omegamax.compat.entmax.root_finding import SparsemaxBisect as SparsemaxBisect
from omegamax.compat.entmax.root_finding import budget_bisect as budget_bisect
from omegamax.compat.entmax.root_finding import entmax_bisect as entmax_bisect
from omegamax.compat.entmax.root_finding import normmax_bisect as normmax_bisect
from omegamax.compat.entmax.root_finding import sparsemax_bisect as sparsemax_bisect

__version__ = "1.3"
