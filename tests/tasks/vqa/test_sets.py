"""Training and evaluation on each set, from small files in the formats in which it is distributed."""

import json
import zipfile

import numpy as np
import pytest
import torch
from small_runs import curve, options, trainer
from tests.data.test_daquar import TEST, TRAIN, png
from tests.data.test_daquar import rows as daquar_rows
from tests.data.test_easy_vqa import pixels, questions
from tests.data.test_nlvr import rows as nlvr_rows
from tests.data.test_shapes import lines
from tests.data.test_shapes import pixels as shapes_pixels
from tests.data.test_vqa2 import QUESTIONS, save_map, write
from tests.tasks.vqa.runs import network

from omegamax.cli.vqa.application import VQA
from omegamax.data import BrokenSampleWarning, Vocabulary
from omegamax.data.vqa2 import read_results, write_grid
from omegamax.tasks.features.extract import write_features
from omegamax.tasks.vqa import DaquarData, EasyVQAData, ScenesData, VQA2Data, VQAData

pytestmark = pytest.mark.usefixtures("one_thread")


def easy_vqa(folder):
    for part, count in (("train", 20), ("test", 3)):
        np.savez_compressed(folder / f"{part}_images.npz", images=pixels(count))
        (folder / f"{part}_questions.json").write_text(json.dumps(questions(count)))
    return 9


def shapes(folder):
    parts = ("train", "val", "test")
    np.savez_compressed(folder / "images.npz", **{part: shapes_pixels(i) for i, part in enumerate(parts)})
    for part in parts:
        (folder / f"{part}.jsonl").write_text(lines())
    return 3


def daquar(folder):
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for number in (*TRAIN, *TEST):
            archive.writestr(f"image{number}.png", png(number))
    for part, numbers in (("train", TRAIN), ("test", TEST)):
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in daquar_rows(numbers)))
    return 6


def nlvr(folder):
    from PIL import Image

    for part in ("train_subset", "dev", "test"):
        (folder / f"{part}.jsonl").write_text("\n".join(map(json.dumps, nlvr_rows(part))))
        with zipfile.ZipFile(folder / f"{part}_images.zip", "w") as archive:
            for row in nlvr_rows(part):
                with archive.open(row["image"], "w") as file:
                    Image.new("P", (40, 10), int(row["identifier"][0])).save(file, "PNG")
    return 3


def arguments(out, name, folder, *more, pixels="true"):
    data = {"batch_size": 2, "grid": "[2,2]"}
    return [
        *network(pixels=pixels, grid="[2,2]"),
        f"--data={name}",
        f"--data.folder={folder}",
        *options("data", data),
        *trainer("null", max_steps=2, num_sanity_val_steps=0),
        "--trainer.val_check_interval=1",
        f"--out={out}",
        *more,
    ]


@pytest.mark.parametrize(
    "name, make, size",
    [("EasyVQAData", easy_vqa, 16), ("ShapesData", shapes, 30), ("DaquarData", daquar, 16), ("NLVRData", nlvr, 8)],
)
def test_set_is_learnt_and_answered(tmp_path, name, make, size):
    folder, out = tmp_path / "set", tmp_path / "run"
    folder.mkdir()
    count = make(folder)
    given = arguments(out, name, folder, f"--data.size=[{size},{size}]")
    assert VQA.run_stage("fit", given) == 0
    assert [point["step"] for point in curve(out)] == [1, 2] and "val_accuracy" in curve(out)[0]
    assert VQA.run_stage("predict", given) == 0
    answers = json.loads((out / "answers.json").read_text())
    assert len(answers) == len({entry["id"] for entry in answers}) == count
    data = VQAData.of(torch.load(out / "checkpoints" / "last.ckpt", weights_only=True)["vqa"]["data"])
    assert type(data).__name__ == name and data.folder == str(folder) and data.size == (size, size)
    assert {entry["answer"] for entry in answers} <= set(data.vocabulary.answers)


