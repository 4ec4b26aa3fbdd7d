"""Mixed distributions: distributions on the faces of a simplex, discrete and continuous at once."""

from omegamax.mixed import _kl as _kl  # registers with torch
from omegamax.mixed._base import Mixed as Mixed
from omegamax.mixed._faces import face_of as face_of
from omegamax.mixed._faces import faces as faces
from omegamax.mixed._gaussian_sparsemax import GaussianSparsemax as GaussianSparsemax
from omegamax.mixed._gumbel_softmax import GumbelSoftmax as GumbelSoftmax
from omegamax.mixed._hard_concrete import HardConcrete as HardConcrete
from omegamax.mixed._information import Estimate as Estimate
from omegamax.mixed._information import code_length as code_length
from omegamax.mixed._information import entropy as entropy
from omegamax.mixed._information import kl_divergence as kl_divergence
from omegamax.mixed._information import mutual_information as mutual_information
from omegamax.mixed._logistic_normal import LogisticNormal as LogisticNormal
from omegamax.mixed._max_entropy import MaxEntropyMixed as MaxEntropyMixed
from omegamax.mixed._max_entropy import max_entropy as max_entropy
from omegamax.mixed._mixed_dirichlet import MixedDirichlet as MixedDirichlet
from omegamax.mixed._quadrature import face_nodes as face_nodes
