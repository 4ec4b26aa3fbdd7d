"""Pictures: tensors in, matplotlib axes out. Needs ``pip install omegamax[viz]``."""

from omegamax.viz._marks import Mark as Mark
from omegamax.viz._marks import swatch as swatch
from omegamax.viz.alignment import alignment as alignment
from omegamax.viz.arcs import arcs as arcs
from omegamax.viz.bars import bars as bars
from omegamax.viz.basins import basins as basins
from omegamax.viz.contours import contours as contours
from omegamax.viz.density import density as density
from omegamax.viz.density_rows import density_rows as density_rows
from omegamax.viz.ellipses import ellipses as ellipses
from omegamax.viz.faces import faces as faces
from omegamax.viz.heatmap import heatmap as heatmap
from omegamax.viz.key import marks_of as marks_of
from omegamax.viz.looks import looks as looks
from omegamax.viz.looks import shared_vmax as shared_vmax
from omegamax.viz.losses import losses as losses
from omegamax.viz.outline import outline as outline
from omegamax.viz.overlay import overlay as overlay
from omegamax.viz.path import path as path
from omegamax.viz.simplex import plane as plane
from omegamax.viz.simplex import simplex as simplex
from omegamax.viz.strip import strip as strip
from omegamax.viz.style import colour as colour
from omegamax.viz.style import panels as panels
from omegamax.viz.style import style as style
from omegamax.viz.words import words as words
