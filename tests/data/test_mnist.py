"""idx files: read as they are, or refused by name."""

from __future__ import annotations

import gzip
import struct

import pytest
import torch

from omegamax.data import MNIST, DataError, read_idx


def write_idx(path, values, packed=False):
    head = struct.pack(f">HBB{values.dim()}I", 0, 8, values.dim(), *values.shape)
    content = head + values.to(torch.uint8).numpy().tobytes()
    path.write_bytes(gzip.compress(content) if packed else content)


def write_digits(folder, count=20, part="train", packed=True, labels=None):
    """Four pixels tell the class; returns images and labels."""
    generator = torch.Generator().manual_seed(count)
    labels = torch.randint(10, (count,), generator=generator) if labels is None else labels
    images = torch.randint(256, (count, 28, 28), generator=generator)
    end = ".gz" if packed else ""
    write_idx(folder / f"{part}-images-idx3-ubyte{end}", images, packed)
    write_idx(folder / f"{part}-labels-idx1-ubyte{end}", labels, packed)
    return images, labels


@pytest.mark.parametrize("packed", [False, True])
def test_pictures_and_classes_come_back_as_written(tmp_path, packed):
    images, labels = write_digits(tmp_path, packed=packed)
    digits = MNIST(tmp_path)
    assert torch.equal(digits.images, images.to(torch.uint8)) and torch.equal(digits.labels, labels)
    image, label = digits[3]
    assert image.shape == (1, 28, 28) and torch.equal(255 * image[0], images[3].float()) and label == labels[3]
    assert len(digits) == 20


def test_test_part_has_files_of_its_own(tmp_path):
    write_digits(tmp_path, 20)
    images, _ = write_digits(tmp_path, 5, "t10k")
    assert torch.equal(MNIST(tmp_path, "test").images, images.to(torch.uint8))


def test_part_holds_out_the_rest(tmp_path):
    images, labels = write_digits(tmp_path)
    digits = MNIST(tmp_path)
    part = digits.part(5, 9)
    assert torch.equal(part.images, images[5:9].to(torch.uint8)) and torch.equal(part.labels, labels[5:9])
    assert len(part) == 4 and len(digits) == 20
    for first, last in ((-1, 3), (3, 3), (0, 21)):
        with pytest.raises(ValueError, match=r"MNIST\.part: first and last"):
            digits.part(first, last)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "no idx file"),
        (b"\x00\x00\x09\x01\x00\x00\x00\x01\x00", "no idx file"),
        (b"\x00\x00\x08\x02\x00\x00\x00\x02", "cut off"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x03\x00\x00", "cut off"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x01\x00\x00", "too long"),
    ],
)
def test_damaged_file_is_named(tmp_path, content, message):
    path = tmp_path / "odd"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        read_idx(path)
    assert str(path) in str(error.value)


def test_truncated_archive_is_named(tmp_path):
    write_digits(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match="train-images"):
        MNIST(tmp_path)


def test_missing_file_and_unequal_counts_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte"):
        MNIST(tmp_path)
    write_digits(tmp_path)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", torch.zeros(3), True)
    with pytest.raises(DataError, match="get both again"):
        MNIST(tmp_path)
