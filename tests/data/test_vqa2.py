"""VQA-v2 and VQA-HAT, from small files in the distributed formats: what is read, and what is refused, by name."""

import gzip
import json
import pickle
import re

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from omegamax.data import VQA2, BrokenSampleWarning, Collate, DataError, SkipBroken, Vocabulary, vqa2
from omegamax.data.vqa2 import GridFeatures, HumanAttention, read_annotations, read_grid, read_questions

QUESTIONS = [(9000, 9, "What color is the bowl?"), (9001, 9, "How many cups?"), (25000, 25, "Is it a giraffe?")]
ANSWERS = {
    9000: ("what color is the", "other", ["red"] * 7 + ["Pink"] * 2 + ["a red"]),
    9001: ("how many", "number", ["two"] * 10),
    25000: ("is it a", "yes/no", ["yes"] * 9 + ["no"]),
}


def question_file(subset="train2014"):
    return {
        "info": {"description": "made by a test", "version": "2.0"},
        "task_type": "Open-Ended",
        "data_type": "mscoco",
        "license": {"name": "none"},
        "data_subtype": subset,
        "questions": [{"image_id": i, "question": q, "question_id": n} for n, i, q in QUESTIONS],
    }


def annotation_file(subset="train2014"):
    images = {number: image for number, image, _ in QUESTIONS}
    return {
        "info": {"description": "made by a test", "version": "2.0"},
        "license": {"name": "none"},
        "data_subtype": subset,
        "data_type": "mscoco",
        "annotations": [
            {
                "question_type": question_type,
                "multiple_choice_answer": answers[0],
                "answers": [
                    {"answer": answer, "answer_confidence": "maybe" if i == 2 else "yes", "answer_id": i + 1}
                    for i, answer in enumerate(answers)
                ],
                "image_id": images[number],
                "answer_type": answer_type,
                "question_id": number,
            }
            for number, (question_type, answer_type, answers) in ANSWERS.items()
        ],
    }


def write(folder, subset="train2014", version="v2_"):
    questions = folder / f"{version}OpenEnded_mscoco_{subset}_questions.json"
    annotations = folder / f"{version}mscoco_{subset}_annotations.json"
    questions.write_text(json.dumps(question_file(subset)))
    if not subset.startswith("test"):
        annotations.write_text(json.dumps(annotation_file(subset)))
    return questions, annotations


def features_of(number, h=14, w=14, depth=8):
    return torch.arange(h * w * depth, dtype=torch.float32).reshape(h, w, depth) + number


@pytest.fixture
def folder(tmp_path):
    write(tmp_path)
    (tmp_path / "features").mkdir()
    for number in (9, 25):
        path = tmp_path / "features" / f"COCO_train2014_{number:012d}.npz"
        np.savez(path, x=features_of(number).reshape(196, 8).numpy())
    return tmp_path


# --- questions and annotations


def test_files_are_read_as_distributed(tmp_path):
    questions, annotations = write(tmp_path)
    read = read_questions(questions)
    assert read.subset == "train2014" and list(read.questions) == [9000, 9001, 25000]
    assert read.questions[9001] == (9001, 9, "How many cups?")
    people = read_annotations(annotations)[9000]
    assert people[:5] == (9000, 9, "what color is the", "other", "red")
    assert people.answers == ("red",) * 7 + ("Pink",) * 2 + ("a red",)
    assert people.confidences == ("yes", "yes", "maybe") + ("yes",) * 7


def test_files_may_be_compressed(tmp_path):
    path = tmp_path / "questions.json.gz"
    path.write_bytes(gzip.compress(json.dumps(question_file()).encode()))
    assert len(read_questions(path).questions) == 3
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match=r"questions\.json\.gz is damaged"):
        read_questions(path)


