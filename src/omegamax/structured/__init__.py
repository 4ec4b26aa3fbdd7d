"""Maps onto polytopes of structures: subsets, sequences, trees, and one's own."""

from omegamax._warnings import ConvergenceWarning as ConvergenceWarning
from omegamax.functional._sparsemap import Solution as Solution
from omegamax.functional._sparsemap import Structures as Structures
from omegamax.structured._dependency import DependencyTree as DependencyTree
from omegamax.structured._factor import Factor as Factor
from omegamax.structured._loss import sparsemap_loss as sparsemap_loss
from omegamax.structured._sequence import Sequence as Sequence
from omegamax.structured._spanning import SpanningTree as SpanningTree
from omegamax.structured._sparsemap import sparsemap as sparsemap
from omegamax.structured._subsets import KSubsets as KSubsets
from omegamax.structured._subsets import SequentialKSubsets as SequentialKSubsets
