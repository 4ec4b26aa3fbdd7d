"""Maps from scores to probabilities."""

from omegamax.functional._budget import k_subsets as k_subsets
from omegamax.functional._constrained import constrained_softmax as constrained_softmax
from omegamax.functional._constrained import constrained_sparsemax as constrained_sparsemax
from omegamax.functional._entmax import entmax as entmax
from omegamax.functional._entmax import entmax15 as entmax15
from omegamax.functional._entmax import softmax as softmax
from omegamax.functional._entmax import sparsemax as sparsemax
from omegamax.functional._fused import fusedmax as fusedmax
from omegamax.functional._fused import graph_fusedmax as graph_fusedmax
from omegamax.functional._fused import tvmax as tvmax
from omegamax.functional._normmax import normmax as normmax
from omegamax.functional._oscar import oscar_prox as oscar_prox
from omegamax.functional._oscar import oscarmax as oscarmax
from omegamax.functional._sequential import sequential_k_subsets as sequential_k_subsets
from omegamax.functional._variation import tv_prox_1d as tv_prox_1d
from omegamax.functional._variation import tv_prox_2d as tv_prox_2d
from omegamax.functional._variation import tv_prox_graph as tv_prox_graph
