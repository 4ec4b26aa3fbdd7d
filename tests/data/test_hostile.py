"""Every reader against every hostile file: one line that names the file, and little memory."""

import functools
import gzip
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image
from tests.data import hostile

from omegamax.data import MNIST, NLVR, VQA2, Daquar, DataError, EasyVQA, MILBenchmark, Shapes, Vocabulary, read_idx
from omegamax.data.paths import inside, leads_outside
from omegamax.data.pictures import Pictures, read_picture
from omegamax.data.unpack import FREE, allowance
from omegamax.data.vqa2 import load_dictionary, read_annotations, read_grid, read_questions, read_results

MOST = 300 * hostile.MIB  # memory that a refusal may take

TEXTS = {
    "gz": (".gz", lambda: hostile.gzip_bomb()),
    "gz after a bracket": (".gz", lambda: hostile.gzip_bomb(b"[")),
    "xz": (".xz", lambda: hostile.xz_bomb()),
    "deep": ("", lambda: hostile.DEEP),
    "nan": ("", lambda: b'{"question_id": NaN}'),
    "infinite": ("", lambda: b"[-Infinity]"),
    "key twice": ("", lambda: hostile.TWICE),
    "digits": ("", lambda: b"[" + b"9" * 100_000 + b"]"),
    "binary": ("", lambda: b"\xff\xfe\0\0" * 100),
    "cut off": (".gz", lambda: gzip.compress(b"[1, 2, 3]")[:-6]),
}
JSON_READERS = [read_questions, read_annotations, read_results, load_dictionary]


