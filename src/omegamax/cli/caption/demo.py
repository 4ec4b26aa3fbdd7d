"""``omegamax caption demo``: kinds of attention that write captions, trained in a minute or two on scenes."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from omegamax.cli import _table
from omegamax.cli._bars import show_bars
from omegamax.cli._program import program
from omegamax.cli.demonstration import add_demo_arguments, clear_runs, demonstration, make_recipe, quote_paths
from omegamax.cli.explanation import save_figure

SUMMARY = "train small networks that write captions of coloured shapes, and see where each word is read from"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax caption demo``."""
    add_demo_arguments(parser, Path("caption-demo"), "pictures, captions and networks", "two minutes")


@demonstration
def run(options: argparse.Namespace) -> int:
    """Make the pictures, train, measure, and write a strip of one of them."""
    from omegamax.data.captions import SceneCaptions
    from omegamax.tasks.captioning import CaptionTask, demo
    from omegamax.tasks.captioning.explain import draw, explain
    from omegamax.tasks.run_task import load_tasks

    start = time.perf_counter()
    recipe = make_recipe(demo.CaptionRecipe, options)
    runs, cnn = clear_runs(options.out, demo.KINDS), options.out / "cnn.safetensors"
    data = recipe.data(options.seed)
    print(f"drawing {sum(recipe.samples):,} pictures, each with five captions", flush=True)
    for split in ("train", "val", "test"):
        data.split(split)
    print(f"training features of cells, then {len(demo.KINDS)} networks that differ in their attention", flush=True)
    with show_bars({demo.FEATURES: recipe.feature_steps, **dict.fromkeys(demo.KINDS, recipe.steps)}) as tell:
        data.featurise(demo.train_features(recipe, cnn, options.seed, tell))
        for name in demo.KINDS:
            demo.train(recipe, data, name, cnn, runs, options.seed, tell)
    tasks = load_tasks(CaptionTask, [runs / name for name in demo.KINDS])
    rows = []
    for name, task in tasks.items():
        found = demo.measure(task, data)
        shares = [f"{100 * found[each]:.1f} %" for each in demo.MEASURES[:-1]]
        rows.append([name, *shares, f"{found['js']:.2f}"])
    headers = ["BLEU-1", "BLEU-4", "things named", "attention on them", "without any", "JS between words"]
    _table.show(["attention", *headers], rows)
    sharp = SceneCaptions(
        recipe.samples[2],
        options.seed,
        "test",
        image_size=256,
        shapes=recipe.shapes,
        colours=recipe.colours,
    )
    sample = sharp[0]
    assert sample.image is not None
    figure = draw(sample.image, {name: explain(task, sample.image) for name, task in tasks.items()})
    picture = options.out / "strip.png"
    save_figure(figure, picture)
    shown = options.out / "picture.png"
    _save(shown, sharp[1].image)
    trained, mine = quote_paths(*(runs / name for name in demo.KINDS)), quote_paths(options.out / "mine.png")
    print(f"\n{time.perf_counter() - start:.0f} s. Where they looked for each word: {picture}\nNow show them another:")
    print(f"  {program()} caption explain {quote_paths(shown)} --checkpoint {trained} --out {mine}")
    return 0


def _save(path: Path, image: object) -> None:
    from PIL import Image
    from torch import Tensor

    assert isinstance(image, Tensor)
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(path)
