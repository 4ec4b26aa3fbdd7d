"""Associative memories: energies of any Omega, retrieval, and when it is exact."""

from omegamax.hopfield._memory import Memory as Memory
from omegamax.hopfield._memory import Retrieval as Retrieval
from omegamax.hopfield._psi import Identity as Identity
from omegamax.hopfield._psi import L2Norm as L2Norm
from omegamax.hopfield._psi import LayerNorm as LayerNorm
from omegamax.hopfield._psi import Psi as Psi
from omegamax.hopfield._psi import Sign as Sign
from omegamax.hopfield._psi import resolve_psi as resolve_psi
from omegamax.hopfield._separable import Exponential as Exponential
from omegamax.hopfield._separable import Power as Power
from omegamax.hopfield._theory import beta_for as beta_for
from omegamax.hopfield._theory import capacity as capacity
from omegamax.hopfield._theory import lead as lead
from omegamax.hopfield._theory import radius as radius
from omegamax.hopfield._theory import retrieved_exactly as retrieved_exactly
from omegamax.hopfield._theory import separation as separation
from omegamax.hopfield._theory import threshold as threshold
