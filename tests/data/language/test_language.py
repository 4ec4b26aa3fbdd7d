"""Documents and the windows of their tokens."""

import gzip
import json

import pytest
import torch

from omegamax.data import DataError
from omegamax.data.language import EmbeddedReviews, IMDBReviews, TextFiles, TokenStream, TokenWindows
from omegamax.data.subwords import Subwords

ODD = ["Grüße,\n\tdu  da!\r\n", "日本語 \u202e ok", "\x00\x7f", " leading", "</s> <pad>", "", "e\u0301"]


@pytest.mark.parametrize("size", [260, 300])
def test_bytes_give_every_text_back(size):
    words = Subwords.learn(["the cat sat on the mat " * 20, *ODD], kind="bytes", size=size)
    assert len(words) <= size
    for text in (*ODD, "never seen: ŝ🙂"):
        tokens = words.encode(text)
        assert words.decode(tokens) == text and min(tokens, default=4) >= 4
    again = Subwords.from_dict(json.loads(json.dumps(words.to_dict())))
    assert again == words and again.encode(ODD[0]) == words.encode(ODD[0])


def test_bytes_alone_are_one_token_each():
    words = Subwords.learn(["x"], kind="bytes", size=260)
    assert len(words.encode("aé")) == 3
    with pytest.raises(ValueError, match="an integer >= 260"):
        Subwords.learn(["x"], kind="bytes", size=100)


@pytest.mark.parametrize("unit", ["file", "paragraph", "line"])
def test_parts_of_files_share_nothing_and_leave_nothing_out(tmp_path, unit):
    path = tmp_path / "a.txt.gz"
    text = "".join(f"line {i} of it\n" + ("\n" if i % 3 == 0 else "") for i in range(300))
    path.write_bytes(gzip.compress(text.encode()))
    parts = {split: list(TextFiles([path], split, unit=unit, held_out=0.2)) for split in ("train", "val", "test")}
    assert all(parts.values())
    if unit == "file":
        assert "".join(parts["train"] + parts["val"] + parts["test"]) == text
    else:
        lines = [line for texts in parts.values() for each in texts for line in each.splitlines()]
        assert sorted(lines) == sorted(text.split("\n")[i] for i in range(len(text.split("\n"))) if text.split("\n")[i])
        assert 0.1 < len(parts["val"]) / sum(map(len, parts.values())) < 0.3


def test_files_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.txt"):
        TextFiles([tmp_path / "no.txt"])
    with pytest.raises(ValueError, match="list of one file"):
        TextFiles([])


def test_reviews_are_read_as_they_are_written(tmp_path):
    rows = [{"id": i, "label": i % 2, "text": f"Review {i}.<br /><br />It goes on."} for i in range(40)]
    for name in ("train", "test"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train, val, test = (list(IMDBReviews(tmp_path, split, held_out=0.3)) for split in ("train", "val", "test"))
    assert sorted(train + val) == sorted(test) and train and val
    assert test[3] == "Review 3.\n\nIt goes on."


def test_embedded_reviews_are_the_same_each_time():
    one, two = (list(EmbeddedReviews(5, seed=3)) for _ in range(2))
    assert one == two and one != list(EmbeddedReviews(5, "val", seed=3))


@pytest.mark.parametrize("length", [1, 4, 7, 100])
def test_windows_foretell_every_token_once(length):
    words = Subwords.learn(["a b c d"], kind="words")
    stream = TokenStream(["a b c", "", "d", "a a a a b"], words)
    windows = TokenWindows(stream, length)
    foretold = torch.cat([window[1:] for window in windows])
    assert foretold[foretold != 0].tolist() == stream.tokens[1:].tolist()
    before = torch.cat([window[:-1] for window in windows])[foretold != 0]
    assert before.tolist() == stream.tokens[:-1].tolist()
    by_document = TokenWindows(stream, length, whole=True)
    assert len(by_document) == 4 and by_document[1].tolist()[:2] == [2, 2]
    assert by_document[3].tolist()[: length + 1] == ([2, *words.encode("a a a a b"), 2] + [0] * 100)[: length + 1]


def test_nothing_to_read_is_refused():
    with pytest.raises(DataError, match="val: there is no document"):
        TokenStream([], Subwords.learn(["a"], kind="words"), "val")
    for texts in ([], ["", " \n"]):  # the bytes of an alphabet are no text
        with pytest.raises(DataError, match="no text with words to learn from"):
            Subwords.learn(texts, kind="bytes", size=260)
