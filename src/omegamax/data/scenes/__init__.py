"""Coloured shapes on textured ground, with questions: a set that needs no download."""

from omegamax.data.scenes.cells import Cells as Cells
from omegamax.data.scenes.dataset import Asked as Asked
from omegamax.data.scenes.dataset import Scenes as Scenes
from omegamax.data.scenes.questions import BASIC_QUESTIONS as BASIC_QUESTIONS
from omegamax.data.scenes.questions import QUESTIONS as QUESTIONS
from omegamax.data.scenes.scene import COLOURS as COLOURS
from omegamax.data.scenes.scene import Scene as Scene
from omegamax.data.scenes.scene import Thing as Thing
from omegamax.data.scenes.shapes import SHAPES as SHAPES
