"""Maps from scores to probabilities, as functions."""

from collections.abc import Callable as _Callable

from omegamax.maps import find_companion as _find_companion
from omegamax.maps.constrained import constrained_softmax as constrained_softmax
from omegamax.maps.constrained import constrained_sparsemax as constrained_sparsemax
from omegamax.maps.entmax import entmax as entmax
from omegamax.maps.entmax import entmax15 as entmax15
from omegamax.maps.entmax import softmax as softmax
from omegamax.maps.entmax import sparsemax as sparsemax
from omegamax.maps.escort import escort as escort
from omegamax.maps.escort import generalized_covariance as generalized_covariance
from omegamax.maps.fusedmax import fusedmax as fusedmax
from omegamax.maps.graph_fusedmax import graph_fusedmax as graph_fusedmax
from omegamax.maps.k_subsets import k_subsets as k_subsets
from omegamax.maps.normmax import normmax as normmax
from omegamax.maps.oscarmax import oscar_prox as oscar_prox
from omegamax.maps.oscarmax import oscarmax as oscarmax
from omegamax.maps.sequential_k_subsets import sequential_k_subsets as sequential_k_subsets
from omegamax.maps.total_variation import tv_prox_1d as tv_prox_1d
from omegamax.maps.total_variation import tv_prox_2d as tv_prox_2d
from omegamax.maps.total_variation import tv_prox_graph as tv_prox_graph
from omegamax.maps.tvmax import tvmax as tvmax


def __getattr__(name: str) -> _Callable:
    """Find the function of a registered map."""
    record = _find_companion("name", name)
    if record is None:
        raise AttributeError(
            f"module 'omegamax.functional' has no attribute {name!r}, nor is a registered map called so"
        )
    return record.function
