"""``omegamax translate``: runs, their files, and a line for each line whatever it holds."""

from __future__ import annotations

import io
import json
import math

import pytest
from small_runs import TRAINER, options, trainer

from omegamax.cli.main import main

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = ["dim=16", "hidden_dim=16", "layers=1", "heads=2", "attention=entmax15", "output.transform=sparsemax"]
HOSTILE = b"der hund\n\n  \n\xff\xfe\x00\nx\xe2\x80\xa8y\r\n" + b"wort " * 10_000 + b"\n" + "日本\u202e語".encode()


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A run on the embedded pair of languages."""
    out = tmp_path_factory.mktemp("run") / "small"
    network = [f"--model.network.{each}" for each in SMALL]
    settings = ["--data.samples=[64,8,6]", "--data.batch_size=16", "--model.search.max_length=12", f"--out={out}"]
    assert main(["translate", "fit", *settings, *network, *trainer(1)]) == 0
    return out


def predict(monkeypatch, capsys, done, given, *more):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    assert main(["translate", "predict", "--checkpoint", str(done), "--max-length", "9", *more]) == 0
    return capsys.readouterr()


def test_run_leaves_its_files_and_is_measured(done, capsys):
    assert main(["translate", "test", f"--config={done / 'config.yaml'}"]) == 0
    shown = capsys.readouterr().out
    assert "test_bleu" in shown and "nrefs:1|case:mixed" in shown
    files = {path.name for path in done.iterdir()}
    assert {"config.yaml", "curve.json", "model.safetensors", "test.hyp", "test.ref", "test_bleu.json"} <= files
    assert len((done / "test.hyp").read_text().splitlines()) == 6
    assert "val_bleu" in json.loads((done / "curve.json").read_text())[0]


def test_every_line_has_its_line(done, monkeypatch, capsys):
    shown = predict(monkeypatch, capsys, done, HOSTILE)
    lines = shown.out.split("\n")
    assert len(lines) == 8 and lines[-1] == "" and lines[1] == lines[2] == "" and lines[0] and lines[6]
    assert "line 6: the last 9,745 subwords were not read" in shown.err


def test_file_is_translated_into_a_file(done, tmp_path, monkeypatch, capsys):
    (tmp_path / "in.txt").write_bytes(HOSTILE)
    out = tmp_path / "out.txt"
    shown = predict(monkeypatch, capsys, done, b"", str(tmp_path / "in.txt"), "--out", str(out))
    assert shown.out == "" and out.read_text().count("\n") == 7
    assert predict(monkeypatch, capsys, done, b"").out == ""


def test_file_that_is_read_is_not_written_over(done, tmp_path, monkeypatch, capsys):
    path = tmp_path / "in.txt"
    path.write_bytes(HOSTILE)
    (tmp_path / "link.txt").symlink_to(path)
    for out in (path, tmp_path / "link.txt"):
        assert main(["translate", "predict", str(path), "--checkpoint", str(done), "--out", str(out)]) == 2
        assert f"--out must be another file than {path}, which is read" in capsys.readouterr().err
    assert path.read_bytes() == HOSTILE
    out = tmp_path / "new" / "folder" / "out.txt"  # made where it is not there yet
    predict(monkeypatch, capsys, done, b"", str(path), "--out", str(out))
    assert out.read_text().count("\n") == 7


def test_several_translations_are_json(done, monkeypatch, capsys):
    shown = predict(monkeypatch, capsys, done, b"der hund\n\n", "--nbest", "3")
    first, second = map(json.loads, shown.out.splitlines())
    assert len(first["translations"]) == 3 and second == {"translations": [], "exact": False, "complete": False}
    scores = [each["log_prob"] for each in first["translations"]]
    assert scores == sorted(scores, reverse=True)
    drawn = predict(monkeypatch, capsys, done, b"der hund\n", "--samples", "4")
    assert len(json.loads(drawn.out)["translations"]) == 4


def test_all_translations_are_listed_where_that_can_be(done, monkeypatch, capsys):
    from omegamax.nn import TokenOutput

    shown = predict(monkeypatch, capsys, done, b"der hund\n", "--all", "--max-length", "1")
    listed = json.loads(shown.out)
    assert listed["complete"] and sum(math.exp(each["log_prob"]) for each in listed["translations"]) > 1 - 1e-5
    monkeypatch.setattr(TokenOutput, "sparse", False)
    assert main(["translate", "predict", "--checkpoint", str(done), "--all"]) == 2
    assert "--all needs an output with exact zeros" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--temperature", "0"], "temperature"),
        (["no.txt"], "no.txt does not exist; check the path"),
        (["."], ". is a folder; give a file with a sentence a line"),
        (["--length-penalty", "-1"], "length_penalty"),
        (["--device", "nowhere"], "nowhere"),
        (["--samples", "2", "--all"], "--samples draws in place of a search; leave out --all"),
        (["--samples", "2", "--nbest", "3"], "leave out --nbest"),
    ],
)
def test_request_that_makes_no_sense_is_refused_in_a_line(done, capsys, arguments, message):
    assert main(["translate", "predict", "--checkpoint", str(done), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1


def test_alignment_is_drawn(done, tmp_path, capsys):
    out = tmp_path / "a.png"
    arguments = ["translate", "explain", "der hund hat den ball", "--checkpoint", str(done), "--out", str(out)]
    arguments += ["--max-length", "9"]
    assert main(arguments) == 0 and out.stat().st_size > 5000
    assert "proven best" in capsys.readouterr().out
    assert main([*arguments, "--target", "the dog has the ball"]) == 0
    assert main(["translate", "explain", " ", "--checkpoint", str(done), "--out", str(out)]) == 2


def test_demonstration_runs_from_end_to_end(tmp_path, capsys, monkeypatch):
    from omegamax.tasks.translation import demo

    monkeypatch.setattr(demo.TranslationRecipe, "data", lambda self, seed: demo.TinyPairsData((64, 4, 4)))
    assert main(["translate", "demo", "--out", str(tmp_path / "demo"), "--steps", "2"]) == 0
    shown = capsys.readouterr().out
    assert "words that can follow" in shown and (tmp_path / "demo" / "alignment.png").stat().st_size > 5000


def test_networks_are_compared_in_a_table_and_a_page(done, tmp_path, capsys):
    out = tmp_path / "comparison"
    options = ["--rounds", "0", "--examples", "2", "--beam", "2", "--max-length", "6", "--out", str(out)]
    assert main(["translate", "compare", str(done), *options]) == 0
    shown = capsys.readouterr().out
    assert "DROP" in shown and "BLEU" in shown
    assert json.loads((out / "comparison.json").read_text())["format"] == "omegamax translation comparison 1"
    assert "Where they looked" in (out / "report.html").read_text()


def test_page_for_typing_is_served_until_it_is_interrupted(done, capsys, monkeypatch):
    import signal

    from omegamax.cli._stop import Stopped
    from omegamax.tasks.translation.typing import TypingServer

    asked = []

    def serve(server):
        asked.extend([server.address, server.page.decode()])
        raise Stopped(signal.SIGINT)

    monkeypatch.setattr(TypingServer, "serve_forever", serve)
    assert main(["translate", "type", "der hund", "--checkpoint", str(done), "--no-browser"]) == 0
    assert asked[0].startswith("http://127.0.0.1:") and asked[0] in capsys.readouterr().out
    assert f"{done} (" in asked[1]  # the run, and what it is
    assert main(["translate", "type", "--checkpoint", str(done), "--no-browser", "--port", "99999"]) == 2


def test_alphas_are_told_and_drawn(done, tmp_path, capsys):
    network = ["dim=8", "hidden_dim=8", "layers=2", "heads=2", "attention=entmax", "learn_alpha=true"]
    settings = ["--data.samples=[16,4,4]", f"--out={tmp_path / 'run'}", *trainer(1)]
    assert main(["translate", "fit", *settings, *(f"--model.network.{each}" for each in network)]) == 0
    capsys.readouterr()
    assert main(["translate", "alphas", "--checkpoint", str(tmp_path / "run"), "--out", str(tmp_path / "a.png")]) == 0
    shown = capsys.readouterr().out
    assert shown.count("decoder, the source") == 2 and (tmp_path / "a.png").stat().st_size > 10_000
    assert main(["translate", "alphas", "--checkpoint", str(done)]) == 2
    assert "has no heads whose alphas are learnt" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("mean", ["average=0.8", "average_epochs=2"])
@pytest.mark.parametrize("length, first, last", [("max_epochs", 1, 3), ("max_steps", 4, 8)])
def test_run_that_was_cut_off_goes_on_as_if_it_had_not_been(tmp_path, mean, length, first, last):
    """With a mean of the weights, and words that are cut anew in each epoch, of three batches."""
    from omegamax.tasks.weights_file import load_plain

    network = ["dim=8", "hidden_dim=8", "layers=1", "heads=2"]
    if length == "max_steps":  # which may end between validations, with which random numbers start anew
        network.append("dropout=0")
    settings = [f"--model.{mean}", "--data.samples=[40,4,4]", "--data.subwords=bpe", "--data.size=60"]
    settings += ["--data.dropout=0.3", "--data.batch_size=16", *(f"--model.network.{each}" for each in network)]
    settings += options("trainer", TRAINER)
    for name, parts in (("whole", [last]), ("cut", [first, last])):
        for number, most in enumerate(parts):
            more = ["--ckpt_path=last"] if number else []
            place = [f"--out={tmp_path / name}", f"--trainer.{length}={most}"]
            assert main(["translate", "fit", *settings, *place, *more]) == 0
    whole, cut = (
        load_plain(tmp_path / name / "checkpoints" / "last.ckpt", "translate", "cpu") for name in ("whole", "cut")
    )
    for key in ("state_dict", "current_model_state"):
        assert whole[key].keys() == cut[key].keys()
        for name, weight in whole[key].items():
            assert weight.equal(cut[key][name]), (key, name)
    assert not all(w.equal(whole["current_model_state"][name]) for name, w in whole["state_dict"].items())
