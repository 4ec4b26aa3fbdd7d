"""Layers: every map and loss as a module, and attention with any map in place of softmax."""

from omegamax.maps import find_companion as _find_companion
from omegamax.nn._certified import Certificate as Certificate
from omegamax.nn._support import AttentionSupport as AttentionSupport
from omegamax.nn.additive import AdditiveAttention as AdditiveAttention
from omegamax.nn.alpha import Alpha as Alpha
from omegamax.nn.attention import attention as attention
from omegamax.nn.bilinear import BilinearAttention as BilinearAttention
from omegamax.nn.continuous import ContinuousAttention as ContinuousAttention
from omegamax.nn.continuous_encoder import ContinuousEncoderLayer as ContinuousEncoderLayer
from omegamax.nn.hopfield import Hopfield as Hopfield
from omegamax.nn.hopfield_layer import HopfieldLayer as HopfieldLayer
from omegamax.nn.hopfield_pooling import HopfieldPooling as HopfieldPooling
from omegamax.nn.length_scale import LengthScale as LengthScale
from omegamax.nn.long_term_memory import LongTermMemory as LongTermMemory
from omegamax.nn.losses import Entmax15Loss as Entmax15Loss
from omegamax.nn.losses import EntmaxLoss as EntmaxLoss
from omegamax.nn.losses import FenchelYoungLoss as FenchelYoungLoss
from omegamax.nn.losses import KSubsetsLoss as KSubsetsLoss
from omegamax.nn.losses import NormmaxLoss as NormmaxLoss
from omegamax.nn.losses import SoftmaxLoss as SoftmaxLoss
from omegamax.nn.losses import SparsemaxLoss as SparsemaxLoss
from omegamax.nn.losses import SquaredLoss as SquaredLoss
from omegamax.nn.losses import make_loss_module as _make_loss_module
from omegamax.nn.memory_state import MemoryState as MemoryState
from omegamax.nn.multihead import MultiheadAttention as MultiheadAttention
from omegamax.nn.multimodal import MultimodalAttention as MultimodalAttention
from omegamax.nn.paged_cache import PagedCache as PagedCache
from omegamax.nn.query import QueryAttention as QueryAttention
from omegamax.nn.strength import Strength as Strength
from omegamax.nn.structured import SparseMAP as SparseMAP
from omegamax.nn.structured import SparseMAPLoss as SparseMAPLoss
from omegamax.nn.token_output import TokenOutput as TokenOutput
from omegamax.nn.transforms import ConstrainedSoftmax as ConstrainedSoftmax
from omegamax.nn.transforms import ConstrainedSparsemax as ConstrainedSparsemax
from omegamax.nn.transforms import Entmax as Entmax
from omegamax.nn.transforms import Entmax15 as Entmax15
from omegamax.nn.transforms import Fusedmax as Fusedmax
from omegamax.nn.transforms import GraphFusedmax as GraphFusedmax
from omegamax.nn.transforms import KSubsets as KSubsets
from omegamax.nn.transforms import Normmax as Normmax
from omegamax.nn.transforms import Oscarmax as Oscarmax
from omegamax.nn.transforms import SequentialKSubsets as SequentialKSubsets
from omegamax.nn.transforms import Softmax as Softmax
from omegamax.nn.transforms import Sparsemax as Sparsemax
from omegamax.nn.transforms import TVmax as TVmax
from omegamax.nn.transforms import make_module as _make_module


def __getattr__(name: str) -> type:
    """Find the Module of a registered map, or of its loss."""
    record = _find_companion("module", name)
    if record is not None:
        return _make_module(record)
    record = _find_companion("loss module", name)
    if record is None:
        raise AttributeError(f"module 'omegamax.nn' has no attribute {name!r}, nor is the Module of a map called so")
    return _make_loss_module(record)
