"""Word vectors: both formats, packed and plain, of a vocabulary; and files that cannot be used."""

import gzip
import zipfile

import pytest
import torch

from omegamax.data import DataError, Vocabulary, read_word_vectors

GLOVE = "the 0.25 -1 2e-1\nfilm 1 2 3\nUS 4 5 6\nus 7 8 9\n. . . 0 0 1\n"
WORDS = ("film", "US", "gaffer", "the")


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_vectors_of_the_words_that_were_asked_for(tmp_path):
    found = read_word_vectors(written(tmp_path / "a.txt", GLOVE), WORDS)
    assert found.dim == 3 and found.found.tolist() == [True, True, False, True] and found.missing == ("gaffer",)
    wanted = torch.tensor([[1, 2, 3], [4, 5, 6], [0, 0, 0], [0.25, -1, 0.2]])
    assert torch.equal(found.table, wanted) and found.table.dtype == torch.float32
    assert found.report == f"{tmp_path / 'a.txt'}: vectors of 3 of 4 words; none of gaffer"


def test_word_is_looked_for_as_written_and_then_in_lower_case(tmp_path):
    text = "us 1\nUS 2\ngood 3\ngood 4\n"  # of a word that occurs twice the first counts
    found = read_word_vectors(written(tmp_path / "a.txt", text), ("US", "us", "Good", "good", "GOOD"))
    assert found.table.flatten().tolist() == [2, 1, 3, 3, 3]


def test_word_with_spaces(tmp_path):
    found = read_word_vectors(written(tmp_path / "a.txt", GLOVE), (". . .", "film"))
    assert found.table.tolist() == [[0, 0, 1], [1, 2, 3]]


def test_word2vec_has_a_header_and_spaces_at_the_end(tmp_path):
    path = written(tmp_path / "a.vec", "2 3\nfilm 1 2 3 \nthe 4 5 6 \n")
    assert read_word_vectors(path, ("the",)).table.tolist() == [[4, 5, 6]]
    for text in ("3 3\nfilm 1 2 3\nthe 4 5 6\n", "1 3\nfilm 1 2 3\nthe 4 5 6\n"):
        with pytest.raises(DataError, match=r"a\.vec says that it has . vectors, and has 2; get the file again"):
            read_word_vectors(written(tmp_path / "a.vec", text), ("the",))


def test_packed_files_are_the_same(tmp_path):
    plain = read_word_vectors(written(tmp_path / "a.txt", GLOVE), WORDS)
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write(GLOVE)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("glove.2d.txt", "the 1 2\n")
        archive.writestr("glove.3d.txt", GLOVE)
        archive.writestr("README", "no vectors")
        archive.writestr("__MACOSX/._glove.3d.txt", b"\0\5\x16\7")  # what a Mac puts beside each file
    assert torch.equal(read_word_vectors(tmp_path / "a.txt.gz", WORDS).table, plain.table)
    assert torch.equal(read_word_vectors(tmp_path / "a.zip", WORDS, 3).table, plain.table)
    assert read_word_vectors(tmp_path / "a.zip", WORDS, 2).dim == 2 == read_word_vectors(tmp_path / "a.zip", WORDS).dim
    said = r"a\.zip has no vectors of size 5; it has glove\.2d\.txt of size 2, glove\.3d\.txt of size 3; give one"
    with pytest.raises(DataError, match=said):
        read_word_vectors(tmp_path / "a.zip", WORDS, 5)