def test_rare_answers_of_daquar_are_left_out_and_never_right(tmp_path):
    daquar(tmp_path)
    data = DaquarData(str(tmp_path), size=(8, 8), answers=1, batch_size=64, grid=(2, 2))
    assert list(data.vocabulary.answers) == ["4"]
    batch = next(iter(data.val_dataloader()))
    assert batch["answers"].sum(1).tolist() == [0.0, 1.0] * (len(batch["id"]) // 2)


@pytest.mark.parametrize("ending", ["npz", "pth"])
def test_daquar_takes_features_that_were_extracted(tmp_path, ending):
    daquar(tmp_path)
    features = tmp_path / "features"
    for number in (*TRAIN, *TEST):
        write_features(features / f"image{number}.{ending}", torch.full((8, 2, 2), float(number)))
    out = tmp_path / "run"
    given = arguments(out, "DaquarData", tmp_path, f"--data.features={features}", pixels="false")
    assert VQA.run_stage("fit", given) == 0 and VQA.run_stage("test", given) == 0
    data = DaquarData(str(tmp_path), features=str(features), batch_size=6)
    batch = next(iter(data.test_dataloader()))
    assert batch["features"].shape == (6, 4, 8) and batch["features"][:, 0, 0].tolist() == [21, 21, 22, 22, 23, 23]
    (features / f"image22.{ending}").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no features of the picture image22\.png: no image22\.npz or"):
        DaquarData(str(tmp_path), features=str(features)).test_dataloader()


# --- VQA-v2


@pytest.fixture
def vqa2(tmp_path):
    """The official files of three parts, and features of their pictures: square, or each of its own size."""
    folder = tmp_path / "vqa2"
    for kind in ("square", "ragged"):
        (folder / kind).mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    for subset in ("train2014", "val2014", "test-dev2015"):
        write(folder, subset)
        for number in (9, 25):
            name = f"COCO_{subset.replace('-dev', '')}_{number:012d}"
            write_grid(folder / "square" / f"{name}.npz", torch.rand(3, 3, 8, generator=generator))
            size = (2, 3) if number == 9 else (4, 2)
            write_grid(folder / "ragged" / f"{name}.pth", torch.rand(*size, 8, generator=generator))
    return folder


def vqa2_arguments(out, folder, kind, *more):
    features = f"--data.features={folder / kind}"
    return arguments(out, "VQA2Data", folder, features, "--data.least=1", *more, pixels="false")


@pytest.mark.parametrize("kind", ["square", "ragged"])
@pytest.mark.parametrize("output", ["tvmax", "continuous_sparsemax"])
def test_vqa2_is_learnt_and_answered_for_the_server(tmp_path, vqa2, kind, output):
    out = tmp_path / "run"
    given = vqa2_arguments(out, vqa2, kind, f"--model.network.output.kind={output}")
    assert VQA.run_stage("fit", given) == 0 and len(curve(out)) == 2
    assert {"val_accuracy_yes_no", "val_accuracy_number", "val_accuracy_other"} <= curve(out)[0].keys()
    assert "val_divergence" not in curve(out)[0]  # no human maps were given
    assert VQA.run_stage("validate", given) == 0 and VQA.run_stage("predict", given) == 0
    results = read_results(out / "answers.json")
    assert list(results) == [number for number, _, _ in QUESTIONS]
    entries = json.loads((out / "answers.json").read_text())
    assert all(entry.keys() == {"question_id", "answer"} for entry in entries)
    assert set(results.values()) <= {"red", "2", "yes", "pink", "no"}


def test_human_maps_are_compared_in_validation(tmp_path, vqa2):
    maps, out = vqa2 / "hat", tmp_path / "run"
    maps.mkdir()
    save_map(maps / "9001_1.png", [[0, 255]])
    given = vqa2_arguments(out, vqa2, "square", f"--data.human={maps}")
    assert VQA.run_stage("fit", given) == 0
    point = curve(out)[-1]
    assert 0 < point["val_divergence"] < 1 and {"val_accuracy_yes_no", "val_accuracy_other"} <= point.keys()
    assert VQA.run_stage("predict", given) == 0 and len(read_results(out / "answers.json")) == 3
    only = VQA2Data(str(vqa2), features=str(vqa2 / "square"), human=str(maps), only_human=True, least=1)
    assert [batch["id"] for batch in only.val_dataloader()] == [["9001"]]
    (batch,) = only.val_dataloader()
    right = batch["relevance"][0]
    torch.testing.assert_close(right.sum(0), torch.tensor([0.0, 1 / 3, 2 / 3]))
    assert [len(batch["id"]) for batch in only.train_dataloader()] == [3]  # all questions train
    assert [len(batch["id"]) for batch in only.predict_dataloader()] == [3]
    with pytest.raises(ValueError, match="only_human needs human"):
        VQA2Data(str(vqa2), features=str(vqa2 / "square"), only_human=True)


def test_answers_outside_the_dictionary_are_dropped(tmp_path, vqa2):
    path = tmp_path / "answers.json"
    path.write_text(json.dumps([{"yes": 0, "2": 1}, {"0": "yes", "1": "2"}]))
    data = VQA2Data(str(vqa2), features=str(vqa2 / "square"), answers_file=str(path), batch_size=3)
    (batch,) = data.val_dataloader()
    assert list(data.vocabulary.answers) == ["yes", "2"]
    torch.testing.assert_close(batch["answers"], torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))


def test_training_takes_validation_in_on_demand(vqa2):
    for path in vqa2.glob("*val2014*"):  # other questions, by other numbers
        content = json.loads(path.read_text())
        for entry in content.get("questions") or content["annotations"]:
            entry["question_id"] += 5
        path.write_text(json.dumps(content))
    features = str(vqa2 / "square")
    data = VQA2Data(str(vqa2), features=features, train_with_val=True, least=1, batch_size=9)
    (batch,) = data.train_dataloader()
    assert sorted(map(int, batch["id"])) == [9000, 9001, 9005, 9006, 25000, 25005]


