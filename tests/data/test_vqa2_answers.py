"""Answers of VQA: the official normal form, the official accuracy, soft scores, the dictionary, results files."""

import itertools
import json

import pytest
import torch

from omegamax import metrics
from omegamax.data import DataError, vqa2
from omegamax.data.vqa2 import Annotation, accuracy, answer_scores, evaluate, normalise_answer


@pytest.mark.parametrize(
    "given, wanted",
    [
        ("Yes", "yes"),
        ("  the dog\n", "dog"),
        ("a cat and an owl", "cat and owl"),
        ("none", "0"),
        ("Ten", "10"),
        ("eleven", "eleven"),
        ("two-tone", "2 tone"),  # a mark between letters becomes a space, and what is left is read as words
        ("black - white", "black white"),  # next to a space it vanishes
        ("black -white", "black white"),
        ("red-black - white", "redblack white"),  # one of its kind next to a space: all vanish
        ("1,000", "1000"),  # a comma between digits: every mark vanishes
        ("1,000-2,000", "10002000"),
        ("1,2/3", "123"),
        ("1, 2", "1 2"),
        ("red,blue", "red blue"),
        ("3.5", "3.5"),  # a period stays if a digit follows
        (".5", ".5"),
        ("2.", "2"),
        ("u.s.", "us"),
        ("u.s.a", "usa"),
        ("a.m", "am"),
        ("10:55", "10:55"),
        ("men's", "men's"),
        ("what?!", "what"),
        ('"stop"', "stop"),
        ("50%", "50%"),
        ("dont know", "don't know"),
        ("doesnt", "doesn't"),
        ("oclock", "o'clock"),
        ("twas", "'twas"),
        ("couldnt've", "couldn't've"),
        ("couldn'tve", "couldn't've"),
        ("yall'd've", "y'all'd've"),
        ("somebody'd", "somebodyd"),
        ("its", "its"),
        ("im", "im"),
        ("were", "were"),
        ("the", ""),
        ("", ""),
    ],
)
def test_normal_form_follows_the_official_rules(given, wanted):
    assert normalise_answer(given) == wanted


def by_subsets(answer, people):
    """The definition, word for word: the mean over every nine of the ten."""
    subsets = list(itertools.combinations(people, len(people) - 1))
    return sum(min(subset.count(answer) / 3, 1) for subset in subsets) / len(subsets)


@pytest.mark.parametrize("people", [2, 3, 4, 9, 10, 11])
def test_accuracy_is_the_mean_over_subsets(people):
    for matches in range(people + 1):
        given = ["x"] * matches + ["y"] * (people - matches)
        assert accuracy("x", given) == pytest.approx(by_subsets("x", given), abs=1e-15)
    counts = torch.arange(people + 1)
    wanted = [by_subsets("x", ["x"] * m + ["y"] * (people - m)) for m in counts.tolist()]
    torch.testing.assert_close(
        metrics.vqa_accuracy(counts, people), torch.tensor(wanted, dtype=torch.float64), atol=1e-15, rtol=0
    )


def test_accuracy_of_ten_people_takes_five_values_exactly():
    assert metrics.vqa_accuracy(torch.arange(11)).tolist() == [0.0, 0.3, 0.6, 0.9] + [1.0] * 7
    assert metrics.vqa_accuracy(torch.tensor([[0], [3]])).shape == (2, 1)
    assert metrics.vqa_accuracy(1, people=1) == 1


def test_accuracy_normalises_both_sides_unless_all_agree():
    assert accuracy("A Dog.", ["dog"] * 2 + ["the cat"] * 8) == 0.6
    assert accuracy("cat", ["dog"] * 2 + ["the cat"] * 8) == 1.0
    assert accuracy("t shirt", ["t-shirt"] * 9 + ["shirt"]) == 1.0
    assert accuracy("t shirt", ["t-shirt"] * 10) == 0.0
    assert accuracy("t-shirt\n", ["t-shirt "] * 10) == 1.0


@pytest.mark.parametrize("matches", [-1, 11])
def test_accuracy_refuses_counts_out_of_range(matches):
    with pytest.raises(ValueError, match=r"vqa_accuracy: matches must lie in \[0, 10\]"):
        metrics.vqa_accuracy(matches)