def refused(read, path, error=(DataError,)):
    """The message of a refusal, which took little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(error) as caught:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert peak < MOST, f"{peak:,} bytes"
    assert "\n" not in message and message.isprintable() and len(message) < 1000, message[:2000]
    return message


@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.parametrize("read", JSON_READERS)
def test_json_is_refused(tmp_path, read, case):
    ending, make = TEXTS[case]
    path = tmp_path / f"file.json{ending}"
    path.write_bytes(make())
    assert str(path) in refused(read, path)


LINES = {**TEXTS, "line": ("", lambda: hostile.LINE), "lines": (".gz", lambda: gzip.compress(b"{}\n") * 10)}
SETS = {
    "daquar": (Daquar, "train.jsonl"),
    "daquar, original": (Daquar, "qa.894.raw.train.txt"),
    "shapes": (Shapes, "train.jsonl"),
    "nlvr": (NLVR, "train.jsonl"),
    "easy": (EasyVQA, "train_questions.json"),
}


@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize("name", SETS)
def test_questions_are_refused(tmp_path, name, case):
    kind, file = SETS[name]
    ending, make = LINES[case]
    if file.endswith(".txt") and ending:
        pytest.skip("the original files are not compressed")
    path = tmp_path / (file + ending)
    path.write_bytes(make())
    assert str(path) in refused(kind, tmp_path).replace("'", "") or case == "lines"


def test_long_question_takes_no_longer_than_its_length(tmp_path):
    (tmp_path / "qa.894.raw.train.txt").write_text("a" + " " * 10**6 + "b\nlamp\n")
    assert "line 1" in refused(Daquar, tmp_path)


ARRAYS = {
    "terabytes.npy": lambda: hostile.npy((10**6, 10**6)),
    "overflow.npy": lambda: hostile.npy((2**62, 8)),
    "negative.npy": lambda: hostile.npy((-1, 8), content=b"\0" * 64),
    "long head.npy": lambda: b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b" " * 100,
    "terabytes.npz": lambda: hostile.npz((10**6, 10**6)),
    "stored.npz": lambda: hostile.npz((10**9, 10), zipfile.ZIP_STORED),
    "zeros.npz": lambda: hostile.npz((2**16, 1024), content=[hostile.EVEN] * 16),
    "bzip2.npz": lambda: hostile.npz((2**16, 1024), zipfile.ZIP_BZIP2, [hostile.EVEN] * 16),
    "lzma.npz": lambda: hostile.npz((2**16, 1024), zipfile.ZIP_LZMA, [hostile.EVEN] * 16),
    "pickled.npz": hostile.pickled,
    "empty.npz": lambda: b"",
    "expanded.pth": hostile.expanded,
    "deflated.pth": hostile.deflated,
}


@functools.cache
def array(name):
    """The file, which takes seconds to pack."""
    return ARRAYS[name]()


@pytest.mark.parametrize("name", ARRAYS)
def test_features_are_refused(tmp_path, name):
    path = tmp_path / name.replace(".npy", ".npz")
    path.write_bytes(array(name))
    assert str(path) in refused(read_grid, path)


@pytest.mark.parametrize("name", [name for name in ARRAYS if not name.endswith(".pth")])
def test_sets_of_arrays_are_refused(tmp_path, name):
    (tmp_path / "fox.npz").write_bytes(array(name))
    assert "fox.npz" in refused(lambda folder: MILBenchmark(folder, "fox"), tmp_path)
    (tmp_path / "train.jsonl").write_text('{"question": "is it red", "answer": "true"}\n')
    (tmp_path / "images.npz").write_bytes(array(name))
    assert "images.npz" in refused(Shapes, tmp_path)
    (tmp_path / "train_questions.json").write_text('[["is it red", "yes", 0]]')
    (tmp_path / "train_images.npz").write_bytes(array(name))
    assert "train_images.npz" in refused(EasyVQA, tmp_path)


def head(*shape):
    return struct.pack(f">I{len(shape)}I", 0x0800 + len(shape), *shape)


DIGITS = {
    "more than promised": lambda: hostile.gzip_bomb(head(2, 28, 28)),
    "all that is promised": lambda: hostile.gzip_bomb(head(2**20, 32, 32)),
    "terabytes": lambda: gzip.compress(head(2**31, 2**31, 2**31)),
    "many axes": lambda: gzip.compress(b"\0\0\x08\xff" + b"\0" * 12),
    "no axes": lambda: gzip.compress(b"\0\0\x08\0"),
}


@pytest.mark.parametrize("case", DIGITS)
def test_digits_are_refused(tmp_path, case):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(DIGITS[case]())
    assert str(path) in refused(read_idx, path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(head(2) + b"\0\0")
    assert str(path) in refused(MNIST, tmp_path)


OUTSIDE = ["../secret.png", "a/../../secret.png", "/etc/secret.png", "..", "", "a\0.png", "..\\secret.png", "C:\\a.png"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("packed", [False, True])
def test_names_stay_inside(tmp_path, name, packed):
    (tmp_path / "secret.png").write_bytes(hostile.picture())
    entry = {"image": name, "question": "what is it", "answers": ["lamp"]}
    statement = {"image": name, "sentence": "it is red", "label": "true", "identifier": "1-0"}
    for kind, file, line, source in (
        (Daquar, "test.jsonl", entry, "images"),
        (NLVR, "test.jsonl", statement, "test_images"),
    ):
        folder = tmp_path / f"{kind.__name__}{packed}"
        folder.mkdir()
        (folder / file).write_text(json.dumps(line))
        if packed:
            with zipfile.ZipFile(folder / f"{source}.zip", "w") as archive:
                archive.writestr("../secret.png", hostile.picture())
        else:
            (folder / source).mkdir()
        assert "test.jsonl: line 1" in refused(lambda folder, kind=kind: kind(folder, "test"), folder)
    with pytest.raises(DataError):
        Pictures(tmp_path)[name]
    assert leads_outside(name)


def test_identifier_that_leads_outside_is_refused(tmp_path):
    entry = {"sentence": "it is red", "label": "true", "identifier": "1/../../../secret", "directory": "0"}
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test.json").write_text(json.dumps(entry))
    assert "inside" in refused(lambda folder: NLVR(folder, "test"), tmp_path)


def test_links_stay_inside(tmp_path):
    outside, images = tmp_path / "secret.png", tmp_path / "set" / "images"
    outside.write_bytes(hostile.picture())
    images.mkdir(parents=True)
    (images / "a.png").symlink_to(outside)
    (images / "folder").symlink_to(tmp_path)
    (images / "own.png").write_bytes(hostile.picture())
    (images / "b.png").symlink_to(images / "own.png")
    (tmp_path / "linked").symlink_to(images)
    for folder in (images, tmp_path / "linked"):
        assert "link" in refused(lambda name, folder=folder: Pictures(folder)[name], "a.png")
        assert "link" in refused(lambda name, folder=folder: Pictures(folder)[name], "folder/secret.png")
        assert Pictures(folder)["b.png"].shape == (3, 4, 4)  # also where the folder itself is a link
    assert inside(images, "missing.png") == images / "missing.png"


def vqa2(folder, image_id):
    folder.mkdir(exist_ok=True)
    questions = {"questions": [{"question_id": 1, "image_id": image_id, "question": "what is it"}]}
    (folder / "v2_OpenEnded_mscoco_test2015_questions.json").write_text(json.dumps(questions))
    return folder


def test_pictures_and_features_of_vqa_stay_inside(tmp_path):
    questions = vqa2(tmp_path / "questions", 9)
    (tmp_path / "secret.jpg").write_bytes(hostile.picture())
    np.savez(tmp_path / "secret.npz", x=np.ones((4, 2), np.float32))
    (tmp_path / "there").mkdir()
    for name in ("9.jpg", "9.npz"):
        (tmp_path / "there" / name).symlink_to(tmp_path / f"secret{name[1:]}")
    for key in ("images", "features"):
        dataset = VQA2(questions, "test", **{key: tmp_path / "there"})
        assert "link" in refused(lambda index, dataset=dataset: dataset[index], 0)
    # A subfolder that the reader itself looks for may be a link: that is how people keep MS-COCO.
    (tmp_path / "coco").mkdir()
    (tmp_path / "coco" / "9.jpg").write_bytes(hostile.picture())
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "test2015").symlink_to(tmp_path / "coco")
    assert VQA2(questions, "test", images=tmp_path / "images")[0].image.shape == (3, 4, 4)


@pytest.mark.parametrize("number", [2**63, -(2**70), 10**300])
def test_number_of_a_picture_has_64_bits(tmp_path, number):
    folder = vqa2(tmp_path, number)
    assert "64 bits" in refused(lambda f: VQA2(f, "test", images=f), folder)


@pytest.mark.parametrize("side", [10_000, 60_000])  # Pillow warns of the first, and refuses the second
def test_picture_of_too_many_pixels_is_refused(tmp_path, side):
    path = tmp_path / "a.png"
    path.write_bytes(hostile.png_bomb(side))
    assert f"{Image.MAX_IMAGE_PIXELS:,} pixels" in refused(read_picture, path)


def test_program_that_draws_is_not_run(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    refused(read_picture, path)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_member_of_an_archive_is_refused(tmp_path, method):
    (tmp_path / "a.zip").write_bytes(hostile.zip_bomb("a.png", method))
    assert "a.zip: a.png" in refused(Pictures(tmp_path / "a.zip").__getitem__, "a.png")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_of_every_method_are_read(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("a.png", hostile.picture())
    assert Pictures(tmp_path / "a.zip")["a.png"].shape == (3, 4, 4)


@pytest.mark.parametrize("dtype", ["f2", ">f4", "f8", "u1", "i8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("packed", [None, np.savez, np.savez_compressed])
def test_arrays_are_read_as_numpy_reads_them(tmp_path, dtype, order, packed):
    from omegamax.data.arrays import read_array

    array = np.asarray(np.arange(24).reshape(2, 3, 4) % 7, dtype=dtype, order=order)
    path = tmp_path / ("a.npz" if packed else "a.npy")
    packed(path, a=array) if packed else np.save(path, array)
    found = read_array(path, "a")
    assert found.dtype == array.dtype and found.flags.writeable and np.array_equal(found, array)


def test_names_of_files_and_texts_cannot_write_to_the_terminal(tmp_path):
    path = tmp_path / "a\nb\x1b[2J.json"
    path.write_text("[")
    assert r"a\nb\x1b[2J.json" in refused(read_results, path)
    with pytest.raises(DataError) as caught:
        raise DataError("one\r\u202etwo")
    assert str(caught.value) == r"one\r\u202etwo"


def test_vocabulary_that_is_too_deep_is_refused(tmp_path):
    path = tmp_path / "vocabulary.json"
    path.write_bytes(hostile.DEEP)
    assert str(path) in refused(Vocabulary.load, path, (ValueError,))


def test_vocabulary_that_is_too_long_is_refused(tmp_path):
    path = tmp_path / "vocabulary.json"
    with path.open("wb") as file:
        file.write(b'{"words": ["')
        file.truncate(2**40)  # a hole: no room on the disk
    assert f"{path} must hold at most 67,108,864 bytes" in refused(Vocabulary.load, path, (ValueError,))


def test_plain_text_is_read_whatever_its_ending(tmp_path):
    path = tmp_path / "vocabulary.json.gz"
    Vocabulary(["red"], ["yes"]).save(path)
    assert Vocabulary.load(path) == Vocabulary(["red"], ["yes"])


def test_real_text_keeps_far_from_the_limits():
    assert allowance(0) == FREE and allowance(10**7) == 2 * 10**9
    assert torch.tensor(allowance(10**12)) < 10**11
