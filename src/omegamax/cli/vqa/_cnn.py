"""The CNN that ``omegamax vqa fit`` leaves as it is: given, or trained first on the embedded pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
from jsonargparse import Namespace

from omegamax.cli._checks import CommandError
from omegamax.models.grid_cnn_file import grid_cnn_settings
from omegamax.tasks.vqa import ScenesData
from omegamax.tasks.vqa.pretrain import SceneSplits, pretrain_cnn

STEPS, SAMPLES, UNSEEN = 500, 4000, 500
FILE = "cnn.safetensors"


def provide_missing_cnn(settings: Namespace) -> None:
    """Let the settings of a ``fit`` name a CNN where the network would look through one of random weights."""
    if not lacks_cnn(settings["model"]):
        return
    settings["model"]["cnn"] = provide_cnn(settings)
    seed = settings["seed_everything"]
    if isinstance(seed, int) and not isinstance(seed, bool):
        # As if the file had been given: the saved settings then make the same run.
        L.seed_everything(seed, workers=True, verbose=False)


def lacks_cnn(model: Namespace) -> bool:
    """Tell whether the network would look at pictures through a CNN of random weights that are never trained."""
    frozen = model["freeze_cnn"] and model["network"]["pixels"] and not model["blind"]
    return bool(frozen and model["cnn"] is None and model["start"] is None)


def provide_cnn(settings: Namespace) -> str:
    """Return the file of a CNN for the settings of a run, in the run's folder; train it if it is not there yet.

    Only the embedded pictures say what is in each cell. For other data, one has to be given.
    """
    data, network = settings["data"], settings["model"]["network"]
    kind = data["class_path"].rpartition(".")[2]
    if kind != ScenesData.__name__:
        raise CommandError(
            f"--model.freeze_cnn true would leave a CNN of random weights as it is: {kind} needs --model.cnn FILE, "
            "as `omegamax vqa pretrain` writes it, or --model.start FILE, or --model.freeze_cnn false"
        )
    path = Path(settings["out"]) / FILE
    dim, grid = network["image_dim"], (network["grid"][0], network["grid"][1])
    scenes = ScenesData(**data["init_args"].as_dict())
    wanted: dict[str, Any] = {"dim": dim, "grid": list(grid), "size": list(scenes.size)}
    if path.is_file() and {key: grid_cnn_settings(path).get(key) for key in wanted} == wanted:
        print(f"The CNN, which stays as it is, is the one in {path}.", flush=True)
        return str(path)
    print(
        "No --model.cnn was given, and --model.freeze_cnn true leaves the CNN as it is: training one first, to name "
        f"what is in each cell of {SAMPLES:,} other pictures, in {STEPS} steps. It is kept in {path}.",
        flush=True,
    )
    # Of other seeds than the pictures of the questions, as those of training, validation and test are unseen here.
    seed = scenes.scene_seed + 1
    found = pretrain_cnn(
        SceneSplits(scenes.scenes(SAMPLES, "train", seed), scenes.scenes(UNSEEN, "val", seed)),
        path,
        dim=dim,
        grid=grid,
        steps=STEPS,
        seed=seed,
        workers=scenes.workers,
        accelerator=settings["trainer"]["accelerator"],
    )
    print(f"Cells named rightly: shape {found['val_shape']:.3f}, colour {found['val_colour']:.3f}.", flush=True)
    return str(path)
