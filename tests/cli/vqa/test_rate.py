"""``omegamax vqa rate`` and ``ratings``: a page of answers, and what raters send back."""

import csv
import json
import re

import pytest
from tasks.vqa.networks import scenes, write_runs
from tests.cli.refusals import refused

from omegamax.cli.main import main
from omegamax.data import DataError, Vocabulary
from omegamax.models.mcan import MCANConfig
from omegamax.tasks.rating.page import ANSWERS_FORMAT
from omegamax.tasks.rating.survey import Key
from omegamax.tasks.vqa import VQATask
from omegamax.tasks.vqa.rating import survey_answers


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("runs"))


def read_page(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1])


def answer(folder, data, rater, grades):
    """What a rater saves who gives each network its grade, for answer and attention; None: left out."""
    key = Key.unseal(data["sealed"])
    answers = [
        [{"text": grades[key.networks[i]][0], "words": [grades[key.networks[i]][1]]} for i in order]
        for order in key.order
    ]
    saved = {"format": ANSWERS_FORMAT, "survey": data["survey"], "key": data["sealed"], "rater": rater}
    path = folder / f"{rater}.json"
    path.write_text(json.dumps({**saved, "answers": answers}), encoding="utf-8")
    return str(path)


def test_page_of_answers_and_its_evaluation(runs, tmp_path, capsys):
    out = tmp_path / "page.html"
    seeing = [str(runs[name]) for name in ("softmax", "tvmax", "continuous_sparsemax")]
    assert main(["vqa", "rate", "--runs", *seeing, "--images", "6", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "6 pictures and 3 networks, 36 grades for each rater" in said and str(out) in said
    data = read_page(out)
    assert len(data["pictures"]) == 6 and all(picture["question"] for picture in data["pictures"])
    assert [len(look["maps"]) for look in data["pictures"][0]["looks"]] == [1, 1, 1]
    names = Key.unseal(data["sealed"]).networks
    assert names == ("softmax", "tvmax", "continuous sparsemax")
    files = [
        answer(tmp_path, data, "Ann", {names[0]: (1, 2), names[1]: (4, 5), names[2]: (3, 3)}),
        answer(tmp_path, data, "Bob", {names[0]: (2, 2), names[1]: (4, None), names[2]: (3, 3)}),
    ]
    table = tmp_path / "table.csv"
    assert main(["vqa", "ratings", *files, "--draws", "100", "--out", str(table)]) == 0
    shown = capsys.readouterr().out
    assert "1.50 [1.50, 1.50]" in shown and "+2.50 [+2.50, +2.50]" in shown
    assert "Ann: 36 of 36 grades\n" in shown and "Bob: 30 of 36 grades, 6 are missing" in shown
    assert re.search(r"Krippendorff's alpha, ordinal\): answers 0\.\d{3}, attention 1\.000", shown)
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [row["network"] for row in rows] == list(names)
    assert float(rows[1]["attention mean"]) == 5 and rows[0]["text_difference mean"] == ""


def test_seed_draws_the_pictures_and_more_than_there_are_is_said(runs, tmp_path, capsys):
    pages = []
    for seed, count in (("0", "5"), ("0", "5"), ("1", "5"), ("0", "1000")):
        out = tmp_path / "page.html"
        arguments = ["--images", count, "--seed", seed, "--out", str(out)]
        assert main(["vqa", "rate", "--runs", str(runs["softmax"]), *arguments]) == 0
        pages.append(Key.unseal(read_page(out)["sealed"]))
    assert pages[0] == pages[1] and pages[0].pictures != pages[2].pictures
    assert len(pages[3].pictures) == 20 and "there are no more, 1000 were asked for" in capsys.readouterr().out


def test_what_cannot_be_rated_is_refused(runs, tmp_path, capsys):
    out = ["--out", str(tmp_path / "page.html")]
    assert "sees no picture" in refused(capsys, "vqa", "rate", "--runs", runs["language_only"], *out)
    assert "--out must end in .html" in refused(capsys, "vqa", "rate", "--runs", "x", "--out", tmp_path / "p.png")
    data = scenes()
    other = VQATask(Vocabulary(["is", "it"], ["yes", "no"]), MCANConfig.small(grid=data.grid))
    with pytest.raises(DataError, match="mine knows other words or answers than the data"):
        survey_answers({"mine": other}, data, 2)
    assert "no.json does not exist" in refused(capsys, "vqa", "ratings", "no.json")
