"""Mixtures of densities, fitted to weighted points."""

from omegamax.densities import Mixture as Mixture
from omegamax.mixtures._criteria import AIC as AIC
from omegamax.mixtures._criteria import BIC as BIC
from omegamax.mixtures._criteria import MDL as MDL
from omegamax.mixtures._criteria import Criterion as Criterion
from omegamax.mixtures._criteria import Linear as Linear
from omegamax.mixtures._draws import FixedDraws as FixedDraws
from omegamax.mixtures._em import em_objective as em_objective
from omegamax.mixtures._em import weighted_em as weighted_em
from omegamax.mixtures._init import INITS as INITS
from omegamax.mixtures._select import SelectedMixture as SelectedMixture
from omegamax.mixtures._select import select_components as select_components
