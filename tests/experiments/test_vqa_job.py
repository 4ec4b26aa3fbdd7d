"""What the runs of experiments/vqa begin with."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytest.importorskip("lightning")
pytest.importorskip("jsonargparse")

from omegamax.data import Vocabulary
from omegamax.models.mcan import MCANConfig, OutputConfig
from omegamax.tasks.vqa import VQATask

FILE = Path(__file__).parents[2] / "experiments" / "vqa" / "job.py"


@pytest.fixture(scope="module")
def job() -> ModuleType:
    sys.path.insert(0, str(FILE.parent))  # it imports its neighbours
    spec = importlib.util.spec_from_file_location("vqa_job", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["vqa_job"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def task(words: list[str], answers: list[str], output: str = "softmax", learnable: bool = False) -> VQATask:
    config = MCANConfig.small(layers=1, pixels=False, output=OutputConfig(output, learnable=learnable))
    return VQATask(Vocabulary(words, answers), config)


def test_what_a_run_begins_with(job: ModuleType) -> None:
    kind = job.Job("shapes", "tvmax", 1, "softmax")
    assert kind.needs == job.Job("shapes", "softmax", 1, "scenes")
    assert kind.needs.needs == job.Job("scenes", "softmax", 1, "nothing")
    assert kind.needs.needs.needs is None
    assert job.Job("daquar", "tvmax", 0, "softmax").needs == job.Job("daquar", "softmax", 0)
    assert job.Job("scenes", "tvmax", 0).needs is None
    later = job.Job("scenes", "tvmax", 2, "matched-300")
    assert later.needs == job.Job("scenes", "softmax", 2) and "--trainer.max_steps=300" in later.arguments()
    assert later.goes_on and not job.Job("scenes", "tvmax", 2).goes_on


def test_the_rate_of_a_kind_is_the_best_of_its_trials(job: ModuleType, tmp_path: Path) -> None:
    rates = job.Trials(tmp_path / "rates.csv", job.COLUMNS, job.KEYS)
    for kind, rate, found in (
        *(("softmax", 1e-3, 0.7), ("softmax", 5e-4, 0.8), ("softmax", 2e-3, 0.8)),
        *(("multimodal", 1e-3, 0.6), ("multimodal", 2e-3, 0.5)),
    ):
        keys = {"set": "scenes", "kind": kind, "begin": "nothing", "seed": 0, "options": str(rate)}
        rates.add([{**keys, "rate": rate, "val_accuracy": found}])

    def rate(kind: str, name: str = "scenes") -> str | None:
        return job.chosen_rate(name, kind, tmp_path / "rates.csv")

    assert rate("softmax") == "0.0005" == rate("softmax_numbers")  # of equals the lower
    assert rate("multimodal_2021") == "0.001" == rate("4_mca")
    assert rate("tvmax") is None and rate("softmax", "crowds") is None


def test_words_and_answers_of_both_keep_what_was_learnt(job: ModuleType) -> None:
    torch.manual_seed(0)
    old = task(["red", "blue", "circle"], ["no", "red", "yes"])
    new = task(["circle", "gray", "red"], ["yes", "gray", "no"])
    before = {name: value.clone() for name, value in new.model.state_dict().items()}
    weights = old.model.state_dict()
    taken = job.translate(weights, new, old.vocabulary)
    new.model.load_state_dict(taken)
    words, was, had = (each["question.embedding.weight"] for each in (taken, before, weights))
    assert torch.equal(words[2], had[4]) and torch.equal(words[4], had[2])  # numbers 0 and 1 are no words
    assert torch.equal(words[[0, 1, 3]], was[[0, 1, 3]])
    for name in ("classifier.answer.weight", "classifier.answer.bias"):
        assert torch.equal(taken[name][[0, 2]], weights[name][[2, 0]])
        assert torch.equal(taken[name][1], before[name][1])
    rest = [name for name in taken if "embedding" not in name and "classifier.answer" not in name]
    assert rest and all(torch.equal(taken[name], weights[name]) for name in rest)


def test_a_kind_takes_the_weights_of_its_start_and_keeps_its_own_alpha(job: ModuleType, tmp_path: Path) -> None:
    words, answers = ["red", "circle"], ["yes", "no"]
    place = job.Place("", None, "", str(tmp_path), "cpu")
    kind = job.Job("daquar", "entmax", 0, "softmax")
    start = task(words, answers)
    torch.save(start.model.state_dict(), job.weights_file(kind.needs, place))
    own = task(words, answers, "entmax", learnable=True)
    alone = [name for name in own.model.state_dict() if name not in start.model.state_dict()]
    before = {name: own.model.state_dict()[name].clone() for name in alone}
    job.begin(own, kind, place, job.Ready({}))
    after = own.model.state_dict()
    assert len(alone) == 1 and torch.equal(after[alone[0]], before[alone[0]])
    assert all(torch.equal(after[name], value) for name, value in start.model.state_dict().items())
    with pytest.raises(RuntimeError, match="size mismatch"):
        job.begin(task([*words, "blue"], answers), kind, place, job.Ready({}))
