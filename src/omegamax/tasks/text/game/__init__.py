"""The explanation game: how well a layperson learns from explanations what a classifier decides."""

from omegamax.tasks.text.game.layperson import Layperson as Layperson
from omegamax.tasks.text.game.messages import Messages as Messages
from omegamax.tasks.text.game.messages import choose_words as choose_words
from omegamax.tasks.text.game.messages import collect_messages as collect_messages
from omegamax.tasks.text.game.play import EXPLAINERS as EXPLAINERS
from omegamax.tasks.text.game.play import GameResult as GameResult
from omegamax.tasks.text.game.play import play as play
from omegamax.tasks.text.game.scaffold import Student as Student
from omegamax.tasks.text.game.scaffold import teach_student as teach_student
from omegamax.tasks.text.game.scaffold import train_scaffold as train_scaffold
from omegamax.tasks.text.game.trained import train_explainer as train_explainer
