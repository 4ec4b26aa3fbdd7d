"""Maps onto polytopes of structures: subsets, sequences, trees, and one's own."""

from omegamax._warnings import ConvergenceWarning as ConvergenceWarning
from omegamax.structured._count import AtMostOne as AtMostOne
from omegamax.structured._count import Budget as Budget
from omegamax.structured._count import Imply as Imply
from omegamax.structured._count import Or as Or
from omegamax.structured._count import Xor as Xor
from omegamax.structured._count import XorOut as XorOut
from omegamax.structured._factor import Factor as Factor
from omegamax.structured._graph import FactorGraph as FactorGraph
from omegamax.structured._graph_omega import GraphOmega as GraphOmega
from omegamax.structured._loss import sparsemap_loss as sparsemap_loss
from omegamax.structured._matching import Matching as Matching
from omegamax.structured._omega import StructuredOmega as StructuredOmega
from omegamax.structured._or_out import AndOut as AndOut
from omegamax.structured._or_out import OrOut as OrOut
from omegamax.structured._pair import Pair as Pair
from omegamax.structured._sequence import Sequence as Sequence
from omegamax.structured._solution import Solution as Solution
from omegamax.structured._solution import Structures as Structures
from omegamax.structured._solver import Report as Report
from omegamax.structured._sparsemap import sparsemap as sparsemap
from omegamax.structured._subsets import SequentialSubsets as SequentialSubsets
from omegamax.structured._subsets import Subsets as Subsets
from omegamax.structured._trees import DependencyTree as DependencyTree
from omegamax.structured._trees import SpanningTree as SpanningTree
from omegamax.structured._variables import Variable as Variable
