"""Files of one's own: what is read, and what is refused by its name, its line and the remedy."""

import csv
import gzip
import json
import lzma
import os
import threading
import tracemalloc

import pytest

from omegamax.data import DataError
from omegamax.data.text import EMPTY, TextTable, collect_vocabulary, read_rows

ROWS = [("It's fine, really.", "1"), ('He said "no"\nand left', "0"), ("naïve: 好看", "1"), ("", "0")]
WORDS = [["It", "'s", "fine", ",", "really", "."], ["He", "said", '"', "no", '"', "and", "left"]]
WORDS += [["naïve", ":", "好看"], [EMPTY]]


def write(path, rows=ROWS, head=("text", "label"), encoding="utf-8", **dialect):
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, **dialect).writerows([head, *rows])
    return path


def write_lines(path, entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def read(path, **settings):
    return [(list(each.words), each.label) for each in TextTable(path, **settings)]


def refuse(path, **settings):
    with pytest.raises(DataError) as caught:
        list(TextTable(path, **settings))
    text = str(caught.value)
    assert str(path) in text and "\n" not in text
    return text


def test_csv_with_line_ends_in_cells(tmp_path):
    found = list(TextTable(write(tmp_path / "a.csv")))
    assert [list(each.words) for each in found] == WORDS
    assert [each.label for each in found] == ["1", "0", "1", "0"]
    assert [each.id for each in found] == ["a.csv:2", "a.csv:3", "a.csv:5", "a.csv:6"]  # lines of the file


def test_the_same_rows_in_every_format(tmp_path):
    expected = read(write(tmp_path / "a.csv"))
    lines = write_lines(tmp_path / "a.jsonl", [{"text": text, "label": int(label), "more": 1} for text, label in ROWS])
    assert read(lines) == expected
    assert read(write(tmp_path / "b.csv", delimiter=";"), delimiter=";") == expected
    assert read(write(tmp_path / "bom.csv", encoding="utf-8-sig")) == expected
    assert read(write(tmp_path / "crlf.csv", lineterminator="\r\n")) == expected
    assert read(write(tmp_path / "wide.csv", encoding="utf-16"), encoding="utf-16") == expected
    content = (tmp_path / "a.csv").read_bytes()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(content))
    (tmp_path / "a.dat").write_bytes(content)
    assert (
        read(tmp_path / "a.csv.gz") == read(tmp_path / "a.csv.xz") == read(tmp_path / "a.dat", format="csv") == expected
    )


def test_quotation_marks_of_a_tsv_mean_nothing(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('label\ttext\n1\t"quoted, and "so" on\n\n0\tplain\n', encoding="utf-8")
    assert read(path) == [(['"', "quoted", ",", "and", '"', "so", '"', "on"], "1"), (["plain"], "0")]


def test_pairs_labels_and_texts_without_a_class(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"a": "x", "b": "y z", "is": True}, {"a": "x", "b": "", "is": False}])
    pairs = list(TextTable(path, text="a", second="b", label="is"))
    assert [(each.second, each.label) for each in pairs] == [(("y", "z"), "true"), ((EMPTY,), "false")]
    assert [each.label for each in TextTable(path, text="a", labelled=False)] == [None, None]


def test_held_out_rows_and_the_rest_are_all_rows(tmp_path):
    path = write(tmp_path / "a.csv", [(f"text {i // 2}", "01"[i % 2]) for i in range(400)])
    parts = {split: list(TextTable(path, split, held_out=0.2, seed=5)) for split in ("train", "val")}
    assert len(parts["train"]) + len(parts["val"]) == 400 and 40 < len(parts["val"]) < 120
    texts = {split: {each.words for each in part} for split, part in parts.items()}
    assert not texts["train"] & texts["val"]  # a text that is there twice is in one part
    assert list(TextTable(path, "val", held_out=0.2, seed=6)) != parts["val"]
    with pytest.raises(ValueError, match=r"held_out must lie in \(0, 1\), got 1"):
        TextTable(path, held_out=1)


def test_wrong_columns_are_named(tmp_path):
    path = write(tmp_path / "a.csv", head=("review", "stars"))
    assert "has no column 'text', it has 'review', 'stars'" in refuse(path)
    assert "has no column 'label'" in refuse(path, text="review")
    alone = refuse(write(tmp_path / "d.csv", head=("text",), rows=[("a",)]))
    assert "texts without any are predicted with labelled (--data.labelled false)" in alone
    other = refuse(write(tmp_path / "b.csv", delimiter=";"), text="text")
    assert "if ';' is between its cells, give it as delimiter (--data.delimiter)" in other
    assert "2 columns called 'text'" in refuse(write(tmp_path / "c.csv", head=("text", "text", "label"), rows=[]))
    both = write_lines(tmp_path / "a.jsonl", [{"text": "a", "label": 1}, {"text": "b"}])
    assert "line 2 has no 'label', it has 'text'" in refuse(both)
    both.write_text('{"text": "a", "text": "b", "label": 1}\n')
    assert "the key 'text' occurs twice" in refuse(both)


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_what_cannot_be_between_cells_is_refused(tmp_path, delimiter):
    with pytest.raises(ValueError, match="delimiter must be one character, no quotation mark and no line end, got"):
        list(TextTable(write(tmp_path / "a.csv"), delimiter=delimiter))


