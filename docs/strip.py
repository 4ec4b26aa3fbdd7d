"""Draw the strip of a caption from a finished ``caption demo --steps 840``: ``docs/strip.py [DEMO]``."""

import sys
from pathlib import Path

from omegamax.data.captions import SceneCaptions
from omegamax.tasks.captioning import CaptionTask
from omegamax.tasks.captioning.demo import CaptionRecipe
from omegamax.tasks.captioning.explain import draw, explain
from omegamax.tasks.run_task import load_tasks
from omegamax.viz.style import pyplot

OUT = Path(__file__).parent / "assets" / "strip.png"
KINDS = ("softmax", "sparsemax")


def find(scenes, tasks):
    """The first test picture of which all networks write the same caption, and a right one, and what they write."""
    for index in range(len(scenes)):
        sample = scenes[index]
        said = {name: explain(task, sample.image) for name, task in tasks.items()}
        texts = {" ".join(each.tokens) for each in said.values()}
        if len(texts) == 1 and texts <= set(sample.references):
            return sample, said
    raise SystemExit("no picture has the same right caption by all; try another demo")


if __name__ == "__main__":
    pyplot().switch_backend("agg")
    folder, recipe = Path(sys.argv[1] if len(sys.argv) > 1 else "caption-demo") / "runs", CaptionRecipe()
    tasks = load_tasks(CaptionTask, [folder / kind for kind in KINDS])
    look = {"image_size": 256, "shapes": recipe.shapes, "colours": recipe.colours}
    sample, said = find(SceneCaptions(recipe.samples[2], 0, "test", **look), tasks)
    figure = draw(sample.image, said)
    figure.savefig(OUT, dpi=100)
    print(f"{sample.id}, {OUT}: {OUT.stat().st_size / 1000:.0f} kB")
