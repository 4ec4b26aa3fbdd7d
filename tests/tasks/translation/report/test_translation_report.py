"""The page that compares networks that translate: its records, its numbers, and what a browser shows."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("tokenizers")

from omegamax.data import DataError
from omegamax.models.translation import TokenOutputConfig, TranslatorConfig
from omegamax.tasks.report.contenders import Contender
from omegamax.tasks.translation import SearchConfig, TinyPairsData, TranslationTask, measure_bleu
from omegamax.tasks.translation.compare import compare
from omegamax.tasks.translation.report import (
    TranslationComparison,
    TranslationExample,
    TranslationLook,
    TranslationRow,
    write_report,
)

NASTY = "<script>window.hacked = 1</script>"


def make_comparison() -> TranslationComparison:
    rows = [
        TranslationRow("softmax", "softmax", {"overall": 0.4}, 1000, support=50.0, exact=0.1, rep=1.0, drop=math.nan),
        TranslationRow(NASTY, "sparsemax", {"overall": 0.41}, 1000, gain=1.0, p_value=0.03, support=3.0, exact=0.9),
    ]
    look = TranslationLook("a dog", ["a", "dog", "</s>"], [[1, 0], [0.5, 0.5], [0, 1]], [3, 1, 2], 0.25, True, False)
    other = TranslationLook("", ["</s>"], [[0, 1]], [1], 1e-9, False, False)
    examples = [
        TranslationExample("1", "ein hund", ["hund", "</s>"], "a dog", {"softmax": look, NASTY: other}),
        TranslationExample("2", NASTY, ["x", "</s>"], NASTY, {"softmax": other}),
    ]
    return TranslationComparison("Translation", "of few", rows, examples, {"data": "none"})


def test_comparisons_are_kept_in_files(tmp_path):
    made = make_comparison()
    made.save(tmp_path / "a.json")
    assert TranslationComparison.load(tmp_path / "a.json") == made and made.rows[0].drop is None
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(ValueError, match="not a saved comparison"):
        TranslationComparison.load(tmp_path / "b.json")


def test_looks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="a row of weights and a count"):
        TranslationLook("a", ["a"], [], [1], 0.5, True, True)
    look = TranslationLook("a", ["a"], [[1.0]], [1], 0.5, True, True)
    with pytest.raises(ValueError, match="2 weights a row"):
        TranslationExample("1", "x", ["x", "y"], "a", {"softmax": look})


@pytest.fixture(scope="module")
def data():
    return TinyPairsData((40, 4, 6), batch_size=4)


def make_task(data, transform, seed=0):
    import torch

    torch.manual_seed(seed)
    sizes = {"dim": 16, "hidden_dim": 16, "layers": 1, "heads": 2}
    return TranslationTask(data.vocabulary, TranslatorConfig(**sizes, output=TokenOutputConfig(transform))).eval()


def test_numbers_are_those_of_the_translations(data):
    contenders = {name: Contender(make_task(data, name)) for name in ("softmax", "sparsemax")}
    found = compare(contenders, data, examples=2, rounds=1, search=SearchConfig(2, max_length=8), aligned=40)
    assert [row.name for row in found.rows] == ["softmax", "sparsemax"] and len(found.examples) == 2
    first, second = found.rows
    assert first.gain is None and first.step_ms > 0 and first.support > second.support >= 1
    assert second.gain == pytest.approx(100 * (second.accuracy["overall"] - first.accuracy["overall"]))
    assert 0 <= second.p_value <= 1 and 0 <= first.drop <= 100
    for example, pair in zip(found.examples, data.split("test").pairs, strict=False):
        assert example.text == pair.source and example.reference == pair.target
        for look in example.looks.values():
            assert all(sum(row) == pytest.approx(1, abs=1e-2) for row in look.weights)
    from omegamax.tasks.translation import translate

    task, pairs = contenders["sparsemax"].task, data.split("test").pairs
    texts = [each.text for each in translate(task, [pair.source for pair in pairs], SearchConfig(2, max_length=8))]
    report = measure_bleu(texts, [pair.target for pair in pairs], data.form)
    assert second.accuracy["overall"] == pytest.approx(report.score / 100)


def test_networks_of_other_subwords_are_refused(data):
    other = make_task(TinyPairsData((20, 4, 4), pair_seed=5), "softmax")
    with pytest.raises(DataError, match="trained on the same data"):
        compare({"other": Contender(other)}, data)


def test_page_in_a_browser(tmp_path):
    from browser import Page, browser

    path = write_report(make_comparison(), tmp_path / "report.html")
    with browser(tmp_path) as driver:
        page = Page(driver, path.as_uri(), tmp_path / "saved")
        page.open()
        assert page.texts("#looks .translation") == ["a dog", "\u2013"]
        assert page.one("#question").text == "ein hund" and page.one("#answer").text == "a dog"
        zeros = page.all("#looks .panel:first-child td.cell.none")
        assert len(zeros) == 2 and all("exactly 0" in cell.get_attribute("title") for cell in zeros)
        assert "proven the most probable" in page.texts("#looks .known")[0]
        page.choose("search", "none proven exact")
        assert page.one("#question").text == NASTY and "No look at this one." in page.one("#looks").text
        page.pick(1)
        page.check_quiet()
