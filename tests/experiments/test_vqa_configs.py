"""Every file of settings in experiments/vqa is read by the command's parser and builds its network."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lightning")
pytest.importorskip("jsonargparse")

from omegamax.cli._run import RunCLI
from omegamax.cli.vqa.application import VQA
from omegamax.models.mcan import MCAN, MCANConfig
from omegamax.models.mcan.numbers import count_numbers
from omegamax.models.mcan.papers import PAPERS
from omegamax.tasks.quiet import quiet
from omegamax.tasks.rate import Rate

FOLDER = Path(__file__).parents[2] / "experiments" / "vqa"
SETS = ("scenes", "easy_vqa", "shapes", "daquar")  # that have a second part
KINDS = sorted(file.stem for file in (FOLDER / "attention").glob("*.yaml"))
BASES = ("base", "multimodal-base")


class Parsed(RunCLI):
    """The settings, without the things they describe: those would read data."""

    def instantiate_classes(self) -> None:
        self.config_init = self.config


def parsed(*files: str, **settings: str) -> Any:
    given = [word for file in files for word in ("--config", str(FOLDER / f"{file}.yaml"))]
    given += [f"--{name.replace('__', '.')}={value}" for name, value in settings.items()]
    with quiet():
        return Parsed(
            VQA,
            run=False,
            save_config_callback=None,
            seed_everything_default=False,
            args=given,
        ).config


def network(config: Any) -> MCANConfig:
    found = config.model.network
    return found if isinstance(found, MCANConfig) else MCANConfig.from_dict(found.as_dict())


@pytest.fixture(autouse=True)
def _no_other_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["omegamax"])


@pytest.mark.parametrize("name", SETS)
def test_settings_of_a_set_and_its_second_part_go_together(name: str) -> None:
    where = {} if name == "scenes" else {"data__folder": "somewhere"}
    first, then = (parsed(*files, **where) for files in ((name,), (name, "attention/softmax", f"then/{name}")))
    assert network(first) == network(then)
    assert then.trainer.max_steps < first.trainer.max_steps
    assert then.trainer.max_steps % then.trainer.val_check_interval == 0  # the last step is validated
    assert first.trainer.max_steps % first.trainer.val_check_interval == 0
    settings = first.data.init_args
    assert tuple(settings.grid) == network(first).grid


def test_crowds_have_the_grid_of_their_network() -> None:
    config = parsed("crowds", "attention/tvmax")
    assert tuple(config.data.init_args.grid) == network(config).grid == (28, 28)
    assert config.trainer.max_steps % config.trainer.val_check_interval == 0


@cache
def numbers(kind: str) -> int:
    config = network(parsed("scenes", f"attention/{kind}")).replace(words=20, answers=5)
    return sum(p.numel() for p in MCAN(config.replace(pixels=False)).parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_settings_of_an_attention_build_a_network_with_as_many_parameters(kind: str) -> None:
    config = network(parsed("scenes", f"attention/{kind}"))
    output, hidden, flat = config.output, config.hidden_dim, config.flat_dim
    learnt = int(output.learnable) + (output.heads - 1) * (flat + 1) + (hidden**2 if output.glimpses > 1 else 0)
    if output.density_features:
        learnt += hidden * count_numbers(output.max_components if output.kind == "multimodal" else None)
    if output.source == "question":  # six numbers for each component, in place of scores
        learnt += 6 * output.max_components * (hidden + 1) - (hidden * flat + flat + flat + 1)
    assert numbers(kind) == numbers("softmax") + learnt


@pytest.mark.parametrize("name", PAPERS)
def test_rows_of_the_papers_are_the_named_settings(name: str) -> None:
    config = parsed("papers/base", f"papers/{name}", data__folder="somewhere", data__features="elsewhere")
    found = network(config)
    assert found == MCANConfig.paper(output=PAPERS[name])
    with torch.device("meta"):
        MCAN(found.replace(words=20, answers=5))


def test_the_papers_rates_are_theirs() -> None:
    where = {"data__folder": "somewhere", "data__features": "elsewhere"}
    thesis, later = parsed("papers/base", **where), parsed("papers/base", "papers/multimodal-base", **where)

    def rates(config: Any) -> list[float]:
        found = config.model.rate
        rate = found if isinstance(found, Rate) else Rate(**found.as_dict())
        return [rate.peak * rate.factor_at(epoch) for epoch in range(config.trainer.max_epochs)]

    rise = [2.5e-5 * t for t in range(1, 16)]
    assert rates(thesis) == pytest.approx([min(r, 1e-4) for r in rise[:9]] + [2e-5] * 2 + [4e-6] * 2)
    assert rates(later)[:10] == pytest.approx(rise[:10])
    assert len(rates(later)) == 15 and rates(later)[10] == pytest.approx(0.2 * rise[10])


def test_every_row_of_the_papers_has_a_file() -> None:
    assert {file.stem for file in (FOLDER / "papers").glob("*.yaml")} == {*PAPERS, *BASES}