@pytest.mark.parametrize("damage, said", [("missing", "has no features of picture 25"), ("cut", "is damaged")])
def test_bad_feature_file_is_named_and_can_be_passed_over(tmp_path, vqa2, capsys, damage, said):
    path = vqa2 / "square" / "COCO_train2014_000000000025.npz"
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[:100])
    out = tmp_path / "run"
    assert VQA.run_stage("fit", vqa2_arguments(out, vqa2, "square")) == 2
    shown = capsys.readouterr().err
    assert said in shown and "25" in shown and shown.strip().splitlines()[-1].startswith("omegamax vqa fit: error: ")
    with pytest.warns(BrokenSampleWarning, match=r"sample 2 is passed over \(1 so far, of 3\)"):
        assert VQA.run_stage("fit", vqa2_arguments(tmp_path / "more", vqa2, "square", "--data.skip_broken=1")) == 0
    assert len(curve(tmp_path / "more")) == 2


def test_questions_without_an_answer_are_counted(tmp_path, vqa2, capsys):
    given = vqa2_arguments(tmp_path, vqa2, "square", "--data.skip_broken=1")
    assert VQA.run_stage("fit", given) == 0
    (vqa2 / "square" / "COCO_test2015_000000000025.npz").unlink()
    with pytest.warns(BrokenSampleWarning, match=r"picture 25"):
        assert VQA.run_stage("predict", given) == 0
    assert "2 answers (of 3 questions; the others were passed over)" in capsys.readouterr().out
    assert list(read_results(tmp_path / "answers.json")) == [9000, 9001]


def test_truncated_questions_are_named(tmp_path, vqa2, capsys):
    path = next(vqa2.glob("*train2014_questions.json"))
    path.write_text(path.read_text()[:-20])
    assert VQA.run_stage("fit", vqa2_arguments(tmp_path / "run", vqa2, "square")) == 2
    assert path.name in capsys.readouterr().err


# --- what all share


def test_vocabulary_comes_from_a_file_on_demand(tmp_path):
    easy_vqa(tmp_path)
    path = tmp_path / "words.json"
    Vocabulary(["what", "shape"], ["circle", "yes", "teal", "red"]).save(path)
    data = EasyVQAData(str(tmp_path), size=(8, 8), grid=(2, 2), vocabulary_file=str(path))
    assert list(data.vocabulary.answers) == ["circle", "yes", "teal", "red"]
    assert next(iter(data.val_dataloader()))["answers"].shape[1] == 4


def test_unknown_answer_is_an_error_where_all_are_known(tmp_path):
    easy_vqa(tmp_path)
    path = tmp_path / "words.json"
    Vocabulary(["what", "shape"], ["circle", "yes"]).save(path)
    data = EasyVQAData(str(tmp_path), size=(8, 8), vocabulary_file=str(path))
    with pytest.raises(ValueError, match="teal"):
        data.val_dataloader()


def test_sets_kept_in_memory_and_read_each_time_give_the_same_batches():
    settings = {"samples": (9, 5, 4), "image_size": 32, "grid": (2, 2), "batch_size": 4, "length": 12}
    kept, read = (ScenesData(**settings, keep=keep) for keep in (True, False))
    for a, b in zip(kept.train_dataloader(), read.train_dataloader(), strict=True):
        assert a["id"] == b["id"] and torch.equal(a["image"], b["image"])
        length = b["question"].shape[1]
        assert torch.equal(a["question"][:, :length], b["question"]) and not a["question"][:, length:].any()


@pytest.mark.slow
def test_workers_read_in_the_same_order_and_start_in_the_middle():
    settings = {"samples": (12, 4, 4), "image_size": 32, "grid": (2, 2), "batch_size": 2, "keep": False}
    alone = ScenesData(**settings).train_dataloader()
    helped = ScenesData(**settings, workers=2).train_dataloader()
    for epoch in (0, 1):
        for batches in (alone, helped):
            batches.sampler.set_epoch(epoch)
        wanted = [batch["id"] for batch in alone]
        assert [batch["id"] for batch in helped] == wanted
    helped.load_state_dict({**helped.state_dict(), "batch": 4})
    assert [batch["id"] for batch in helped] == wanted[4:]


def test_data_is_made_again_from_its_settings():
    data = ScenesData(samples=(4, 4, 4), image_size=32, shapes=("star", "ring", "bar"), seed=3)
    again = VQAData.of(json.loads(json.dumps(data.settings)), batch_size=2)
    assert (
        again.batch_size == 2
        and again.seed == 3
        and again.shapes == ["star", "ring", "bar"]
        and again.vocabulary == data.vocabulary
    )
    with pytest.raises(ValueError, match="class must be one of 'ScenesData'"):
        VQAData.of({"class": "Other"})
