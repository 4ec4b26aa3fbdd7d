"""Layers: every map and loss as a module, and attention with any map in place of softmax."""

from omegamax.nn.additive import AdditiveAttention as AdditiveAttention
from omegamax.nn.alpha import Alpha as Alpha
from omegamax.nn.attention import attention as attention
from omegamax.nn.continuous import ContinuousAttention as ContinuousAttention
from omegamax.nn.losses import Entmax15Loss as Entmax15Loss
from omegamax.nn.losses import EntmaxLoss as EntmaxLoss
from omegamax.nn.losses import FenchelYoungLoss as FenchelYoungLoss
from omegamax.nn.losses import KSubsetsLoss as KSubsetsLoss
from omegamax.nn.losses import NormmaxLoss as NormmaxLoss
from omegamax.nn.losses import SoftmaxLoss as SoftmaxLoss
from omegamax.nn.losses import SparsemaxLoss as SparsemaxLoss
from omegamax.nn.multihead import MultiheadAttention as MultiheadAttention
from omegamax.nn.multimodal import MultimodalAttention as MultimodalAttention
from omegamax.nn.transforms import ConstrainedSoftmax as ConstrainedSoftmax
from omegamax.nn.transforms import ConstrainedSparsemax as ConstrainedSparsemax
from omegamax.nn.transforms import Entmax as Entmax
from omegamax.nn.transforms import Entmax15 as Entmax15
from omegamax.nn.transforms import KSubsets as KSubsets
from omegamax.nn.transforms import Normmax as Normmax
from omegamax.nn.transforms import Softmax as Softmax
from omegamax.nn.transforms import Sparsemax as Sparsemax
