"""A game of signals: one network sees a picture and sends a symbol, another guesses from it which picture it was."""

from omegamax.models.signals.distributions import DISTRIBUTIONS as DISTRIBUTIONS
from omegamax.models.signals.distributions import symbol_distribution as symbol_distribution
from omegamax.models.signals.game import Play as Play
from omegamax.models.signals.game import SignalGame as SignalGame
from omegamax.models.signals.receiver import Receiver as Receiver
from omegamax.models.signals.sender import Sender as Sender