def test_pipe_is_read_where_its_format_is_given(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("text,label\nso fine,1\n",))
    writer.start()
    assert [each.words for each in TextTable(pipe, format="csv")] == [("so", "fine")]
    writer.join()
    with pytest.raises(FileNotFoundError, match="is a folder"):
        list(TextTable(tmp_path, format="csv"))


def test_columns_with_quotation_marks_are_named_as_they_are(tmp_path):
    path = write(tmp_path / "a.csv", head=('my "text"', "it's"), rows=[])
    assert """has no column 'text', it has 'my "text"', "it's"; name""" in refuse(path)
    many = write_lines(tmp_path / "a.jsonl", [{f"column {i}": "a" for i in range(1000)}])
    assert "line 1 has no 'text', it has 'column 0', " in refuse(many) and len(refuse(many)) < 300 + len(str(many))


def test_bad_rows_are_named_by_their_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"two\nlines",1\nfine,1,more\n')
    assert "line 4 must have 2 cells, as the first line, got 3" in refuse(path)
    path.write_text('text,label\nfine,1\n"never closed,1\nfine,1\n')
    assert "the row that begins at line 3 cannot be read" in refuse(path)
    path.write_text("text,label\nfine,1\nfine, \n")
    assert "line 3: 'label' must be a class" in refuse(path)
    path.write_text("")
    assert "is empty" in refuse(path)
    lines = write_lines(tmp_path / "a.jsonl", [{"text": "a", "label": 1}, {"text": 3, "label": 1}])
    assert "line 2: 'text' must be a text, got 3" in refuse(lines)
    write_lines(lines, [{"text": "a", "label": 1.5}])
    assert "line 1: 'label' must be a class, a word or an integer, got 1.5" in refuse(lines)
    write_lines(lines, [{"text": "a", "label": "half \ud83d"}])  # of an emoji: no file of answers could be written
    assert r"line 1: 'label' must be a class, a word or an integer, got 'half \ud83d'" in refuse(lines)
    lines.write_text('{"text": "a", "label": 1}\n{"text": "a"\n')
    assert "line 2 is not JSON" in refuse(lines)
    assert "the ending must be one of" in refuse(write(tmp_path / "a.txt"))
    with pytest.raises(FileNotFoundError, match=r"gone\.csv does not exist"):
        list(TextTable(tmp_path / "gone.csv"))


def test_mixed_encodings_and_nul_are_named_by_their_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\nna\u00efve,1\n".encode() + "na\u00efve,1\n".encode("cp1252"))
    assert "line 3 has the byte 0xef, which is not utf-8" in refuse(path)
    path.write_bytes(b"text,label\nfine,1\nfi\0ne,1\n")
    assert "line 3 has a NUL" in refuse(path)
    path.write_bytes("text,label\nfine,1\n".encode("utf-16"))
    assert "line 1 has the byte 0xff" in refuse(path)


def test_a_text_of_a_million_words(tmp_path):
    path = write(tmp_path / "a.csv", [("good " * 1_000_000, "1"), ("bad", "0")])
    first, second = TextTable(path)
    assert len(first.words) == 1_000_000 and second.words == ("bad",)


def test_rows_are_read_one_at_a_time(tmp_path):
    path = write(tmp_path / "a.csv", [(f"{i} " + "word " * 200, "1") for i in range(10_000)])  # 10 MB
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_rows(path, ("text", "label"))) == 10_000
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_classes_are_those_that_occur(tmp_path):
    path = write(tmp_path / "a.csv", [("a", "10"), ("a", "9"), ("a", "-1"), ("a", "b"), ("a", "B")])
    assert collect_vocabulary(TextTable(path)).answers == ("-1", "9", "10", "B", "b")
    path = write(tmp_path / "a.csv", [("a", "--5"), ("a", "-"), ("a", "-5"), ("a", "4")])
    assert collect_vocabulary(TextTable(path)).answers == ("-5", "4", "-", "--5")
    with pytest.raises(DataError, match="two classes at least, got '1' alone; if the file has others, validation"):
        collect_vocabulary(TextTable(write(path, [("a", "1")])))
    with pytest.raises(DataError, match="no text with words"):
        collect_vocabulary(TextTable(write(path, [("", "1")])))