def test_accuracy_refuses_what_are_no_counts():
    with pytest.raises(TypeError, match="vqa_accuracy: matches must be integers"):
        metrics.vqa_accuracy(torch.tensor([0.5]))
    with pytest.raises(ValueError, match="people must be an int >= 1"):
        metrics.vqa_accuracy(0, people=0)


def test_soft_scores_join_answers_of_one_normal_form():
    scores = answer_scores(["2", "two", "Two."] + ["3"] * 2 + ["the"] + ["4,000"] + ["five"] * 3)
    assert scores == {"2": 0.9, "3": 0.6, "4000": 0.3, "5": 0.9}


def test_soft_scores_are_accuracies():
    people = ["2"] * 5 + ["3"] * 3 + ["4"] * 2
    assert answer_scores(people) == {answer: accuracy(answer, people) for answer in "234"}


def annotation(number, answers, kind="other", question="what is", majority=None):
    return Annotation(number, 1, question, kind, majority or answers[0], tuple(answers), ("yes",) * len(answers))


def test_evaluation_reports_means_by_type():
    annotations = {
        1: annotation(1, ["yes"] * 9 + ["no"], "yes/no", "is the"),
        2: annotation(2, ["2"] * 10, "number", "how many"),
        3: annotation(3, ["red"] * 2 + ["blue"] * 8, "other", "what color"),
        4: annotation(4, ["red"] * 10, "other", "what"),
    }
    report = evaluate({1: "No.", 2: "2", 3: "red", 4: "green"}, annotations)
    assert report.by_question == {1: 30.0, 2: 100.0, 3: 60.0, 4: 0.0}
    assert report.overall == pytest.approx(47.5)
    assert report.by_answer_type == {"number": 100.0, "other": 30.0, "yes/no": 30.0}
    assert report.by_question_type == {"how many": 100.0, "is the": 30.0, "what": 0.0, "what color": 60.0}


def test_evaluation_wants_every_question_and_no_other():
    annotations = {1: annotation(1, ["yes"] * 10), 2: annotation(2, ["yes"] * 10)}
    with pytest.raises(ValueError, match="no answer to 1 of 2 questions, such as 2"):
        evaluate({1: "yes"}, annotations)
    with pytest.raises(ValueError, match="answers 1 questions without annotations, such as 3"):
        evaluate({1: "yes", 2: "yes", 3: "no"}, annotations)


def test_dictionary_holds_frequent_majority_answers_in_order(tmp_path):
    majority = ["Yes"] * 4 + ["no"] * 3 + ["two", "2", "2."] + ["rare"] * 2
    annotations = [annotation(i, ["ignored"] * 10, majority=answer) for i, answer in enumerate(majority)]
    answers = vqa2.answer_dictionary(annotations, least=3)
    assert answers == ["yes", "2", "no"]
    path = tmp_path / "answers.json"
    vqa2.save_dictionary(path, answers)
    assert json.loads(path.read_text()) == answers == vqa2.load_dictionary(path)
    path.write_text(json.dumps({"no": 2, "yes": 0, "2": 1}))
    assert vqa2.load_dictionary(path) == answers
    path.write_text(json.dumps([{"no": 2, "yes": 0, "2": 1}, {"0": "yes", "1": "2", "2": "no"}]))
    assert vqa2.load_dictionary(path) == answers
    assert vqa2.answer_dictionary(annotations[:4] * 2 + annotations[:1]) == ["yes"]  # nine times, the default
    with pytest.raises(ValueError, match="no answer occurs 9 times"):
        vqa2.answer_dictionary(annotations)


