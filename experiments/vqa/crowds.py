"""Train the CNN of the crowded scenes: it names what is in each cell of others of their kind.

python experiments/vqa/crowds.py --out experiments/vqa/results/crowds.safetensors
"""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml
from job import HERE

from omegamax.tasks.vqa.pretrain import SceneSplits, pretrain_cnn
from omegamax.tasks.vqa.sets import ScenesData

OTHERS = 1  # seed of scenes that no table is measured on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "crowds.safetensors")
    parser.add_argument("--samples", type=int, default=12000)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--workers", type=int, default=0, help="processes that draw pictures")
    options = parser.parse_args()
    settings = yaml.safe_load((HERE / "crowds.yaml").read_text(encoding="utf-8"))
    network, given = settings["model"]["network"], settings["data"]["init_args"]
    data = ScenesData(**{**given, "samples": tuple(given["samples"])})
    parts = [data.scenes(count, split, OTHERS) for count, split in ((options.samples, "train"), (500, "val"))]
    found = pretrain_cnn(
        SceneSplits(*parts),
        options.out,
        dim=network["image_dim"],
        grid=(network["grid"][0], network["grid"][1]),
        steps=options.steps,
        workers=options.workers,
    )
    print(f"cells named rightly: shape {found['val_shape']:.3f}, colour {found['val_colour']:.3f}")


if __name__ == "__main__":
    main()
