"""``omegamax vqa compare``: the table, the report, and runs that cannot be compared."""

import json
import shutil

import numpy as np
import pytest
import torch
from data.test_daquar import TEST, TRAIN, png
from data.test_vqa2 import save_map
from data.test_vqa2 import write as write_vqa2
from small_runs import options
from tasks.vqa.networks import CURVE, scenes, trained, write, write_runs
from tasks.vqa.runs import fit, network
from tasks.vqa.test_sets import daquar as write_daquar
from tests.cli.refusals import check_refusal

from omegamax.cli.main import main
from omegamax.cli.vqa.application import VQA
from omegamax.data.pictures import decode
from omegamax.data.vqa2 import write_grid
from omegamax.tasks.vqa import DaquarData, EasyVQAData, VQA2Data, VQATask
from omegamax.tasks.vqa.report import Comparison

QUICK = ["--examples", "1", "--themed", "0", "--rounds", "1"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("runs"))


def compare(*arguments, out):
    return main(["vqa", "compare", *map(str, arguments), "--out", str(out)])


def table(text):
    """Cells by the name of the row and of the column."""
    lines = text.split("\n\n")[0].splitlines()
    head, *rows = ([cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines)
    return {name: dict(zip(head[1:], cells, strict=False)) for name, *cells in rows}


@pytest.fixture(scope="module")
def written(runs, tmp_path_factory):
    """The folder of a comparison of all kinds with a baseline."""
    *seeing, blind = runs.values()
    out = tmp_path_factory.mktemp("out") / "new"
    assert compare(*seeing, "--baseline", blind, *QUICK, out=out) == 0
    return out


def test_table_shows_the_numbers_of_the_file(runs, tmp_path, capsys):
    *seeing, blind = runs.values()
    assert compare(*seeing, "--baseline", blind, "--rounds", "1", "--examples", "0", out=tmp_path) == 0
    shown = capsys.readouterr().out
    rows = table(shown)
    comparison = Comparison.load(tmp_path / "comparison.json")
    assert list(rows) == [row.name for row in comparison.rows] + ["language only"]
    for row in (*comparison.rows, comparison.baseline):
        cells = rows[row.name]
        for kind, value in row.accuracy.items():
            assert cells[kind] == f"{value:.3f}"
        assert cells["parameters"] == f"{row.parameters:,}" and float(cells["ms/step"]) > 0
        for title, value in {"JS (bits)": row.divergence, "inside": row.inside, "zeros": row.zero}.items():
            assert cells[title] == ("-" if value is None else f"{value:.3f}")
    histogram = comparison.rows[-1].components
    counts = shown.splitlines()[5].split("  ", 1)[1]
    assert counts.endswith("  ".join(f"{k}: {n}" for k, n in histogram.items())) and sum(histogram.values()) == 20
    assert all(rows[row.name]["components K*"] == "-" for row in comparison.rows[:-1])
    assert comparison.baseline.divergence is None and comparison.examples == []
    assert f"curves and maps to look at: {tmp_path / 'report.html'}" in shown


def test_report_and_file_are_written(written, runs):
    comparison = Comparison.load(written / "comparison.json")
    assert [row.kind for row in comparison.rows] == [name for name in runs if name != "language_only"]
    assert all(row.curve == CURVE for row in comparison.rows)
    (example,) = comparison.examples
    page = (written / "report.html").read_text(encoding="utf-8")
    assert "<title>Attention on Scenes</title>" in page and example.id in page


def test_numbers_are_those_of_the_test_command(tmp_path, capsys):
    run = fit(tmp_path / "run", max_epochs=1)
    arguments = [*network(pixels="true", grid="[2,2]"), "--trainer.accelerator=cpu", f"--out={run}"]
    data = options("data", {"samples": "[24,10,6]", "image_size": 32, "grid": "[2,2]", "batch_size": 4})
    quiet = ["--trainer.enable_progress_bar=false", "--trainer.logger.class_path=CSVLogger"]
    logger = [f"--trainer.logger.init_args.save_dir={tmp_path / 'log'}"]
    for stage, split in (("test", "test"), ("validate", "val")):
        capsys.readouterr()
        assert VQA.run_stage(stage, [*arguments, *data, *quiet, *logger]) == 0
        shown = measures(capsys.readouterr().out)
        assert compare(run, "--split", split, "--examples", "0", "--rounds", "0", out=tmp_path / split) == 0
        (row,) = Comparison.load(tmp_path / split / "comparison.json").rows
        found = {"accuracy": row.accuracy["overall"], "divergence": row.divergence, "inside": row.inside}
        found |= {f"accuracy_{kind.replace('/', '_')}": row.accuracy[kind] for kind in ("yes/no", "number", "other")}
        for name, value in found.items():
            assert shown.get(f"{split}_{name}") == (None if value is None else pytest.approx(value, abs=1e-6))
        assert row.step_ms is None


def measures(text):
    """The numbers of Lightning's table."""
    cells = [line.split("│")[1:3] for line in text.splitlines() if line.startswith("│")]
    return {name.strip(): float(value) for name, value in cells}


def test_blind_run_among_the_others_is_the_baseline(runs, tmp_path, capsys):
    assert compare(runs["language_only"], runs["softmax"], "--rounds", "0", "--examples", "0", out=tmp_path) == 0
    assert list(table(capsys.readouterr().out)) == ["softmax", "language only"]
    assert Comparison.load(tmp_path / "comparison.json").baseline.name == "language only"


def test_runs_that_cannot_be_compared_are_named(runs, tmp_path, capsys):
    few = scenes(colours=("red", "blue", "green"))
    other = write(trained("tvmax", few, grid=few.grid), tmp_path / "few")
    out = tmp_path / "out"
    check_refusal(capsys, compare(runs["softmax"], other, out=out), "tvmax knows other words or answers")
    check_refusal(
        capsys, compare(runs["softmax"], "--baseline", runs["tvmax"], out=out), "trained blind, --model.blind true"
    )
    check_refusal(capsys, compare(runs["language_only"], out=out), runs["language_only"], "as --baseline")
    check_refusal(capsys, compare(runs["softmax"], runs["softmax"], out=out), "named twice")
    check_refusal(capsys, compare(tmp_path, out=out), tmp_path, "give a folder that `omegamax vqa fit` wrote")
    task = trained("softmax", few, grid=few.grid)
    task.data_settings = {}
    check_refusal(
        capsys, compare(write(task, tmp_path / "alone"), out=out), "does not say which data it was trained on"
    )
    assert not out.exists()


def test_options_that_make_no_sense(runs, tmp_path, capsys):
    run = runs["softmax"]
    check_refusal(
        capsys, compare(run, "--folder", tmp_path, out=tmp_path), "ScenesData has no folder; leave --folder out"
    )
    check_refusal(capsys, compare(run, "--device", "quantum", out=tmp_path), "--device quantum is not there")
    for option in ("--examples", "--themed", "--rounds"):
        with pytest.raises(SystemExit) as exit:
            compare(run, option, "-1", out=tmp_path)
        assert exit.value.code == 2 and f"{option}: must be an integer, at least 0" in capsys.readouterr().err


CURVES = {
    "cut off": "[{",
    "number": "7",
    "object": '{"step": 1}',
    "list of numbers": "[1]",
    "list of words": '["step"]',
    "no step": '[{"val_loss": 1.0}]',
    "no number": '[{"step": 1, "val_loss": "small"}]',
    "nested": '[{"step": 1, "val_loss": [1.0]}]',
    "deep": "[" * 200_000 + "]" * 200_000,
    "key twice": '[{"step": 1, "step": 2}]',
    "digits": f'[{{"step": {"9" * 5000}}}]',
    "binary": b"\xff\xfe",
}


@pytest.mark.parametrize("case", CURVES)
def test_damaged_curve_is_named(runs, tmp_path, capsys, case):
    run, text = shutil.copytree(runs["softmax"], tmp_path / "run"), CURVES[case]
    (run / "curve.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    check_refusal(capsys, compare(run, out=tmp_path / "out"), run / "curve.json", "remove it")


def test_curve_that_is_too_long_is_named(runs, tmp_path, capsys):
    run = shutil.copytree(runs["softmax"], tmp_path / "run")
    with (run / "curve.json").open("r+b") as file:
        file.truncate(2**40)  # a hole: no room on the disk
    check_refusal(
        capsys, compare(run, out=tmp_path / "out"), run / "curve.json", "at most 67,108,864 bytes", "remove it"
    )


@pytest.mark.parametrize("written", ["NaN", "null"])
def test_loss_that_is_nan_is_left_out_of_the_curve(runs, tmp_path, written):
    run = shutil.copytree(runs["softmax"], tmp_path / "run")
    (run / "curve.json").write_text(f'[{{"step": 1, "val_loss": {written}}}, {{"step": 2, "val_loss": 0.5}}]')
    assert compare(run, *QUICK, out=tmp_path / "out") == 0
    (row,) = Comparison.load(tmp_path / "out" / "comparison.json").rows
    assert row.curve == [{"step": 1, "val_loss": None}, {"step": 2, "val_loss": 0.5}]


def test_data_that_have_moved_and_know_nothing_of_relevance(tmp_path, capsys):
    folder = tmp_path / "there"
    folder.mkdir()
    for part, count in (("train", 30), ("test", 8)):
        asked = [["what color is the shape?", ("red", "blue")[n % 2], n] for n in range(count)]
        (folder / f"{part}_questions.json").write_text(json.dumps(asked))
        np.savez(folder / f"{part}_images.npz", images=np.zeros((count, 64, 64, 3), np.uint8))
    data = EasyVQAData(str(folder), size=(32, 32), grid=(4, 4))
    run = write(trained("softmax", data, grid=data.grid), tmp_path / "run", curve=False)
    moved = folder.rename(tmp_path / "here")
    check_refusal(capsys, compare(run, out=tmp_path / "out"), folder)
    assert compare(run, "--folder", moved, *QUICK, out=tmp_path / "out") == 0
    cells = table(capsys.readouterr().out)["softmax"]
    assert cells["overall"] == cells["other"] == "0.500" and cells["yes/no"] == cells["number"] == "-"
    assert cells["JS (bits)"] == cells["inside"] == "-" and cells["zeros"] == "0.000"
    (example,) = Comparison.load(tmp_path / "out" / "comparison.json").examples
    assert example.relevance is None and example.looks["softmax"].inside is None


def test_features_and_human_maps_of_vqa2(tmp_path, capsys):
    folder, maps = tmp_path / "vqa2", tmp_path / "hat"
    for each in (folder / "features", maps):
        each.mkdir(parents=True)
    for subset in ("train2014", "val2014", "test-dev2015"):
        write_vqa2(folder, subset)
        for number in (9, 25):
            name = f"COCO_{subset.replace('-dev', '')}_{number:012d}.pth"
            write_grid(folder / "features" / name, torch.randn(2 if number == 9 else 4, 3, 24))
    save_map(maps / "9001_1.png", [[0, 255]])
    data = VQA2Data(str(folder), features=str(folder / "features"), least=1)
    run = write(trained("softmax", data, pixels=False, image_dim=24), tmp_path / "run")
    out = tmp_path / "out"
    check_refusal(
        capsys, compare(run, *QUICK, out=out), "no question of the test part has a known answer", "--split val"
    )
    dashes = {}
    for human in ([], ["--human", maps]):
        assert compare(run, "--split", "val", "--examples", "3", "--themed", "0", "--rounds", "1", *human, out=out) == 0
        dashes[len(human)] = table(capsys.readouterr().out)["softmax"]["JS (bits)"]
    assert dashes[0] == "-" and 0 < float(dashes[2]) < 1
    examples = {example.id: example for example in Comparison.load(out / "comparison.json").examples}
    assert set(examples) == {"9000", "9001", "25000"}
    assert examples["9001"].looks["softmax"].divergence == pytest.approx(float(dashes[2]), abs=5e-4)
    assert examples["9000"].relevance is None and examples["25000"].looks["softmax"].inside is None


@pytest.fixture(scope="module")
def photographed(tmp_path_factory):
    """A set of photographs with features, in a folder of its own, and a network trained on them."""
    folder = tmp_path_factory.mktemp("daquar")
    write_daquar(folder)
    (folder / "features").mkdir()
    for number in (*TRAIN, *TEST):
        write_grid(folder / "features" / f"image{number}.pth", torch.randn(2, 3, 24))
    data = DaquarData(str(folder), features=str(folder / "features"))
    return folder, write(trained("continuous_softmax", data, pixels=False, image_dim=24), folder / "run")


def draw_photographs(run, out, *arguments):
    assert compare(run, *arguments, "--examples", "3", "--themed", "0", "--rounds", "0", out=out) == 0
    return Comparison.load(out / "comparison.json").examples


def test_maps_of_features_are_drawn_on_the_photographs_beside_the_set(photographed, tmp_path):
    _, run = photographed
    for example in draw_photographs(run, tmp_path):
        pixels = decode(example.picture, "picture")
        assert pixels.shape[1:] == (237, 312)  # 19 x 25 pixels
        number = 21 + int(example.id.removeprefix("test-")) // 2
        assert pixels.flatten(1).unique(dim=1).tolist() == [[number], [2 * number], [3]] and example.note is None


def test_photographs_may_be_elsewhere_and_what_is_missing_is_grey(photographed, tmp_path, capsys):
    _, run = photographed
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "image21.png").write_bytes(png(99))
    for example in draw_photographs(run, tmp_path / "out", "--pictures", tmp_path / "elsewhere"):
        pixels, found = decode(example.picture, "picture"), example.id in ("test-0", "test-1")
        assert pixels.shape[1:] == ((237, 312) if found else (208, 312))
        assert pixels.flatten(1).unique(dim=1).tolist() == ([[99], [198], [3]] if found else [[229]] * 3)
        assert (example.note is None) == found and (found or "was found: drawn on grey" in example.note)
    capsys.readouterr()
    check_refusal(capsys, compare(run, "--pictures", tmp_path / "no", out=tmp_path), "no does not exist; give a folder")


def test_run_from_before_there_were_pictures_takes_them(photographed, tmp_path):
    folder, run = photographed
    task = VQATask.load(run / "model.safetensors")
    task.data_settings = {name: value for name, value in task.data_settings.items() if name != "pictures"}
    older = write(task, tmp_path / "older")
    (example, *_) = draw_photographs(older, tmp_path / "out", "--pictures", folder / "images.zip")
    assert example.note is None
