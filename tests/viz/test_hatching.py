"""Hatching means exactly 0, so it must be seen on every ground: dark, bright, striped, busy."""

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from omegamax import viz
from omegamax.densities import TruncatedParaboloid

SIDE = 160
Y, X = (axis.double() for axis in torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij"))
NOISE = torch.rand(3, SIDE, SIDE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def stripes(direction, pitch):
    return ((direction // pitch) % 2).expand(3, SIDE, SIDE)


def photograph():
    """Smooth shapes in colour with texture on them."""
    waves = [torch.sin(X / a) * torch.cos(Y / b) for a, b in ((9, 14), (21, 8), (13, 31))]
    return (0.5 + 0.3 * torch.stack(waves) + 0.4 * (NOISE - 0.5)).clamp(0, 1)


GROUNDS = {
    "black": torch.zeros(3, SIDE, SIDE),
    "white": torch.ones(3, SIDE, SIDE),
    "grey": torch.full((3, SIDE, SIDE), 0.5),
    "noise": NOISE,
    "chequered": ((X // 6 + Y // 6) % 2).expand(3, SIDE, SIDE),
    "photograph": photograph(),
    "half dark": (X > SIDE / 2).double().expand(3, SIDE, SIDE),
    **{f"upright {pitch}": stripes(X, pitch) for pitch in (2, 5, 11)},
    **{f"level {pitch}": stripes(Y, pitch) for pitch in (2, 5, 11)},
    # Along the strokes, also as far apart as they are (1/20 of the width), and across them.
    **{f"along {pitch}": stripes(X + Y, pitch) for pitch in (2, 4, 8)},
    **{f"across {pitch}": stripes(X - Y + SIDE, pitch) for pitch in (2, 4, 8)},
}


def luminance(draw, dpi=120):
    """What is drawn on axes that fill the figure, as on the page of a report; ``[H, W]`` in [0, 1]."""
    figure = Figure(figsize=(2.6, 2.6), dpi=dpi)
    draw(figure.add_axes((0, 0, 1, 1)))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3] @ np.array([0.2126, 0.7152, 0.0722]) / 255


def windows(shown, size=32):
    rows, columns = shown.shape[0] // size, shown.shape[1] // size
    return shown[: rows * size, : columns * size].reshape(rows, size, columns, size).swapaxes(1, 2).reshape(-1, size**2)


@pytest.mark.parametrize("dpi", [100, 140, 200])
@pytest.mark.parametrize("ground", GROUNDS)
def test_hatched_cells_stand_out_from_all_others(ground, dpi):
    weights = torch.cat([torch.zeros(8, 4), torch.full((8, 4), 1 / 32)], 1)
    image = GROUNDS[ground]
    shown, bare = (
        luminance(lambda ax, z=z: viz.overlay(image, weights, ax, vmax=50, zeros=z, key=False), dpi)
        for z in ("hatch", None)
    )
    margin = 12  # the edge of the cells has a line of its own
    half = shown.shape[1] // 2
    hatched, rest = (
        windows(shown[margin:-margin, margin : half - margin]),
        shown[margin:-margin, half + margin : -margin],
    )
    # In every part there are strokes, dark and light ones, darker than anything where attention is above 0.
    assert np.quantile(hatched, 0.03, axis=1).max() < 0.4 < rest.min()
    assert np.quantile(hatched, 0.97, axis=1).min() > 0.9
    changed = np.abs(hatched - windows(bare[margin:-margin, margin : half - margin]))
    assert changed.mean(1).min() > 0.1


@pytest.mark.parametrize("ground", GROUNDS)
def test_what_lies_under_hatching_is_flat(ground):
    p = TruncatedParaboloid.from_moments(torch.tensor([0.2, 0.2]), 0.001)
    shown = luminance(lambda ax: viz.contours(GROUNDS[ground], p, ax, key=False))
    far = windows(shown[160:300, 160:300])
    between = far[(far > 0.6) & (far < 0.95)]  # neither a dark nor a light line
    assert np.ptp(np.quantile(between, [0.05, 0.95])) < 0.3


def test_strokes_of_a_fine_grid_leave_room_between_them():
    weights = torch.zeros(40, 40)
    weights[:, 20:] = 1 / 800
    shown = luminance(lambda ax: viz.overlay(GROUNDS["white"], weights, ax, key=False), dpi=200)
    dark = (shown[20:-20, 20 : shown.shape[1] // 2 - 20] < 0.4).mean()
    assert 0.05 < dark < 0.4