def edited(content, path, change):
    change(content)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda c: c.pop("questions"), "must be an object with a list 'questions', got the keys info"),
        (lambda c: c["questions"].clear(), "the list 'questions' is empty"),
        (lambda c: c["questions"][1].pop("question"), r"questions\[1\] \(question_id 9001\) has no 'question'"),
        (lambda c: c["questions"][1].update(question=" "), r"\[1\] \(question_id 9001\): the question is empty"),
        (lambda c: c["questions"][1].update(question_id=9000), r"questions\[1\] \(question_id 9000\) occurs twice"),
        (lambda c: c["questions"][2].update(question_id="7"), r"questions\[2\]: 'question_id' must be int, got '7'"),
        (lambda c: c["questions"][2].update(image_id=True), r"'image_id' must be int, got True"),
        (lambda c: c["questions"].append(3), r"questions\[3\] must be an object with 'question_id', got 3"),
    ],
)
def test_wrong_question_file_is_refused_with_its_location(tmp_path, change, message):
    path = edited(question_file(), tmp_path / "questions.json", change)
    with pytest.raises(DataError, match=rf"questions\.json.*{message}"):
        read_questions(path)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a: a[0].update(answer_type="colour"), "'answer_type' must be one of 'yes/no', 'number', 'other'"),
        (lambda a: a[0].update(answers=[]), "has no answers"),
        (lambda a: a[0]["answers"][4].pop("answer"), "answer 5 has no 'answer'"),
        (lambda a: a[0]["answers"].append("red"), "answer 11 must be an object with 'answer', got 'red'"),
        (lambda a: a[0].pop("multiple_choice_answer"), "has no 'multiple_choice_answer'"),
        (lambda a: a[1].update(question_id=9000), r"annotations\[1\] \(question_id 9000\) occurs twice"),
    ],
)
def test_wrong_annotation_file_is_refused_with_its_location(tmp_path, change, message):
    path = edited(annotation_file(), tmp_path / "annotations.json", lambda c: change(c["annotations"]))
    with pytest.raises(DataError, match=rf"annotations\.json.*{message}"):
        read_annotations(path)


def test_truncated_and_missing_files_are_named(tmp_path):
    path, _ = write(tmp_path)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match=rf"{re.escape(str(path))} is damaged or not a JSON file .*get the file again"):
        read_questions(path)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json does not exist"):
        read_annotations(tmp_path / "nowhere.json")


# --- the dataset


def test_dataset_yields_samples(folder):
    dataset = VQA2(folder, "train", features=folder / "features")
    assert len(dataset) == 3
    sample = dataset[0]
    assert (sample.question, sample.kind, sample.id) == ("What color is the bowl?", "other", "9000")
    assert sample.answers == {"red": 1.0, "pink": 0.6}
    assert torch.equal(sample.features, features_of(9)) and sample.relevance is None
    assert [s.kind for s in dataset] == ["other", "number", "yes/no"]
    assert dataset[1].answers == {"2": 1.0} and dataset[2].answers == {"yes": 1.0, "no": 0.3}
    assert list(dataset.texts()) == [(s.question, s.answers) for s in dataset]


def test_dataset_passes_through_workers_and_collation(folder):
    dataset = VQA2(folder, features=folder / "features")
    vocabulary = Vocabulary.of((q for q, _ in dataset.texts()), ["yes", "no", "red"])
    loader = DataLoader(dataset, 3, collate_fn=Collate(vocabulary, unknown="drop"), num_workers=1)
    (batch,) = loader
    assert batch["features"].shape == (3, 196, 8) and batch["grid"] == (14, 14)
    torch.testing.assert_close(batch["answers"], torch.tensor([[0.0, 0, 1], [0, 0, 0], [1, 0.3, 0]]))


@pytest.mark.parametrize("split, subset", [("val", "val2014"), ("test", "test2015"), ("test-dev", "test-dev2015")])
def test_splits_have_their_own_files_and_tests_no_answers(tmp_path, split, subset):
    write(tmp_path, subset)
    images = subset.replace("-dev", "")
    for number in (9, 25):
        vqa2.write_grid(tmp_path / f"COCO_{images}_{number:012d}.jpg.npz", features_of(number, 2, 2))
    sample = VQA2(tmp_path, split, features=tmp_path)[0]
    assert torch.equal(sample.features, features_of(9, 2, 2))
    assert bool(sample.answers) == (split == "val")


