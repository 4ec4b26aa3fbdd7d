"""The maps from scores to probabilities, one family a file, and the register that finds them by name.

A file holds the regulariser, the function with its derivative rules, and the record from which the rest of the library
is made; what is long by itself stands in a private file beside it. The functions are in :mod:`omegamax.functional`.
"""

# ruff: noqa: I001  (the order in which tables list the maps; families that are not named here come after them)

from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules

from omegamax.maps.omega import Omega as Omega
from omegamax.maps.record import Learnable as Learnable
from omegamax.maps.record import MapRecord as MapRecord
from omegamax.maps.registry import find as find
from omegamax.maps.registry import find_companion as find_companion
from omegamax.maps.registry import get as get
from omegamax.maps.registry import records as records
from omegamax.maps.registry import register as register
from omegamax.maps.registry import unregister as unregister
from omegamax.maps.entmax import Shannon as Shannon
from omegamax.maps.entmax import Tsallis as Tsallis
from omegamax.maps.normmax import NormEntropy as NormEntropy
from omegamax.maps.k_subsets import KSubsets as KSubsets
from omegamax.maps.constrained import Bounded as Bounded
from omegamax.maps.fusedmax import Fused as Fused
from omegamax.maps.tvmax import TotalVariation2d as TotalVariation2d
from omegamax.maps.graph_fusedmax import GraphFused as GraphFused
from omegamax.maps.oscarmax import Oscar as Oscar
from omegamax.maps.sequential_k_subsets import SequentialKSubsets as SequentialKSubsets
from omegamax.maps.squared_norm import SquaredNorm as SquaredNorm
from omegamax.maps.sharpness import match_sharpness as match_sharpness

for _module in _iter_modules(__path__):
    _import_module(f"{__name__}.{_module.name}")
