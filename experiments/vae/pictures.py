"""Draw what networks make of pictures, beside the codes they send: ``bits.png`` and ``simplex.png``.

python experiments/vae/pictures.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from job import CODES, KINDS, SETS
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from tables import NAMES

HERE = Path(__file__).parent
COLUMNS = 8
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
ZERO, ONE, LOW, HIGH = "#1b1b1b", "#ffffff", "#fde0c5", "#c0421a"  # exactly 0, exactly 1, and what is between


def read(folder: Path, name: str, codes: str, kind: str) -> dict[str, np.ndarray] | None:
    """What a run kept, or None."""
    path = folder / f"{name}-{codes}-{kind}-full.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


def kept(folder: Path, codes: str) -> list[str]:
    """Distributions of which there is something to draw."""
    return [kind for kind in KINDS[codes] if any(read(folder, name, codes, kind) for name in SETS)]


def colours(first: np.ndarray) -> np.ndarray:
    """Of numbers in [0, 1], ``[*, 3]``: both ends stand out from all that is between."""
    low, high = np.array(to_rgb(LOW)), np.array(to_rgb(HIGH))
    shade = first[..., None].astype(float)
    made = (1 - shade) * low + shade * high
    made[first == 0], made[first == 1] = to_rgb(ZERO), to_rgb(ONE)
    return made


def draw_bits(axes: Axes, code: np.ndarray, face: np.ndarray) -> None:
    """128 variables as 8 x 16 cells."""
    if code.shape[-1] == 1:  # real numbers
        axes.imshow(code[:, 0].astype(float).reshape(8, 16), cmap="PuOr", vmin=-3, vmax=3)
    else:
        # A number that rounds to an end is not at the end; the face knows.
        first = np.where(face[:, 1], np.clip(code[:, 0].astype(float), 1e-6, 1 - 1e-6), 1.0)
        axes.imshow(colours(np.where(face[:, 0], first, 0.0)).reshape(8, 16, 3))


def draw_simplex(axes: Axes, code: np.ndarray, face: np.ndarray) -> None:
    """Ten entries as bars; an entry that is exactly 0 has none, and a small mark."""
    axes.set_facecolor("white")
    if code.shape[-1] == 1:  # real numbers
        axes.bar(range(len(code)), code[:, 0].astype(float), color="#6a51a3", width=0.8)
        axes.axhline(0, color="0.6", linewidth=0.5)
        axes.set_ylim(-3, 3)
    else:
        value = code[0].astype(float)
        axes.bar(range(len(value)), np.where(face[0], np.maximum(value, 0.01), 0), color=HIGH, width=0.8)
        zero = np.flatnonzero(~face[0])
        axes.plot(zero, np.full(len(zero), -0.12), marker=".", linestyle="", markersize=2.5, color=ZERO)
        axes.set_ylim(-0.25, 1.02)
    axes.set_xlim(-0.7, 9.7)


def draw(folder: Path, codes: str) -> plt.Figure:
    """Both sets side by side: pictures above, then for each distribution what was made of them and the code between."""
    kinds = kept(folder, codes)
    wide, rows = len(SETS) * COLUMNS, 1 + 2 * len(kinds)
    heights = [1.0] + [1.0, 0.55] * len(kinds)
    figure, grid = plt.subplots(
        rows, wide + 1, figsize=(0.62 * wide + 2.2, 0.66 * sum(heights) + 0.5), height_ratios=heights,
        width_ratios=[1] * COLUMNS + [0.25] + [1] * COLUMNS,
    )  # fmt: skip
    for axes in grid.flat:
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_visible(False)
    for row in grid:
        row[COLUMNS].set_visible(False)
    for part, name in enumerate(SETS):
        start = part * (COLUMNS + 1)
        grid[0, start].set_title(TITLES[name], fontsize=10, loc="left")
        for line, kind in enumerate(kinds):
            found = read(folder, name, codes, kind)
            if found is None:
                continue
            for place in range(COLUMNS):
                grid[0, start + place].imshow(found["pictures"][place], cmap="gray", vmin=0, vmax=1)
                grid[1 + 2 * line, start + place].imshow(found["shown"][place], cmap="gray", vmin=0, vmax=255)
                below = grid[2 + 2 * line, start + place]
                (draw_bits if codes == "bits" else draw_simplex)(below, found["codes"][place], found["face"][place])
    _label(grid[0, 0], "test pictures")
    for line, kind in enumerate(kinds):
        _label(grid[1 + 2 * line, 0], NAMES[kind].replace(" (", "\n("))
    figure.subplots_adjust(left=0.11, right=0.995, top=0.95, bottom=0.01, wspace=0.06, hspace=0.06)
    return figure


def _label(axes: Axes, text: str) -> None:
    axes.set_ylabel(text, rotation=0, ha="right", va="center", fontsize=8)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results" / "pictures"
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
    for codes in CODES:
        if kept(folder, codes):
            draw(folder, codes).savefig(target / f"{codes}.png", dpi=110)


if __name__ == "__main__":
    main()
