"""``omegamax vqa fit | validate | test | predict``, by LightningCLI."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from lightning.pytorch.loggers import CSVLogger

from omegamax.cli._errors import CommandError
from omegamax.tasks.vqa import VQAData, VQATask
from omegamax.tasks.vqa.callbacks import Answers, Curve, Weights

STAGES = ("fit", "validate", "test", "predict")


class SaveConfig(SaveConfigCallback):
    """The settings of a run as ``config.yaml`` in its folder."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "save_to_log_dir": False})

    def save_config(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage == "fit" and trainer.is_global_zero:
            path = Path(trainer.default_root_dir) / "config.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            self.parser.save(self.config, path, skip_none=False, overwrite=True, multifile=False)


class VQACLI(LightningCLI):
    """All settings of model, data and trainer as arguments, from files, or both.

    A run has a folder, ``--out``: its ``config.yaml``, its checkpoints (``last.ckpt`` after every validation, and the
    best), ``curve.json``, ``log`` and, at the end, ``model.safetensors``. ``--ckpt_path last`` goes on where it stopped.
    """

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--out", type=str, default="runs/vqa", help="folder of the run")
        parser.link_arguments("out", "trainer.default_root_dir")
        parser.link_arguments("data.vocabulary", "model.vocabulary", apply_on="instantiate")
        parser.set_defaults({"data": {"class_path": "ScenesData"}})

    def instantiate_trainer(self, **changes: Any) -> L.Trainer:
        out = Path(self._get(self.config, "out"))
        checkpoints = ModelCheckpoint(
            out / "checkpoints",
            "best",
            monitor="val_accuracy",
            mode="max",
            save_last=True,
            enable_version_counter=False,
        )
        self.trainer_defaults = {"callbacks": [checkpoints, Curve(), Weights(), Answers()], **self.trainer_defaults}
        if self._get(self.config_init, "trainer.logger", default=None) is None:
            changes = {"logger": CSVLogger(out, "log"), **changes}
        return super().instantiate_trainer(**changes)

    def before_instantiate_classes(self) -> None:
        out = Path(self._get(self.config, "out"))
        if self.subcommand == "fit" and not self._get(self.config, "ckpt_path", default=None):
            if (out / "checkpoints" / "last.ckpt").exists():
                raise CommandError(f"{out} holds a run; go on with it by --ckpt_path last, or give another --out")


def run(stage: str, arguments: Sequence[str]) -> int:
    """Run one of ``STAGES`` with the arguments after it."""
    # Processes that Lightning starts for other devices run the same command again, read from here.
    sys.argv = ["omegamax", "vqa", stage, *arguments]
    VQACLI(
        VQATask,
        VQAData,
        subclass_mode_data=True,
        seed_everything_default=0,
        save_config_callback=SaveConfig,
        parser_kwargs={"prog": "omegamax vqa", "default_env": False},
        args=[stage, *arguments],
    )
    return 0