def test_version_one_is_read_where_there_is_no_version_two(tmp_path):
    write(tmp_path, version="")
    dataset = VQA2(tmp_path, features=tmp_path)
    assert dataset.questions_path.name == "OpenEnded_mscoco_train2014_questions.json"


def test_pictures_replace_features(folder):
    images = folder / "train2014"
    images.mkdir()
    for number, colour in ((9, (255, 0, 0)), (25, (0, 0, 255))):
        Image.new("RGB", (20, 10), colour).save(images / f"COCO_train2014_{number:012d}.jpg", quality=95)
    sample = VQA2(folder, images=folder)[0]
    assert sample.image.shape == (3, 10, 20) and sample.image.dtype == torch.uint8
    assert sample.image[0].min() > 250 and sample.image[2].max() < 5
    assert VQA2(folder, images=images, size=(4, 6))[2].image.shape == (3, 4, 6)
    (images / "COCO_train2014_000000000009.jpg").write_bytes(b"not a picture")
    with pytest.raises(DataError, match=r"COCO_train2014_000000000009\.jpg is damaged or not a picture"):
        VQA2(folder, images=folder)[0]


def test_dataset_refuses_what_does_not_fit(folder):
    features = folder / "features"
    with pytest.raises(ValueError, match="VQA2: split must be one of 'train', 'val', 'test', 'test-dev', got 'dev'"):
        VQA2(folder, "dev", features=features)
    with pytest.raises(ValueError, match=r"VQA2: give either features or images.*got neither"):
        VQA2(folder)
    with pytest.raises(FileNotFoundError, match=r"VQA2: .* has no v2_OpenEnded_mscoco_val2014_questions.json or"):
        VQA2(folder, "val", features=features)
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere does not exist"):
        VQA2(folder, features=folder / "nowhere")
    with pytest.raises(ValueError, match=r"VQA2: size must be \(height, width\)"):
        VQA2(folder, images=folder, size=(0, 3))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a: a.pop(0), "annotations.json has no annotation of question_id 9000 of .*questions.json"),
        (lambda a: a[0].update(image_id=7), "question_id 9000 is about picture 7, in .*questions.json about 9"),
    ],
)
def test_questions_and_annotations_must_belong_together(folder, change, message):
    path = folder / "v2_mscoco_train2014_annotations.json"
    edited(annotation_file(), path, lambda content: change(content["annotations"]))
    with pytest.raises(DataError, match=message):
        VQA2(folder, features=folder)


# --- features


@pytest.mark.parametrize("name", ["only", "x"])
def test_npz_holds_cells_row_by_row(tmp_path, name):
    cells = torch.randn(196, 2048)
    arrays = {name: cells.numpy()} | ({"bbox": np.zeros(4)} if name == "x" else {})
    np.savez(tmp_path / "9.npz", **arrays)
    read = read_grid(tmp_path / "9.npz", channels=2048)
    assert read.shape == (14, 14, 2048) and torch.equal(read[3, 5], cells[3 * 14 + 5])


def test_npz_of_half_precision_and_of_a_grid_that_is_not_square(tmp_path):
    np.savez_compressed(tmp_path / "9.npz", x=np.ones((6, 4), dtype=np.float16))
    read = read_grid(tmp_path / "9.npz", grid=(2, 3))
    assert read.shape == (2, 3, 4) and read.dtype == torch.float32


def test_pth_has_a_grid_of_its_own(tmp_path):
    tensor = torch.randn(1, 2048, 5, 7)
    torch.save(tensor, tmp_path / "9.pth")
    read = read_grid(tmp_path / "9.pth")
    assert read.shape == (5, 7, 2048) and torch.equal(read[4, 2], tensor[0, :, 4, 2])


@pytest.mark.parametrize("name, size", [("a.npz", (3, 3)), ("a.pth", (3, 5))])
def test_written_features_come_back(tmp_path, name, size):
    features = torch.randn(*size, 4)
    vqa2.write_grid(tmp_path / name, features)
    assert torch.equal(read_grid(tmp_path / name), features)