@pytest.mark.parametrize(
    "content, message",
    [
        ("[", "answers.json is damaged or not a JSON file"),
        ("[]", "must be a list of answers that is not empty"),
        ("7", "must be a list of answers"),
        ('["yes", 3]', "entry 1, 3, is not a word"),
        ('["yes", "yes"]', "entry 1, 'yes', occurs twice"),
        ('{"yes": 1, "no": 2}', "must be 0 to 1, each once"),
        ('{"yes": "0"}', "must be 0 to 0, each once"),
        ('[{"yes": 0, "no": 1}, {"0": "no", "1": "yes"}]', "must lead from each number back to its answer"),
        ('[{"yes": 1}, {"1": "yes"}]', "must be 0 to 0, each once"),
    ],
)
def test_dictionary_refuses_a_bad_file(tmp_path, content, message):
    path = tmp_path / "answers.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        vqa2.load_dictionary(path)


def test_results_have_the_form_of_the_server(tmp_path):
    path = tmp_path / "v2_OpenEnded_mscoco_test-dev2015_mcan_results.json"
    vqa2.write_results(path, {262148001: "café", 262148000: "down"})
    entries = json.loads(path.read_text(encoding="utf-8"))
    assert entries == [{"question_id": 262148000, "answer": "down"}, {"question_id": 262148001, "answer": "café"}]
    assert vqa2.read_results(path) == {262148000: "down", 262148001: "café"}
    with pytest.raises(TypeError, match=r"write_results: wanted answers \(str\) by question number \(int\)"):
        vqa2.write_results(path, {"262148000": "down"})


@pytest.mark.parametrize(
    "content, message",
    [
        ('{"question_id": 1}', "must be a list of objects"),
        (
            '[{"question_id": 1, "answer": "a"}, {"question_id": 1, "answer": "b"}]',
            "entry 1: question_id 1 occurs twice",
        ),
        ('[{"question_id": "1", "answer": "a"}]', "entry 0: 'question_id' must be int, got '1'"),
        ('[{"question_id": 1}]', "entry 0 has no 'answer'"),
    ],
)
def test_results_refuse_a_bad_file(tmp_path, content, message):
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(DataError, match=f"results.json.*{message}"):
        vqa2.read_results(path)


def test_metric_is_the_evaluation_over_batches():
    annotations = {
        1: annotation(1, ["yes"] * 9 + ["no"], "yes/no"),
        2: annotation(2, ["2"] * 8 + ["3"] * 2, "number"),
        3: annotation(3, ["red"] * 3 + ["blue"] * 7, "other"),
    }
    names, kinds = ["yes", "no", "2", "3", "red", "blue"], ["yes/no", "number", "other"]
    chosen = {1: "no", 2: "3", 3: "red"}
    report = evaluate(chosen, annotations)
    metric = metrics.VQAAccuracy()
    for number, given in annotations.items():
        scores = answer_scores(given.answers)
        answers = torch.tensor([[scores.get(name, 0.0) for name in names]])
        logits = torch.nn.functional.one_hot(torch.tensor([names.index(chosen[number])]), len(names)).float()
        choice = logits if number == 1 else logits.argmax(-1)
        metric.update(choice, answers, torch.tensor([kinds.index(given.answer_type)]))
    result = {name: 100 * float(value) for name, value in metric.compute().items()}
    assert result == pytest.approx({"overall": report.overall, **report.by_answer_type}, abs=1e-5)


def test_metric_of_no_questions_is_nan_and_shapes_are_checked():
    metric = metrics.VQAAccuracy(kinds=("a", "b"))
    metric.update(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    assert list(metric.compute()) == ["overall", "a", "b"] and all(v.isnan() for v in metric.compute().values())
    with pytest.raises(ValueError, match=r"VQAAccuracy: wanted choice \[B\]"):
        metric.update(torch.zeros(2, dtype=torch.int64), torch.zeros(3, 3), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="distinct names other than 'overall'"):
        metrics.VQAAccuracy(kinds=("overall",))


def test_dictionary_of_the_real_set(real):
    folder = real("vqa2")
    files = [folder / f"v2_mscoco_{part}2014_annotations.json" for part in ("train", "val")]
    if not all(file.exists() for file in files):
        pytest.skip("reads the real annotations of train and val")
    annotations = [given for file in files for given in vqa2.read_annotations(file).values()]
    assert len(annotations) == 443757 + 214354
    assert len(vqa2.answer_dictionary(annotations)) == 3129  # as published models report
