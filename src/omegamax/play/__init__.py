"""The playground: every map and density in one page, computed in the browser by code of its own."""

from omegamax.play.page import make_playground as make_playground
