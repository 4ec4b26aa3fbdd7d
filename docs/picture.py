"""The README's picture: ``python docs/picture.py`` writes ``docs/assets/maps.png``."""

from pathlib import Path

import matplotlib

from omegamax import viz
from omegamax.cli._tour import tour

NAMES = ("softmax", "entmax15", "sparsemax", "normmax", "k_subsets")


def main() -> None:
    """Three scores from above, and attention over an image, for five maps."""
    matplotlib.use("agg")
    stops = {stop.name: stop for stop in tour(seed=2).stops}
    with viz.style():
        figure, axes = viz.panels(2 * len(NAMES), len(NAMES), size=(2.0, 2.15))
        for above, below, name in zip(axes[: len(NAMES)], axes[len(NAMES) :], NAMES, strict=True):
            viz.simplex(stops[name].plane, ax=above)
            above.set_title(name, color=viz.colour(name))
            viz.heatmap(stops[name].grid, ax=below)
            below.set_xlabel(f"{int((stops[name].grid > 0).sum())} of {stops[name].grid.numel()} cells")
        file = Path(__file__).parent / "assets" / "maps.png"
        file.parent.mkdir(exist_ok=True)
        figure.savefig(file, dpi=130, pil_kwargs={"optimize": True})
    print(f"{file.relative_to(Path.cwd())}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
