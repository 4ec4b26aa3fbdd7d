"""Draw where the alphas of heads went, ``alphas.png``, and accuracy by the length of rationales, ``rationales.png``.

python experiments/text/pictures.py
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev

import matplotlib

matplotlib.use("agg")

from job import HERE
from rationales import FULL, SELECTORS, SHARES
from rationales import runs as rationale_runs
from run import Files
from sets import SENTENCES
from tables import TITLES

from omegamax.tasks.tables import stack_alphas
from omegamax.viz import alphas
from omegamax.viz.style import panels, style


def draw(rows: list[dict[str, str]], path: Path) -> None:
    """Draw a panel for each set: layers below, alphas above, a point for each head and seed."""
    names = [name for name in SENTENCES if any(row["set"] == name for row in rows)]
    with style():
        figure, axes = panels(len(names), len(names), size=(1.9, 2.4), share=True)
        for ax, name in zip(axes, names, strict=True):
            own = [row for row in rows if row["set"] == name]
            alphas(stack_alphas(own), start=1.5, title=TITLES[name], ax=ax, names=ax is axes[0])
            ax.set_ylabel("alpha of a head" if ax is axes[0] else "")
        figure.savefig(path, dpi=150)


def draw_rationales(rows: list[dict[str, str]], path: Path) -> None:
    """Draw a panel for each set: words read below, accuracy above, deviations over seeds as bars; all words dashed."""
    with style():
        figure, axes = panels(2, 2, size=(3.6, 2.8))
        for ax, name in zip(axes, ("sst2", "imdb"), strict=True):
            for place, selector in enumerate(SELECTORS):
                found = {share: _accuracies(rows, name, selector, share) for share in SHARES}
                known = [share for share in SHARES if found[share]]
                if known:
                    bars = [stdev(found[share]) if len(found[share]) > 1 else 0.0 for share in known]
                    at = [100 * share * 1.04 ** (place - 1.5) for share in known]  # side by side
                    heights = [mean(found[share]) for share in known]
                    ax.errorbar(
                        at,
                        heights,
                        bars,
                        color=f"C{place}",
                        marker="o",
                        ms=3,
                        capsize=2,
                        label=selector.replace("_", " "),
                    )
            whole = _accuracies(rows, name, FULL, 1.0)
            if whole:
                ax.axhline(mean(whole), ls="--", lw=1, color="0.5", label="all words")
            ax.set_xscale("log")
            ax.set_xticks([100 * share for share in SHARES], [f"{100 * share:g}" for share in SHARES])
            ax.minorticks_off()
            ax.set(title=TITLES[name], xlabel="words read, %", ylabel="test accuracy, %" if ax is axes[0] else "")
        axes[0].legend(fontsize="small", frameon=False)
        figure.savefig(path, dpi=150)


def _accuracies(rows: list[dict[str, str]], name: str, selector: str, share: float) -> list[float]:
    """Return the accuracies of all seeds, in percent."""
    keys = name, selector, str(share)
    return [100 * float(row["accuracy"]) for row in rows if (row["set"], row["selector"], row["share"]) == keys]


if __name__ == "__main__":
    draw_rationales(rationale_runs(HERE / "results").rows(), HERE / "rationales.png")
    draw(Files(HERE / "results").alphas.rows(), HERE / "alphas.png")