def test_writing_refuses_what_the_format_cannot_hold(tmp_path):
    with pytest.raises(ValueError, match=r"a grid of 3 x 5 needs a \.pth file"):
        vqa2.write_grid(tmp_path / "a.npz", torch.zeros(3, 5, 4))
    with pytest.raises(ValueError, match=r"must be \[h, w, D\]"):
        vqa2.write_grid(tmp_path / "a.pth", torch.zeros(3, 5))


class Danger:
    def __reduce__(self):
        return (pytest.fail, ("the file ran code",))


BAD = {
    "missing.npz": (lambda path: None, "does not exist"),
    "missing.pth": (lambda path: None, "does not exist"),
    "text.npz": (lambda path: path.write_text("hello"), "is damaged or no file of numbers"),
    "text.pth": (lambda path: path.write_text("hello"), "is damaged, or holds more than a tensor"),
    "empty.npz": (lambda path: path.write_bytes(b""), "is damaged"),
    "empty.pth": (lambda path: path.write_bytes(b""), "is damaged"),
    "several.npz": (lambda path: np.savez(path, a=np.ones(4), b=np.ones(4)), "has the arrays a, b; wanted 'x'"),
    "objects.npz": (
        lambda path: np.savez(path, x=np.array([Danger()], dtype=object)),
        "is damaged or no file of numbers",
    ),
    "code.pth": (lambda path: path.write_bytes(pickle.dumps(Danger(), 2)), "is damaged, or holds more than a tensor"),
    "object.pth": (lambda path: torch.save(Danger(), path), "is damaged, or holds more than a tensor"),
    "dict.pth": (lambda path: torch.save({"x": torch.ones(1)}, path), r"must hold a tensor \(1, D, H, W\), got dict"),
    "flat.npz": (
        lambda path: np.savez(path, x=np.ones(196)),
        r"must hold numbers of shape \(L, D\), got float64 \(196,\)",
    ),
    "flat.pth": (lambda path: torch.save(torch.ones(196, 8), path), r"must hold numbers of shape \(1, D, H, W\)"),
    "two.pth": (lambda path: torch.save(torch.ones(2, 8, 3, 3), path), r"got torch.float32 \(2, 8, 3, 3\)"),
    "int.npz": (lambda path: np.savez(path, x=np.ones((4, 8), int)), r"got int64 \(4, 8\)"),
    "oblong.npz": (lambda path: np.savez(path, x=np.ones((6, 8))), "has 6 cells, which is no square number"),
    "turned.npz": (lambda path: np.savez(path, x=np.ones((8, 196))), "write the transposed array"),
    "thin.npz": (lambda path: np.savez(path, x=np.ones((4, 7))), "has 7 channels, wanted 8"),
    "thin.pth": (lambda path: torch.save(torch.ones(1, 7, 2, 2), path), "has 7 channels, wanted 8"),
    "none.pth": (lambda path: torch.save(torch.ones(1, 8, 0, 2), path), "has no features"),
    "nan.npz": (lambda path: np.savez(path, x=np.full((4, 8), np.nan)), "infinite or not numbers"),
    "inf.pth": (lambda path: torch.save(torch.full((1, 8, 2, 2), torch.inf), path), "infinite or not numbers"),
    "large.npz": (lambda path: np.savez(path, x=np.full((4, 8), 1e300)), "infinite or not numbers"),
    "sparse.pth": (
        lambda path: torch.save(torch.ones(1, 8, 2, 2).to_sparse(), path),
        r"must hold numbers of shape \(1, D, H, W\), got torch.float32 \(1, 8, 2, 2\), not dense",
    ),
    "9.h5": (lambda path: path.write_bytes(b""), r"features are read from \.npz and \.pth files"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_feature_file_is_refused_by_name(tmp_path, name):
    make, message = BAD[name]
    make(tmp_path / name)
    with pytest.raises((DataError, FileNotFoundError), match=rf"{re.escape(str(tmp_path / name))}.*{message}"):
        read_grid(tmp_path / name, channels=8)


def test_message_about_code_in_a_file_does_not_say_how_to_run_it(tmp_path):
    torch.save(Danger(), tmp_path / "9.pth")
    with pytest.raises(DataError) as error:
        read_grid(tmp_path / "9.pth")
    assert "set to `False`" not in str(error.value)


def test_features_that_were_parameters_are_plain_numbers(tmp_path):
    cells = torch.nn.Parameter(torch.randn(1, 8, 2, 3))
    torch.save(cells, tmp_path / "9.pth")
    read = read_grid(tmp_path / "9.pth")
    assert not read.requires_grad and torch.equal(read, cells[0].permute(1, 2, 0))


@pytest.mark.parametrize("grid", [(3, 5), (-2, -2), (0, 4)])
def test_grid_that_the_cells_do_not_fill_is_refused(tmp_path, grid):
    np.savez(tmp_path / "9.npz", x=np.ones((4, 8)))
    with pytest.raises(DataError, match=r"has 4 cells, which does not fill the grid"):
        read_grid(tmp_path / "9.npz", grid=grid)


@pytest.mark.parametrize("end", ["npz", "pth"])
def test_truncated_feature_file_is_refused_wherever_it_ends(tmp_path, end):
    path = tmp_path / f"9.{end}"
    vqa2.write_grid(path, torch.randn(4, 4, 8))
    whole = path.read_bytes()
    for share in (0.02, 0.3, 0.6, 0.95):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(DataError, match="is damaged"):
            read_grid(path)


@pytest.mark.parametrize(
    "name",
    ["COCO_val2014_000000000042.npz", "COCO_val2014_000000000042.jpg.npz", "42.pth", "val2014/000000000042.pth"],
)
def test_features_are_found_under_the_usual_names(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    vqa2.write_grid(tmp_path / name, features_of(42, 2, 2))
    features = GridFeatures(tmp_path, channels=8)
    assert features.path(42, "val2014") == tmp_path / name
    assert torch.equal(features.read(42, "val2014"), features_of(42, 2, 2))
    with pytest.raises(FileNotFoundError, match=r"has no features of picture 43: no COCO_val2014_000000000043.npz, "):
        features.read(43, "val2014")


def test_ragged_grids_are_collated(folder):
    ragged = folder / "ragged"
    ragged.mkdir()
    vqa2.write_grid(ragged / "9.pth", features_of(9, 2, 3))
    vqa2.write_grid(ragged / "25.pth", features_of(25, 4, 1))
    batch = Collate(Vocabulary.of(["Is it?"], ["yes"]), unknown="drop")(list(VQA2(folder, features=ragged)))
    assert batch["grid"] == (4, 3) and batch["feature_mask"].sum(1).tolist() == [6, 6, 4]


# --- broken samples


def test_broken_samples_are_passed_over_and_counted(folder):
    (folder / "features" / "COCO_train2014_000000000009.npz").write_bytes(b"PK\x03\x04 broken")
    dataset = SkipBroken(VQA2(folder, features=folder / "features"))
    assert len(dataset) == 3
    with pytest.warns(BrokenSampleWarning) as told:
        assert dataset[0].id == "25000"
    messages = [str(warning.message) for warning in told]
    assert [message.split(":")[0] for message in messages] == [
        "sample 0 is passed over (1 so far, of 3)",
        "sample 1 is passed over (2 so far, of 3)",
    ]
    assert all("COCO_train2014_000000000009.npz is damaged" in message for message in messages)
    assert dataset[1].id == dataset[-1].id == "25000"  # known by now: no warning
    assert list(dataset.broken) == [0, 1]
    assert len(list(dataset)) == 3


def test_too_many_broken_samples_are_an_error(folder):
    dataset = SkipBroken(VQA2(folder, features=folder), limit=1)
    with pytest.warns(BrokenSampleWarning), pytest.raises(FileNotFoundError, match="1 samples before it were broken"):
        dataset[0]
    dataset = SkipBroken(VQA2(folder, features=folder))
    with pytest.warns(BrokenSampleWarning), pytest.raises(DataError, match=r"none of 3 samples can be read; .*picture"):
        dataset[0]


# --- human attention


def save_map(path, pixels):
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(path)


def test_human_maps_are_averaged_person_by_person(tmp_path):
    save_map(tmp_path / "90_1.png", [[200, 0], [0, 0]])
    save_map(tmp_path / "90_2.png", [[0, 0], [0, 10]])  # faint, but as much of a map as the first
    save_map(tmp_path / "90_3.png", np.zeros((2, 2)))  # uncovered nothing
    save_map(tmp_path / "91.jpg", np.full((8, 8), 128))
    (tmp_path / "README.txt").write_text("no map")
    human = HumanAttention(tmp_path)
    assert len(human) == 2 and human.question_ids == [90, 91] and 90 in human and 7 not in human
    assert [tuple(each.shape) for each in human.maps(90)] == [(2, 2)] * 3
    torch.testing.assert_close(human.mean(90), torch.tensor([[0.5, 0.0], [0.0, 0.5]]))
    torch.testing.assert_close(human.mean(91, (2, 2)), torch.full((2, 2), 0.25))
    with pytest.raises(KeyError, match="no map for question 7"):
        human.maps(7)


def test_human_maps_of_unequal_sizes_meet_on_the_grid(tmp_path):
    left = np.zeros((6, 9))
    left[:, :3] = 255
    save_map(tmp_path / "90_1.png", left)
    save_map(tmp_path / "90_2.png", np.full((4, 6), 60))
    mean = HumanAttention(tmp_path).mean(90, (2, 3))
    torch.testing.assert_close(mean, torch.tensor([[8.0, 2, 2], [8, 2, 2]]) / 24)
    assert HumanAttention(tmp_path).mean(90).shape == (6, 9)


def test_human_maps_in_colour_are_read_as_grey_and_empty_ones_stay_empty(tmp_path):
    Image.new("RGB", (4, 4), (255, 255, 255)).save(tmp_path / "90_1.png")
    save_map(tmp_path / "91_1.png", np.zeros((4, 4)))
    human = HumanAttention(tmp_path)
    torch.testing.assert_close(human.mean(90, (2, 2)), torch.full((2, 2), 0.25))
    assert not human.mean(91, (2, 2)).any()


def test_human_maps_of_sixteen_bits_are_not_cut_off(tmp_path):
    values = np.array([[0, 257, 25700, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / "90_1.png")
    (read,) = HumanAttention(tmp_path).maps(90)
    torch.testing.assert_close(read, torch.tensor([[0, 1, 100, 255]]) / 255)


def test_human_maps_become_relevance(folder):
    maps = folder / "hat"
    maps.mkdir()
    save_map(maps / "9001_1.png", [[0, 255]])
    features = folder / "features"
    dataset = VQA2(folder, features=features, human=maps)
    assert dataset[0].relevance is None and torch.equal(dataset[1].relevance, torch.tensor([[0.0, 1.0]]))
    only = VQA2(folder, features=features, human=maps, only_human=True)
    assert [sample.id for sample in only] == ["9001"]
    batch = Collate(Vocabulary.of(["How many?"], ["2"]))([only[0]])
    assert batch["relevance"].shape == (1, 14, 14) and batch["relevance"][0, :, :7].sum() == 0


def test_human_maps_refuse_a_folder_without_any_and_a_broken_file(folder):
    with pytest.raises(FileNotFoundError, match=r"has no maps named like 1500070_1\.png"):
        HumanAttention(folder)
    with pytest.raises(ValueError, match="only_human needs human"):
        VQA2(folder, features=folder, only_human=True)
    save_map(folder / "7_1.png", np.ones((4, 4)))
    with pytest.raises(ValueError, match="has a human map; are both of one version"):
        VQA2(folder, features=folder, human=folder, only_human=True)
    (folder / "7_1.png").write_bytes((folder / "7_1.png").read_bytes()[:40])
    with pytest.raises(DataError, match=r"7_1\.png is damaged or not a picture"):
        HumanAttention(folder).mean(7)
