"""Emergent communication: two networks that make up a language, in order to tell pictures apart."""

from omegamax.tasks.communication.copies import GameCopies as GameCopies
from omegamax.tasks.communication.data import CommunicationData as CommunicationData
from omegamax.tasks.communication.games import ConceptMembers as ConceptMembers
from omegamax.tasks.communication.games import ConceptOrder as ConceptOrder
from omegamax.tasks.communication.games import Games as Games
from omegamax.tasks.communication.games import draw_concept_games as draw_concept_games
from omegamax.tasks.communication.games import draw_games as draw_games
from omegamax.tasks.communication.scores import GameScores as GameScores
from omegamax.tasks.communication.task import CommunicationTask as CommunicationTask
