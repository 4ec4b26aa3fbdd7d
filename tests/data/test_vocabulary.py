"""Words and answers to numbers and back, through files too."""

import json

import pytest
import torch

from omegamax.data import Vocabulary, tokenise

VOCABULARY = Vocabulary(["is", "it", "café"], ["yes", "no", "2"])


@pytest.mark.parametrize(
    "text, words",
    [
        ("What is THIS?", ["what", "is", "this"]),
        ("  man's/woman’s  T-shirt, (red)!\n", ["mans", "womans", "t", "shirt", "red"]),  # noqa: RUF001
        ("how many 3d_glasses", ["how", "many", "3d", "glasses"]),
        ("Cafe\u0301 \u5b57 \u0915\u093f?", ["café", "字", "कि"]),
        ("?!... --", []),
        ("", []),
    ],
)
def test_tokenise(text, words):
    assert tokenise(text) == words


def test_words_have_indices_after_padding_and_unknown():
    assert VOCABULARY.num_words == 5 and VOCABULARY.num_answers == 3
    assert VOCABULARY.encode("It is a CAFÉ!").tolist() == [3, 2, 1, 4]
    assert VOCABULARY.encode("it").dtype == torch.int64


def test_vocabulary_of_questions_keeps_frequent_words_and_the_order_of_answers():
    questions = ["is it b?", "is it a?", "is that?"]
    vocabulary = Vocabulary.of(questions, ["no", "yes", "no"])
    assert vocabulary.words == ("is", "it", "a", "b", "that")
    assert vocabulary.answers == ("no", "yes")
    assert Vocabulary.of(iter(questions), ["no"], least=2).words == ("is", "it")


def test_scores_of_answers():
    assert VOCABULARY.scores({"2": 0.25, "yes": 1}).tolist() == [1, 0, 0.25]
    assert VOCABULARY.scores({}).tolist() == [0, 0, 0]
    assert VOCABULARY.scores({"maybe": 1, "no": 0.5}, unknown="drop").tolist() == [0, 0.5, 0]
    for call in (lambda: VOCABULARY.scores({"maybe": 1}), lambda: VOCABULARY.answer_index("maybe")):
        with pytest.raises(ValueError, match=r"unknown answer 'maybe'; there are 3 answers: 'yes', 'no', '2'$"):
            call()
    with pytest.raises(ValueError, match="unknown must be one of 'error', 'drop', got 'ignore'"):
        VOCABULARY.scores({}, unknown="ignore")


def test_a_question_without_words_is_an_error():
    with pytest.raises(ValueError, match=r"Vocabulary.encode: question ' \?' has no words"):
        VOCABULARY.encode(" ?")


def test_saved_vocabulary_is_the_same_when_loaded(tmp_path):
    path = tmp_path / "vocabulary.json"
    VOCABULARY.save(path)
    loaded = Vocabulary.load(str(path))
    assert loaded == VOCABULARY and hash(loaded) == hash(VOCABULARY)
    assert loaded.encode("is it").tolist() == VOCABULARY.encode("is it").tolist()
    assert loaded != Vocabulary(["is"], ["yes"]) and loaded != "vocabulary"
    assert json.loads(path.read_text(encoding="utf-8"))["words"] == ["is", "it", "café"]


@pytest.mark.parametrize(
    "content, error, words",
    [
        (b'{"words": ["a"', ValueError, "is not a JSON file"),
        (b"\xff\xfe\x00", ValueError, "is not a JSON file"),
        (b'["a"]', ValueError, "must hold an object with the lists 'words' and 'answers'"),
        (b'{"words": ["a"]}', ValueError, "must hold an object with the lists 'words' and 'answers'"),
        (b'{"words": ["a", "a"], "answers": ["b"]}', ValueError, "words must be distinct, got 'a' more than once"),
        (b'{"words": ["a"], "answers": [1]}', TypeError, "answers must be a sequence of str"),
        (b'{"words": ["a"], "answers": []}', ValueError, "answers is empty"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, content, error, words):
    path = tmp_path / "v.json"
    path.write_bytes(content)
    with pytest.raises(error, match=f"Vocabulary.load: {path}.* {words}"):
        Vocabulary.load(path)


def test_a_string_is_no_list_of_words():
    with pytest.raises(TypeError, match="words must be a sequence of str"):
        Vocabulary("abc", ["yes"])
