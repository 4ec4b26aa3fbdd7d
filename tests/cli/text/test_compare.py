"""``omegamax text compare`` and ``alphas``, and the page of ``omegamax text explain``."""

import pytest
from tests.cli.refusals import refused

from omegamax.cli.main import main
from omegamax.models.text import TextConfig, WordsConfig
from omegamax.tasks.text import ReviewsData, SentencePairsData, TextTask
from omegamax.tasks.text.report import TextComparison
from omegamax.tasks.weights_file import write_weights

pytestmark = pytest.mark.usefixtures("one_thread")


def write_runs(folder, data, **configs):
    """Networks as they are before training, as files of runs."""
    paths = []
    for name, config in configs.items():
        task = TextTask(data.vocabulary, TextConfig.small(word_dim=8, hidden_dim=4, score_dim=4, **config))
        task.data_settings = data.settings
        paths.append(folder / f"{name}.safetensors")
        write_weights(paths[-1], task.kind, task.describe(), task.model.state_dict())
    return [str(path) for path in paths]


def test_compare_prints_a_table_and_writes_a_page(tmp_path, capsys):
    data = ReviewsData(samples=(24, 4, 12), batch_size=4)
    runs = write_runs(
        tmp_path,
        data,
        one={"attention": WordsConfig("softmax")},
        other={"attention": WordsConfig("sparsemax")},
    )
    out = tmp_path / "made"
    command = ["text", "compare", *runs, "--out", str(out), "--examples", "3", "--themed", "1", "--rounds", "1"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "token F1" in said and "sparsemax" in said and "of the texts." in said and str(out / "report.html") in said
    found = TextComparison.load(out / "comparison.json")
    assert [row.name for row in found.rows] == ["softmax", "sparsemax"] and len(found.examples) >= 3
    assert found.rows[1].zero > 0 and found.rows[1].difference is not None
    assert (out / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "ReviewsData has no folder; leave --folder out" in refused(
        capsys, "text", "compare", runs[0], "--folder", "x"
    )


def test_networks_of_texts_and_of_pairs_are_not_compared(tmp_path, capsys):
    texts, pairs = ReviewsData(samples=(24, 4, 4)), SentencePairsData(samples=(24, 4, 4))
    runs = [*write_runs(tmp_path, texts, texts={}), *write_runs(tmp_path, pairs, pairs={"alignment": "matching"})]
    said = refused(capsys, "text", "compare", *runs, "--out", str(tmp_path / "made"))
    assert "matching alignment knows other words or classes than the data" in said
    assert not (tmp_path / "made").exists()


def test_explain_writes_a_page(tmp_path, capsys):
    data = ReviewsData(samples=(24, 4, 4))
    runs = write_runs(tmp_path, data, one={"attention": WordsConfig("sparsemax")}, other={})
    out = tmp_path / "words.html"
    assert main(["text", "explain", "a <b>good</b> film", "--checkpoint", *runs, "--out", str(out)]) == 0
    html = out.read_text(encoding="utf-8")
    assert "Which words they looked at" in html and 'id="comparison"' not in html and '"sparsemax"' in html
    assert str(out) in capsys.readouterr().out
    pairs = write_runs(tmp_path, SentencePairsData(samples=(24, 4, 4)), pair={"alignment": "matching"})
    assert main(["text", "explain", "a dog", "the dog", "--checkpoint", *pairs, "--out", str(out)]) == 0
    assert "Which words they compared" in out.read_text(encoding="utf-8")


def test_alphas_of_heads_are_told_and_drawn(tmp_path, capsys):
    data = ReviewsData(samples=(24, 4, 4))
    sizes = {"encoder": "transformer", "layers": 2, "heads": 2, "alpha": 1.25}
    runs = write_runs(tmp_path, data, learnt=sizes, plain={})
    out = tmp_path / "alphas.png"
    assert main(["text", "alphas", "--checkpoint", runs[0], "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("1.250  1.250") == 2 and str(out) in shown and out.read_bytes()[:4] == b"\x89PNG"
    assert "has no heads whose alphas are learnt" in refused(capsys, "text", "alphas", "--checkpoint", runs[1])
