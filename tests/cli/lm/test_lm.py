"""``omegamax lm``: runs, their files, texts and the page."""

from __future__ import annotations

import json

import pytest
from small_runs import trainer

from omegamax.cli.main import main

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = ["dim=16", "hidden_dim=16", "layers=1", "heads=2", "attention=entmax15", "output.transform=sparsemax"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A run on the embedded reviews."""
    out = tmp_path_factory.mktemp("run") / "small"
    network = [f"--model.network.{each}" for each in SMALL]
    settings = ["--data.samples=[60,6,6]", "--data.batch_size=8", "--data.length=16", f"--out={out}"]
    assert main(["lm", "fit", *settings, *network, *trainer(1)]) == 0
    return out


def test_run_leaves_its_files_and_is_measured(done, capsys):
    assert main(["lm", "test", f"--config={done / 'config.yaml'}"]) == 0
    shown = capsys.readouterr().out
    assert "test_epsilon_perplexity" in shown and "test_jensen_shannon" in shown
    assert {"config.yaml", "curve.json", "model.safetensors"} <= {path.name for path in done.iterdir()}
    assert "val_sparsemax_score" in json.loads((done / "curve.json").read_text())[0]


def test_texts_follow_their_prompts(done, tmp_path, capsys):
    asked = ["lm", "generate", "the film", "i thought", "--checkpoint", str(done), "--max-length", "8"]
    assert main(asked) == 0
    first = capsys.readouterr().out.splitlines()
    assert len(first) == 2 and first[0].startswith("the film") and first[1].startswith("i thought")
    assert main([*asked, "--page", "4", "--json", "--samples", "2", "--out", str(tmp_path / "a.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert len(rows) == 4 and rows[2]["prompt"] == "i thought" and 0 < rows[0]["share"] <= 1
    assert main([*asked[:2], *asked[4:], "--greedy"]) == 0
    once = capsys.readouterr().out
    assert main([*asked[:2], *asked[4:], "--greedy", "--seed", "5"]) == 0
    assert capsys.readouterr().out == once


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--temperature", "0"], "temperature"), (["--top-p", "2"], "top_p"), (["--device", "nowhere"], "nowhere")],
)
def test_request_that_makes_no_sense_is_refused_in_a_line(done, capsys, arguments, message):
    assert main(["lm", "generate", "--checkpoint", str(done), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1


def test_comparison_writes_table_and_page(done, tmp_path, capsys):
    out = tmp_path / "page"
    arguments = ["lm", "compare", str(done), "--out", str(out), "--examples", "2", "--rounds", "1", "--max-length", "5"]
    assert main(arguments) == 0
    assert "sparsemax score" in capsys.readouterr().out
    page = (out / "report.html").read_text()
    assert "writtenExplorer" in page and "How they go on" in page
    assert main(["lm", "compare", str(done), "--temperature", "-1", "--out", str(out)]) == 2


@pytest.mark.slow
def test_demonstration_runs_from_end_to_end(tmp_path, capsys, monkeypatch):
    from omegamax.tasks.language import demo

    small = demo.EmbeddedReviewsData((64, 4, 4), length=16, batch_size=8)
    monkeypatch.setattr(demo.LanguageRecipe, "data", lambda self, seed: small)
    assert main(["lm", "demo", "--out", str(tmp_path / "demo"), "--steps", "3"]) == 0
    shown = capsys.readouterr().out
    assert "possible" in shown and "lm generate" in shown and (tmp_path / "demo" / "report.html").is_file()


def test_bytes_go_on_within_a_word_and_an_unknown_encoding_is_refused(tmp_path, capsys):
    book = tmp_path / "book.txt"
    book.write_text("abcabcabc" * 60)
    given = ["--data", "TextFilesData", f"--data.files=[{book}]", "--data.size=260", "--data.length=16"]
    network = [f"--model.network.{each}" for each in SMALL]
    settings = [*given, *network, *trainer(1), f"--out={tmp_path / 'run'}"]
    assert main(["lm", "fit", *settings]) == 0
    capsys.readouterr()
    assert main(["lm", "generate", "abc", "--checkpoint", str(tmp_path / "run"), "--max-length", "5", "--json"]) == 0
    text = json.loads(capsys.readouterr().out)["text"]
    assert main(["lm", "generate", "abc", "--checkpoint", str(tmp_path / "run"), "--max-length", "5"]) == 0
    assert capsys.readouterr().out == f"abc{text}\n"
    assert main(["lm", "fit", *given, "--data.encoding=klingon", f"--out={tmp_path / 'other'}"]) == 2
    assert "encoding must be one that Python knows" in capsys.readouterr().err