def test_embedding_of_a_vocabulary(tmp_path):
    vocabulary = Vocabulary(WORDS, ["yes"])
    found = read_word_vectors(written(tmp_path / "a.txt", GLOVE), vocabulary.words)
    rows = found.embedding()
    assert rows.shape == (vocabulary.num_words, 3) and torch.equal(rows, found.embedding())
    assert torch.equal(rows[0], torch.zeros(3)) and torch.equal(rows[vocabulary.encode("film")[0]], found.table[0])
    known = found.table[found.found]
    torch.testing.assert_close(rows[1], known.mean(0))
    many = read_word_vectors(tmp_path / "a.txt", ["film", "the", *(f"none{i}" for i in range(4000))]).embedding(seed=1)
    known = many[2:4]
    torch.testing.assert_close(many[4:].mean(0), known.mean(0), rtol=0.1, atol=0.1)
    torch.testing.assert_close(many[4:].std(0), known.std(0, correction=0), rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    "text, said",
    [
        ("", r"a\.txt is empty, or begins with an empty line"),
        ("\nfilm 1 2\n", r"a\.txt is empty, or begins with an empty line"),
        ("film\n", r"line 1 must be a word and its numbers, got 'film'"),
        (
            "film 1 2\nthe 1 2 3\n",
            r"line 2 must have 2 numbers, as the lines before it, got 3 for 'the'; mend",
        ),
        ("film 1 2\nthe 1\n", r"line 2 must have 2 numbers, as the lines before it, got 1 for 'the'"),
        ("film 1 2\n\nthe 1 2\n", r"line 2 must have 2 numbers, .* got an empty line"),
        ("film 1 2\nthe 1 two\n", r"line 2 must have numbers after the word, got 'two'; mend or remove it"),
        ("film 1 2\nthe 1 nan\n", r"line 2 must have finite numbers, got 'nan'"),
        ("film 1 2\nthe 1 1e39\n", r"line 2 must have finite numbers, got '1e39'"),
        ("2 99999999999\nthe 1 2\nfilm 1 2\n", r"line 2 must have 99999999999 numbers, .* got 2 for 'the'"),
        ("2 99999999999\n", r"a\.txt has a header, and no vectors; get the file again"),
        ("9" * 5000 + " 7\nthe 1 2\n", r"line 2 must have 1 numbers, as the lines before it, got 2 for 'the'"),
        ("chien 1 2\nchat 1 2\n", r"has none of the 2 words, such as 'the', 'film'; give vectors of this language"),
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path, text, said):
    with pytest.raises(DataError, match=said):
        read_word_vectors(written(tmp_path / "a.txt", text), ("the", "film"))


def test_numbers_of_other_words_are_not_looked_at(tmp_path):
    path = written(tmp_path / "a.txt", "film 1 2\nthe 1 two\n")
    assert read_word_vectors(path, ("film",)).table.tolist() == [[1, 2]]


def test_other_encodings_and_broken_archives_are_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"film 1 2\n" + "caf\xe9 1 2\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"line 2 has the byte 0xe9, which is not utf-8\); get it again, or give its"):
        read_word_vectors(path, ("film",))
    assert read_word_vectors(path, ("café",), encoding="latin-1").table.tolist() == [[1, 2]]
    (tmp_path / "b.zip").write_bytes(b"PK nothing")
    with pytest.raises(DataError, match=r"b\.zip is damaged or no zip archive"):
        read_word_vectors(tmp_path / "b.zip", ("film",))
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("README", "no vectors")
    with pytest.raises(DataError, match=r"c\.zip holds no text file"):
        read_word_vectors(tmp_path / "c.zip", ("film",))
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(GLOVE.encode())[:20])
    with pytest.raises(DataError, match=r"d\.txt\.gz is damaged or not a text file"):
        read_word_vectors(tmp_path / "d.txt.gz", ("film",))


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; give a text file of GloVe or word2vec"):
        read_word_vectors(tmp_path / "none.txt", ("film",))
    path = written(tmp_path / "a.txt", GLOVE)
    with pytest.raises(DataError, match=r"a\.txt has vectors of size 3, wanted 300; give another file, or this size"):
        read_word_vectors(path, ("film",), 300)
    with pytest.raises(ValueError, match="words must be a sequence of at least one word, got 'film'"):
        read_word_vectors(path, "film")
    with pytest.raises(ValueError, match="dim must be an integer >= 1, got 0"):
        read_word_vectors(path, ("film",), 0)
