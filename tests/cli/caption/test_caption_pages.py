"""``omegamax caption compare``, ``rate`` and ``ratings``: pages of captions that runs wrote, and what raters answer."""

from __future__ import annotations

import json
import os
import re

import pytest
import torch
from tests.cli.refusals import refused

from omegamax.cli.main import main
from omegamax.data.captions import CaptionVocabulary
from omegamax.models.captioning import CaptionConfig
from omegamax.models.mcan import OutputConfig
from omegamax.tasks.captioning import CaptionPredictions, CaptionTask, SceneCaptionsData
from omegamax.tasks.captioning.report import CaptionComparison
from omegamax.tasks.captioning.runs import write_captions
from omegamax.tasks.rating.page import ANSWERS_FORMAT
from omegamax.tasks.rating.survey import Key
from omegamax.tasks.weights_file import write_weights

pytestmark = pytest.mark.usefixtures("one_thread")


def write_run(folder, kind):
    """A network of the embedded set that was not trained, and its captions of the test part."""
    torch.manual_seed(0)
    data = SceneCaptionsData((4, 3, 6), 32, grid=(2, 3), batch_size=4)
    network = CaptionConfig.small(attention=OutputConfig(kind), grid=(2, 3))
    task = CaptionTask(CaptionVocabulary(data.vocabulary.words), network).eval()
    task.data_settings = data.settings
    folder.mkdir(parents=True)
    write_weights(folder / "model.safetensors", task.kind, task.describe(), task.model.state_dict())
    write_captions(task, data, "test", kind)[0].save(folder)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [write_run(folder / kind, kind) for kind in ("softmax", "sparsemax")]


def test_compare_writes_table_and_page(runs, tmp_path, capsys):
    assert (
        main(["caption", "compare", *map(str, runs), "--out", str(tmp_path), "--examples", "2", "--themed", "1"]) == 0
    )
    shown = capsys.readouterr().out
    assert "Tokeniser: " in shown and "report.html" in shown
    made = CaptionComparison.load(tmp_path / "comparison.json")
    assert [(row.name, row.kind) for row in made.rows] == [("softmax", "softmax"), ("sparsemax", "sparsemax")]
    assert made.rows[0].scores["zero"] == 0 and made.rows[0].scores["rate"] is None and made.rows[0].parameters > 0
    assert made.examples[0].objects and len(made.examples[0].looks) == 2
    anew = ["--anew", "--examples", "0"]
    assert main(["caption", "compare", str(runs[0]), "--out", str(tmp_path), *anew]) == 0
    again = CaptionComparison.load(tmp_path / "comparison.json").rows[0].scores
    assert again["rate"] > 0 and again["rep"] == made.rows[0].scores["rep"]


def test_rate_and_ratings(runs, tmp_path, capsys):
    page, answers = tmp_path / "rating.html", tmp_path / "Ann.json"
    assert main(["caption", "rate", "--runs", *map(str, runs), "--images", "4", "--out", str(page)]) == 0
    assert "4 pictures and 2 networks" in capsys.readouterr().out
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)[1])
    key = Key.unseal(data["sealed"])
    assert key.networks == ("softmax", "sparsemax")
    given = [
        [{"text": index + 3, "words": [index + 1] * len(words)} for index, (_, words) in zip(order, rated, strict=True)]
        for order, rated in zip(key.order, key.rated, strict=True)
    ]
    saved = {"format": ANSWERS_FORMAT, "survey": data["survey"], "key": data["sealed"], "rater": "Ann"}
    answers.write_text(json.dumps({**saved, "answers": given}), encoding="utf-8")
    assert main(["caption", "ratings", str(answers)]) == 0
    shown = capsys.readouterr().out
    assert "caption (1-5)" in shown and "3.00 [3.00, 3.00]" in shown and "+1.00 [+1.00, +1.00]" in shown
    assert "there is one only" in shown


def test_captions_alone_need_to_know_where_the_photographs_are(runs, tmp_path, capsys):
    alone = tmp_path / "mine"
    CaptionPredictions.load(runs[0]).save(alone)
    out = ["--out", tmp_path / "rating.html"]
    assert "it is not known where the photographs are" in refused(capsys, "caption", "rate", "--runs", alone, *out)
    assert main(["caption", "compare", str(alone), "--out", str(tmp_path / "out"), "--examples", "0"]) == 0
    network = runs[0] / "model.safetensors"
    stamp = network.stat().st_mtime
    try:
        os.utime(network, (stamp + 1e6, stamp + 1e6))
        assert "older than its network" in refused(capsys, "caption", "rate", "--runs", runs[0], *out)
    finally:
        os.utime(network, (stamp, stamp))
    assert "is named twice" in refused(capsys, "caption", "compare", alone, alone, "--out", tmp_path / "out")
