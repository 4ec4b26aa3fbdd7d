"""``omegamax vqa fit | validate | test | predict``: settings, files, errors."""

import json

import pytest
import yaml
from small_runs import curve, same_weights, weights
from tests.cli.refusals import refused
from tests.tasks.vqa.runs import fit, program, scenes

from omegamax.cli.main import main
from omegamax.cli.vqa.application import VQA
from omegamax.models.mcan import MCANConfig

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A run, made once."""
    return fit(tmp_path_factory.mktemp("run"), max_epochs=2)


def test_run_leaves_its_files(done):
    files = {str(path.relative_to(done)) for path in done.rglob("*") if path.is_file()}
    assert files == {
        "config.yaml",
        "curve.json",
        "model.safetensors",
        "checkpoints/best.ckpt",
        "checkpoints/last.ckpt",
        "log/version_0/metrics.csv",
    }
    for number, point in enumerate(curve(done), 1):
        assert point["step"] == 6 * number and point["epoch"] == number - 1
        assert {"train_loss", "val_loss", "val_accuracy", "val_divergence", "val_inside", "val_zero"} <= point.keys()
    assert "train_loss" in (done / "log/version_0/metrics.csv").read_text().splitlines()[0].split(",")


def test_saved_settings_reproduce_the_run(done, tmp_path):
    assert VQA.run_stage("fit", [f"--config={done / 'config.yaml'}", f"--out={tmp_path}"]) == 0
    assert curve(tmp_path) == curve(done) and same_weights(weights(tmp_path), weights(done))
    first, second = (yaml.safe_load((out / "config.yaml").read_text()) for out in (done, tmp_path))
    assert first.pop("out") == str(done) and second.pop("out") == str(tmp_path)
    assert first == second


@pytest.mark.parametrize("setting", ["--seed_everything=1", "--data.seed=1"])
def test_another_seed_is_another_run(done, tmp_path, setting):
    assert VQA.run_stage("fit", [f"--config={done / 'config.yaml'}", f"--out={tmp_path}", setting]) == 0
    assert curve(tmp_path)[0]["train_loss"] != curve(done)[0]["train_loss"]
    assert not same_weights(weights(tmp_path), weights(done))


def printed(capsys, *arguments):
    with pytest.raises(SystemExit) as exit:
        VQA.run_stage("fit", [*arguments, "--print_config"])
    assert exit.value.code == 0
    return yaml.safe_load(capsys.readouterr().out)


def test_later_files_and_arguments_lie_over_earlier_ones(tmp_path, capsys):
    base, over = tmp_path / "base.yaml", tmp_path / "over.yaml"
    network = {"hidden_dim": 16, "heads": 4, "output": {"kind": "tvmax", "strength": 0.5}}
    data = {"class_path": "ScenesData", "init_args": {"image_size": 48, "batch_size": 3}}
    base.write_text(yaml.safe_dump({"model": {"network": network, "loss": "sparsemax"}, "data": data}))
    over.write_text(
        yaml.safe_dump({"model": {"network": {"output": {"kind": "softmax"}}}, "trainer": {"max_steps": 7}})
    )
    shown = printed(capsys, f"--config={base}", f"--config={over}", "--data.batch_size=5", "--model.network.heads=2")
    made = shown["model"]["network"]
    assert (made["hidden_dim"], made["heads"]) == (16, 2)
    assert made["output"]["kind"] == "softmax" and made["output"]["strength"] == 0.5
    assert shown["model"]["loss"] == "sparsemax" and shown["trainer"]["max_steps"] == 7
    assert shown["data"]["init_args"]["image_size"] == 48 and shown["data"]["init_args"]["batch_size"] == 5


def test_sets_go_by_short_names(capsys):
    shown = printed(capsys, "--data=EasyVQAData", "--data.folder=somewhere", "--data.size=[32,32]")
    assert shown["data"]["class_path"].endswith(".EasyVQAData")
    assert shown["data"]["init_args"]["folder"] == "somewhere" and shown["data"]["init_args"]["size"] == [32, 32]


@pytest.mark.parametrize("stage", ["fit", "validate", "test", "predict"])
def test_help_names_the_settings(stage, capsys):
    with pytest.raises(SystemExit) as exit:
        main(["vqa", stage, "--help"])
    shown = capsys.readouterr().out
    assert exit.value.code == 0 and shown.startswith(f"usage: omegamax vqa {stage} [--config FILE ...]")
    for setting in ("--out", "--data.help", "--model.network.output.kind", "--trainer.max_epochs", "--ckpt_path"):
        assert f"\n  {setting} " in shown
    assert "weights_only" not in shown and "--optimizer" not in shown


@pytest.mark.parametrize(
    "setting, said",
    [
        ("--data.batch_size=0", "batch_size must be an integer >= 1, got 0"),
        ("--data.batch_size=many", "\"batch_size\": Expected a <class 'int'>. Got value: many"),
        ("--data.workers=-1", "workers must be an integer >= 0, got -1"),
        ("--data.seed=-1", "seed must be an integer >= 0, got -1"),
        ("--data.length=0", "length must be an integer >= 1, got 0"),
        ("--data.grid=[0,2]", "grid must be at least 1 along every axis"),
        ("--data.grid=[3,3]", "data.grid is (3, 3) and model.network.grid (2, 2)"),
        ("--data.samples=[0,8,8]", "size must be an integer from 1"),
        ("--data.vocabulary_file=/no/words.json", "/no/words.json does not exist"),
        ("--data=NoSuch", "there is no such set; known: ScenesData, EasyVQAData"),
        ("--model.rate.peak=-1", "peak must be a finite number > 0"),
        ("--model.rate.fall=slowly", "fall must be one of"),
        ("--model.betas=[0.9,1.5]", "betas must be two numbers in [0, 1)"),
        ("--model.weight_decay=-1", "weight_decay >= 0"),
        ("--model.loss=none", "AnswerLoss: name must be one of"),
        ("--model.cnn=/no/cnn.safetensors", "/no/cnn.safetensors does not exist"),
        ("--model.network.hidden_dim=7", "hidden_dim must be a multiple of heads"),
        ("--model.network.output.kind=all", "kind must be one of"),
        ("--model.network.pixels=false", "an image needs pixels=True"),
        ("--trainer.max_epochs=-5", "`max_epochs` must be a non-negative integer"),
        ("--trainer.accelerator=abacus", "abacus"),
        ("--trainer.val_check_interval=100", "`val_check_interval` (100) must be"),
        ("--config=/no/config.yaml", "File does not exist: '/no/config.yaml'"),
        ("--ckpt_path=/no/such.ckpt", "/no/such.ckpt does not exist"),
        ("--no.such=1", "unrecognized arguments: --no.such=1"),
    ],
)
def test_settings_that_make_no_sense_are_named(tmp_path, capsys, setting, said):
    assert said in refused(capsys, "vqa", "fit", *scenes(tmp_path, setting))


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_untrained_network_is_not_measured(tmp_path, capsys, stage):
    assert "best.ckpt does not exist; give --ckpt_path FILE" in refused(capsys, "vqa", stage, *scenes(tmp_path))


def test_folder_of_a_run_is_not_written_over(done, capsys):
    before = (done / "curve.json").read_text()
    assert "holds a run; go on with it by --ckpt_path last" in refused(capsys, "vqa", "fit", *scenes(done))
    assert (done / "curve.json").read_text() == before


def test_folder_of_a_set_that_is_not_there_is_named(tmp_path, capsys):
    given = ["--data=EasyVQAData", "--data.folder=/no/set", f"--out={tmp_path}"]
    assert "the folder /no/set does not exist; give the folder" in refused(capsys, "vqa", "fit", *given)


def test_traceback_is_shown_on_demand(tmp_path, monkeypatch):
    monkeypatch.setenv("OMEGAMAX_TRACEBACK", "1")
    with pytest.raises(ValueError, match="peak must be a finite number > 0"):
        VQA.run_stage("fit", scenes(tmp_path, "--model.rate.peak=-1"))


def test_other_commands_take_the_best_network(done, capsys):
    for stage in ("validate", "test"):
        assert VQA.run_stage(stage, [f"--config={done / 'config.yaml'}"]) == 0
        shown = capsys.readouterr().out
        prefix = "val" if stage == "validate" else stage
        assert all(f"{prefix}_{name}" in shown for name in ("accuracy", "loss", "divergence", "inside"))
    best = max(reversed(curve(done)), key=lambda point: point["val_accuracy"])  # the last of equal ones
    assert VQA.run_stage("validate", [f"--config={done / 'config.yaml'}"]) == 0
    assert f"{best['val_loss']:.6f}" in capsys.readouterr().out
    assert [point["step"] for point in curve(done)] == [6, 12]  # measuring leaves the curve alone


def test_answers_are_written_with_probabilities(done, capsys):
    found = []
    for given in ([], [f"--ckpt_path={done / 'model.safetensors'}"]):  # the same network
        assert VQA.run_stage("predict", [f"--config={done / 'config.yaml'}", *given]) == 0
        assert f"6 answers: {done / 'answers.json'}" in capsys.readouterr().out
        found.append(json.loads((done / "answers.json").read_text()))
        (done / "answers.json").unlink()
    assert found[0] == found[1]
    assert [entry["id"] for entry in found[0]] == [f"scenes-0-test-{i}" for i in range(6)]
    assert all(0 <= entry["probability"] <= 1 and isinstance(entry["answer"], str) for entry in found[0])


def test_training_does_not_start_from_weights_alone(done, tmp_path, capsys):
    path = done / "model.safetensors"
    said = refused(capsys, "vqa", "fit", *scenes(tmp_path, f"--ckpt_path={path}"))
    assert f"{path} has a network but not the state of its training" in said


def test_checkpoints_and_loggers_can_be_turned_off(tmp_path):
    out = fit(tmp_path, max_steps=2, enable_checkpointing="false", logger="false")
    assert not (out / "checkpoints").exists() and not (out / "log").exists()
    assert (out / "model.safetensors").exists()


@pytest.mark.slow
def test_advertisements_and_idle_warnings_do_not_reach_the_user(tmp_path):
    code = "import sys; from omegamax.cli.main import main; sys.exit(main(sys.argv[1:]))"
    shown = program(code, "vqa", "fit", *scenes(tmp_path, max_steps=8))
    assert shown.returncode == 0, shown.stderr
    said = (shown.stdout + shown.stderr).lower()
    assert not any(
        word in said for word in ("tip:", "warn", "args parameter", "deprecated", "litlogger", "pip install")
    )


def test_the_small_network_on_the_embedded_set_is_the_default(capsys):
    shown = printed(capsys)
    assert MCANConfig.from_dict(shown["model"]["network"]) == MCANConfig.small()
    assert shown["data"]["class_path"].endswith("ScenesData")
    assert shown["model"]["rate"]["peak"] == 1e-4 and shown["out"] == "runs/vqa"
