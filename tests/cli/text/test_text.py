"""``omegamax text``: runs, their files, what is refused, and explanations."""

from __future__ import annotations

import io
import json
import shlex
from contextlib import redirect_stderr, redirect_stdout

import pytest
import torch
from small_runs import check_goes_on, curve, trainer
from tests.cli.refusals import refused
from tests.tasks.text.test_text_data import table_rows, write_table

from omegamax.cli.main import main
from omegamax.tasks.text import TextTask

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = ["--model.network.word_dim=8", "--model.network.hidden_dim=4", "--model.network.score_dim=4"]


def run_in(out, *more):
    sets = ["--data.samples=[48,16,12]", "--data.batch_size=8"] if not any("--data=" in each for each in more) else []
    kind = "--model.network.attention.kind=sparsemax"
    return [*sets, kind, *SMALL, *trainer(2), f"--out={out}", *more]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A run on the embedded set."""
    out = tmp_path_factory.mktemp("run") / "sparsemax"
    assert main(["text", "fit", *run_in(out)]) == 0
    return out


def test_run_leaves_its_files(done):
    files = {str(path.relative_to(done)) for path in done.rglob("*") if path.is_file()}
    checkpoints = {"checkpoints/best.ckpt", "checkpoints/last.ckpt"}
    assert files == {"config.yaml", "curve.json", "model.safetensors", "log/version_0/metrics.csv", *checkpoints}
    wanted = {"train_loss", "val_loss", "val_accuracy", "val_zero", "val_inside"}
    assert [point["step"] for point in curve(done)] == [6, 12] and all(wanted <= point.keys() for point in curve(done))


@pytest.mark.parametrize("step", [2, 9, 12])
def test_run_that_was_stopped_goes_on_as_if_it_had_not(done, tmp_path, step):
    check_goes_on(TextTask, run_in, tmp_path, done, step)


def test_trained_network_is_measured_and_predicts_in_the_order_of_the_texts(done, capsys):
    assert main(["text", "test", f"--config={done / 'config.yaml'}"]) == 0
    shown = capsys.readouterr().out
    assert all(f"test_{name}" in shown for name in ("accuracy", "loss", "zero", "inside"))
    assert main(["text", "predict", f"--config={done / 'config.yaml'}"]) == 0
    assert f"12 answers: {done / 'answers.json'}" in capsys.readouterr().out
    found = json.loads((done / "answers.json").read_text())
    assert [entry["id"] for entry in found] == [f"reviews-0-test-{i}" for i in range(12)]
    assert all(entry["answer"] in ("negative", "positive") and 0.5 <= entry["probability"] <= 1 for entry in found)


def test_trained_network_does_without_the_vectors_that_it_started_from(tmp_path, capsys):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("the" + " 1" * 8 + "\n")
    out, known = tmp_path / "run", f"--model.word_vectors={vectors}"
    assert main(["text", "fit", *run_in(out, known, "--model.freeze_words=true")]) == 0
    assert TextTask.load(out / "model.safetensors").model.embedding.weight[1].tolist() == [1.0] * 8  # of all vectors
    vectors.unlink()
    config = out / "config.yaml"
    assert str(vectors) in config.read_text()
    for stage in ("validate", "test", "predict"):
        assert main(["text", stage, f"--config={config}"]) == 0
    assert main(["text", "fit", f"--config={config}", f"--out={tmp_path / 'new'}"]) == 2
    assert "vectors.txt does not exist" in capsys.readouterr().err


def test_trained_network_is_asked_about_texts_of_a_table(done, tmp_path, capsys):
    path = write_table(tmp_path / "mine.csv", [("I thought the plot was dull.",), ("Fine!",)], head=("review",))
    words = ["--data.text=review", "--data.labelled=false", f"--data.vocabulary_file={done}"]
    asked = ["text", "predict", f"--config={done / 'config.yaml'}", "--data=TableData", f"--data.test={path}"]
    assert main([*asked, *words, f"--ckpt_path={done / 'model.safetensors'}", f"--out={tmp_path}"]) == 0
    found = json.loads((tmp_path / "answers.json").read_text())
    assert [entry["id"] for entry in found] == ["mine.csv:2", "mine.csv:3"]
    assert {entry["answer"] for entry in found} <= {"negative", "positive"}
    capsys.readouterr()
    assert main([*asked, *words[:2], f"--ckpt_path={done / 'model.safetensors'}", f"--out={tmp_path}"]) == 2
    assert "train must be a file of texts to learn from, got None" in capsys.readouterr().err


def test_file_of_ones_own_from_fit_to_predict(tmp_path, capsys):
    train = write_table(tmp_path / "train.csv", [(label, text) for text, label in table_rows(60)], ("class", "review"))
    new = write_table(tmp_path / "new.csv", [("a good film",), ("",), ("bad",)], ("review",))
    sets = ["--data=TableData", f"--data.train={train}", "--data.text=review", "--data.label=class"]
    more = [f"--data.test={new}", "--data.labelled=false", "--data.held_out=0.3"]
    assert main(["text", "fit", *run_in(tmp_path / "run", *sets, *more)]) == 0
    with pytest.warns(UserWarning, match="1 of 3 texts have no words"):
        assert main(["text", "predict", f"--config={tmp_path / 'run/config.yaml'}"]) == 0
    found = json.loads((tmp_path / "run/answers.json").read_text())
    assert [entry["id"] for entry in found] == ["new.csv:2", "new.csv:3", "new.csv:4"]
    assert {entry["answer"] for entry in found} <= {"no", "yes"}


@pytest.mark.parametrize(
    "setting, said",
    [
        ("--model.network.attention.kind=sharpmax", "sharpmax"),
        ("--model.network.attention.combined=true", "combined goes with a continuous kind"),
        ("--model.weight_decay=-1", "weight_decay must be a finite number >= 0"),
        ("--model.network.encoder=cnn", "encoder must be one of 'bilstm', 'transformer'"),
        ("--data.length=0", "length must be an integer >= 1"),
        ("--data=Tweets", "there is no such set; known: ReviewsData, IMDBData"),
    ],
)
def test_settings_that_make_no_sense_are_named(tmp_path, capsys, setting, said):
    assert said in refused(capsys, "text", "fit", *run_in(tmp_path, setting))


def test_checkpoint_of_another_network_is_refused_by_setting(done, tmp_path, capsys):
    other = ["--model.loss=sparsemax", f"--ckpt_path={done / 'checkpoints/best.ckpt'}"]
    said = refused(capsys, "text", "test", *run_in(tmp_path, *other))
    assert "the checkpoint is of another configuration" in said and "loss: 'softmax', not 'sparsemax'" in said


def test_explain_prints_words_and_draws_them(done, tmp_path, capsys):
    picture = tmp_path / "words.png"
    text = "The film was not boring; I thought."
    assert main(["text", "explain", text, "--checkpoint", str(done), "--out", str(picture)]) == 0
    shown = capsys.readouterr()
    assert "words it was not trained with: ;" in shown.err
    lines = shown.out.splitlines()
    task = TextTask.load(done / "model.safetensors")
    from omegamax.tasks.text.explain import explain

    said = explain(task, text)
    assert lines[0] == f"sparsemax: {said.classes[0][0]}"
    wanted = [
        word if none else f"{word}[<.01]" if weight < 0.01 else f"{word}[{weight:.2f}]".replace("[0.", "[.")
        for word, weight, none in zip(said.words, said.weights.tolist(), said.empty.tolist(), strict=True)
    ]
    assert lines[1].split() == wanted
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert "has no words" in refused(capsys, "text", "explain", " ", "--checkpoint", str(done), "--out", str(picture))


def test_explain_prints_colours_in_a_terminal(done, monkeypatch, capsys):
    import rich.console

    from omegamax.cli.text.explain import show_words
    from omegamax.tasks.text.explain import explain

    said = explain(
        TextTask.load(done / "model.safetensors"), "the film was not boring . i thought it was \x1b[31m good"
    )
    whole = rich.console.Console
    terminal = lambda **more: whole(force_terminal=True, color_system="standard", width=200, **more)  # noqa: E731
    monkeypatch.setattr(rich.console, "Console", terminal)
    show_words("sparsemax", said)
    shown = capsys.readouterr().out
    assert shown.count("\x1b[90m") >= int(said.empty.sum()) - 1 and "\x1b[31m good" not in shown


def test_files_that_are_no_networks_are_named(tmp_path, capsys):
    torch.save({"state_dict": {}, "vqa": {}}, tmp_path / "other.ckpt")
    command = ["explain", "a film", "--out", str(tmp_path / "a.png"), "--checkpoint"]
    assert "is no checkpoint of `omegamax text`" in refused(capsys, "text", *command, str(tmp_path / "other.ckpt"))
    assert "holds no trained network" in refused(capsys, "text", *command, str(tmp_path))


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    """The demonstration with few reviews and three steps: its folder, and what it said."""
    from omegamax.tasks.text import demo

    out, said, bars = tmp_path_factory.mktemp("demo"), io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(bars):
        patch.setattr(demo.TextRecipe.__init__, "__defaults__", ((64, 8, 10), 250, 50))
        assert main(["text", "demo", "--out", str(out), "--steps", "3"]) == 0
    return out, said.getvalue(), bars.getvalue()


def test_demo_trains_every_kind_and_makes_a_page(demonstration):
    out, said, bars = demonstration
    names = ["softmax", "sparsemax", "fusedmax", "k-subsets", "continuous sparsemax", "softmax + continuous sparsemax"]
    assert [name for name in names if f"\n{name} " in said] == names and "  combined: 100 %" in bars
    assert (out / "words.png").read_bytes()[:4] == b"\x89PNG"
    assert "What the writer thinks of the film counts" in (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_commands_that_the_demo_names_run(demonstration):
    out, said, _ = demonstration
    commands = dict(line.partition(" text ")[2].split(" ", 1) for line in said.splitlines() if " text " in line)
    assert list(commands) == ["explain", "compare", "game"]
    for name, command in commands.items():
        assert main(["text", name, *shlex.split(command)]) == 0
    for made in ("mine.png", "comparison/report.html", "game.csv"):
        assert (out / made).is_file()
