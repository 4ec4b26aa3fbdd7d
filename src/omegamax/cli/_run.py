"""A run of an application: its task, its data and its trainer, made from settings by LightningCLI."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
from jsonargparse import Namespace
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from lightning.pytorch.loggers import CSVLogger

from omegamax.cli._checks import CommandError, check_folder
from omegamax.cli._config import find_data_name
from omegamax.cli._parser import Parser
from omegamax.cli.application import Application, load
from omegamax.tasks.callbacks import BestCheckpoint, Curve, Draws, Epochs, LastCheckpoint, WeightsWriter
from omegamax.tasks.checkpoint_io import PlainCheckpointIO
from omegamax.tasks.finite import FiniteCheck
from omegamax.tasks.threads import Threads
from omegamax.tasks.whole import remove_parts, whole_file


class SaveConfig(SaveConfigCallback):
    """The settings of a run as ``config.yaml`` in its folder, to be given as ``--config``."""

    def __init__(self, parser: LightningArgumentParser, config: Namespace, **settings: Any) -> None:
        super().__init__(parser, config, **{**settings, "save_to_log_dir": False})

    def save_config(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage == "fit" and trainer.is_global_zero:
            config = self.config.clone()
            config["ckpt_path"] = None  # where this process began is no setting of the run
            with whole_file(Path(trainer.default_root_dir) / "config.yaml") as place:
                # The third argument, whose name depends on the version: write what is null, too.
                place.write_text(self.parser.dump(config, "yaml", False), encoding="utf-8")


class RunCLI(LightningCLI):
    """All settings of model, data and trainer as arguments, from files, or both.

    A run has a folder, ``--out``: its ``config.yaml``, its checkpoints (``last.ckpt`` after every validation, and
    ``best.ckpt``), ``curve.json``, ``log`` and, at the end, ``model.safetensors``. ``--ckpt_path last`` goes on where
    it stopped, or starts where there is nothing yet; the other commands take the best of the run's checkpoints, or the
    last, unless told otherwise.

    Args:
        application: what is trained, and on what.
        stage: the only one to make a parser for, which takes a while; None: all.
        arguments, settings: as for LightningCLI, but for the classes of task and data.
    """

    def __init__(self, application: Application, *arguments: Any, stage: str | None = None, **settings: Any) -> None:
        self.application, self.stage = application, stage
        self.data_name = find_data_name(settings.get("args") or ())
        ours = {
            "subclass_mode_data": True,
            "auto_configure_optimizers": False,
            "load_from_checkpoint_support": False,  # a checkpoint says by itself what network it is of
            "parser_class": parser_for(application),
        }
        super().__init__(load(application.task), load(application.data), *arguments, **{**ours, **settings})

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Name the trainer's arguments that are no settings; checkpoints are always read as plain data."""
        methods = LightningCLI.subcommands().items()
        return {name: skip | {"weights_only"} for name, skip in methods if self.stage in (None, name)}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        application = self.application
        parser.add_argument("--out", type=str, default=f"runs/{application.name}", help="folder of the run")
        parser.link_arguments("out", "trainer.default_root_dir")
        for known, wanted in application.links.items():
            parser.link_arguments(known, wanted, apply_on="instantiate")
        defaults = dict(application.defaults)
        data = load(application.data)
        # The default would lend what differs from set to set, such as the kind of tokens, to another that is named.
        named = (self.data_name or "").rpartition(".")[2]
        if named in data.known():
            defaults["data"] = {"class_path": named}
        elif application.default_data is not None or not inspect.isabstract(data):
            known = f"{data.__module__}.{data.__qualname__}"
            defaults["data"] = {"class_path": application.default_data or known}
        parser.set_defaults(defaults)

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse the arguments given, whatever the process was started with."""
        self.config = parser.parse_args(args)

    def _parse_ckpt_path(self) -> None:
        """Leave settings as they are: no checkpoint of ours has any to put in their place."""

    def before_instantiate_classes(self) -> None:
        if self.subcommand is None:
            return
        settings = self.config[self.subcommand]
        out = Path(settings["out"])
        settings["ckpt_path"] = _checkpoint(self.subcommand, settings.get("ckpt_path"), out)
        if self.subcommand in ("fit", "predict"):
            check_folder(out)
        if self.subcommand != "fit":
            for name in self.application.starts:
                settings[name] = None
        if self.subcommand == "fit":
            for folder in (out, out / "checkpoints"):
                remove_parts(folder)  # of a run that was killed; processes of other devices come here before any writes
        if self.subcommand == "fit" and self.application.prepare is not None:
            load(self.application.prepare)(settings)

    def instantiate_classes(self) -> None:
        try:
            super().instantiate_classes()
        except TypeError as error:  # options that a map does not take, or wants
            raise CommandError(f"{error} (options of a map go into {self.application.map_options})") from error

    def instantiate_trainer(self, **changes: Any) -> L.Trainer:
        out, given = Path(self._get(self.config, "out")), self._get(self.config_init, "trainer")
        application = self.application
        answers = load(application.answers)(asked=application.asked)
        callbacks: list[L.Callback] = [Threads(), FiniteCheck(), Epochs(), Draws(), Curve(), WeightsWriter(), answers]
        if given["enable_checkpointing"] is not False:
            validated = given["limit_val_batches"] != 0
            callbacks += [*_checkpoints(out / "checkpoints", application.monitor, validated), LastCheckpoint()]
        self.trainer_defaults = {"callbacks": callbacks, **self.trainer_defaults}
        if given["logger"] is None:
            changes = {"logger": CSVLogger(out, "log"), **changes}
        if given["max_epochs"] is None and given["max_steps"] == -1 and given["max_time"] is None:
            changes = {"max_epochs": application.epochs, **changes}
        plugins = given["plugins"] or []
        plugins = list(plugins) if isinstance(plugins, Sequence) and not isinstance(plugins, str) else [plugins]
        plugins.append(PlainCheckpointIO(application.name))
        return super().instantiate_trainer(**{"plugins": plugins, **changes})


def parser_for(application: Application, full: bool = False) -> type[Parser]:
    """Make the class of the parser that knows the sets of an application; ``full`` shows all settings in its help."""
    data = load(application.data)
    return type("ApplicationParser", (Parser,), {"sets": staticmethod(lambda: tuple(data.known())), "full": full})


def _checkpoints(folder: Path, monitor: str, validated: bool) -> list[L.Callback]:
    """Make callbacks that keep the best network and the last: two, for the last is kept where it is not the best."""
    when = False if validated else None  # with each validation, at the end of an epoch too, or with each epoch
    settings: dict[str, Any] = {"enable_version_counter": False, "save_on_train_epoch_end": when}
    best = BestCheckpoint(folder, "best", monitor=monitor, mode="max", **settings)
    last = ModelCheckpoint(folder, "last", **settings)
    return [best, last] if validated else [last]


def _checkpoint(stage: str, given: str | None, out: Path) -> str | None:
    """Return the file that a run starts from."""
    last = out / "checkpoints" / "last.ckpt"
    if stage == "fit" and given is None:
        if last.exists():
            raise CommandError(f"{out} holds a run; go on with it by --ckpt_path last, or give another --out")
        return None
    name = given or ("best" if last.with_name("best.ckpt").exists() or not last.exists() else "last")
    path = last.with_name(f"{name}.ckpt") if name in ("best", "last") else Path(name)
    if stage == "fit" and name == "last" and not path.exists():
        print(f"{path} is not there yet: starting anew", file=sys.stderr)
        return None
    if not path.is_file():
        remedy = f"give --ckpt_path FILE, or --out FOLDER of a run (it is {out})"
        raise CommandError(f"{path} does not exist; {remedy}")
    if stage == "fit" and path.suffix == ".safetensors":
        raise CommandError(f"{path} has a network but not the state of its training; give --ckpt_path a .ckpt file")
    return str(path)
