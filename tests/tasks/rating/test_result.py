"""Answers to a survey: means by hand, intervals by brute force, agreement, and files that are refused by name."""

import json
import math
import random

import pytest
import torch

from omegamax.data import DataError
from omegamax.metrics import krippendorff_alpha
from omegamax.tasks.rating import measure_agreement, read_ratings, summarise_ratings
from tasks.rating.cases import NETWORKS, make_answers, make_survey, write_answers

SOFT, SPARSE, TV = NETWORKS


def test_means_are_found_behind_the_random_order(tmp_path):
    survey = make_survey()
    grades = {(SOFT, None): 2, (SOFT, 1): 1, (SOFT, 2): 4, (SPARSE, None): 3, (SPARSE, 1): 5, (TV, None): 5}
    paths = [write_answers(tmp_path, survey, who, lambda *of: grades[of]) for who in ("Ann", "Bob")]
    ratings = read_ratings(paths)
    assert ratings.raters == ("Ann", "Bob") and len(ratings.units) == 18
    rows = summarise_ratings(ratings, draws=50)
    assert [row.name for row in rows] == list(NETWORKS)
    assert [row.text for row in rows] == [(2, 2, 2), (3, 3, 3), (5, 5, 5)]
    assert [row.attention for row in rows[:2]] == [(2.5, 2.5, 2.5), (5, 5, 5)]
    assert all(map(math.isnan, rows[2].attention))  # it says nothing, so no word of it is rated
    assert [row.text_difference for row in rows] == [None, (1, 1, 1), (3, 3, 3)]
    assert rows[1].attention_difference == (2.5, 2.5, 2.5)
    assert [(row.texts, row.words) for row in rows] == [(6, 12), (6, 6), (6, 0)]
    assert measure_agreement(ratings) == (1.0, 1.0)


def draw_ratings(tmp_path, pictures=12, seed=0):
    survey, draw = make_survey(pictures), random.Random(seed)
    return read_ratings(
        [write_answers(tmp_path, survey, f"r{k}", lambda *of: draw.choice([None, 1, 2, 3, 4, 5])) for k in range(3)]
    )


def test_intervals_are_those_of_resampled_pictures(tmp_path):
    """Each sample of pictures is put together grade by grade, with the numbers that the generator draws."""
    ratings, draws = draw_ratings(tmp_path), 200
    pictures = ratings.key.pictures
    chosen = torch.randint(len(pictures), (draws, len(pictures)), generator=torch.Generator().manual_seed(5)).tolist()

    def mean(name, sample):
        found = [g[u] for p in sample for g in ratings.grades for u in g if u[:2] == (p, name) and u.word is not None]
        return sum(found) / len(found)

    means = {name: [mean(name, [pictures[i] for i in sample]) for sample in chosen] for name in (SOFT, SPARSE)}
    rows = {row.name: row for row in summarise_ratings(ratings, draws, seed=5)}
    gaps = [b - a for a, b in zip(means[SOFT], means[SPARSE], strict=True)]
    for found, wanted in ((rows[SPARSE].attention, means[SPARSE]), (rows[SPARSE].attention_difference, gaps)):
        ends = torch.quantile(
            torch.tensor(wanted, dtype=torch.float64), torch.tensor([0.025, 0.975], dtype=torch.float64)
        )
        assert found[1:] == pytest.approx(ends.tolist(), abs=1e-9)
    assert rows[SPARSE].attention[0] == pytest.approx(mean(SPARSE, pictures), abs=1e-12)
    assert rows[SPARSE].attention[1] < rows[SPARSE].attention[0] < rows[SPARSE].attention[2]


def test_agreement_is_alpha_over_units(tmp_path):
    ratings = draw_ratings(tmp_path)
    units = [unit for unit in ratings.units if unit.word is None]
    table = torch.tensor([[grades.get(unit, math.nan) for unit in units] for grades in ratings.grades])
    assert measure_agreement(ratings)[0] == float(krippendorff_alpha(table))
    assert abs(measure_agreement(ratings)[0]) < 0.5  # they drew lots


def test_half_a_file_counts_with_what_it_has(tmp_path):
    survey = make_survey()
    whole = write_answers(tmp_path, survey, "Ann", lambda *of: 4)
    half = write_answers(tmp_path, survey, "Bob", lambda name, word: 1 if word is None else None)
    rows = summarise_ratings(read_ratings([whole, half]), draws=20)
    assert [row.text[0] for row in rows] == [2.5] * 3 and rows[0].attention[0] == 4
    ratings = read_ratings([half])
    assert len(ratings.grades[0]) == 9 and all(map(math.isnan, measure_agreement(ratings)))
    nothing = read_ratings([write_answers(tmp_path, survey, "Eve", lambda *of: None)])
    assert all(math.isnan(row.text[0]) for row in summarise_ratings(nothing, draws=5))


def refuse(paths, words):
    with pytest.raises(DataError, match=words):
        read_ratings(paths)


def test_files_of_others_and_twice_the_same_rater_are_refused(tmp_path):
    survey = make_survey()
    ann = write_answers(tmp_path, survey, "Ann", lambda *of: 4)
    (tmp_path / "more").mkdir()
    again = write_answers(tmp_path / "more", survey, "ann", lambda *of: 2)
    refuse([ann, again], rf"{ann} and {again} are both by ann; give one of them")
    other = write_answers(tmp_path, make_survey(seed=1), "Bob", lambda *of: 4)
    refuse([ann, other], rf"{other} has answers to another page .* than {ann}")
    refuse([], "there is no file of answers")
    with pytest.raises(FileNotFoundError, match=r"no\.json does not exist"):
        read_ratings([tmp_path / "no.json"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format="comparison 1"), "is no file of answers; give one that the page saved"),
        (lambda d: d.update(survey="0" * 12), "it has the key of another page"),
        (lambda d: d.update(key="!"), "its key cannot be read"),
        (lambda d: d.update(rater="  "), "does not say who rated"),
        (lambda d: d.pop("rater"), "rater"),
        (lambda d: d.update(answers={}), "answers"),
        (lambda d: d["answers"].pop(), "wanted answers about 3 pictures, got 2"),
        (lambda d: d["answers"][1].pop(), "must have answers about 3 networks"),
        (lambda d: d["answers"].__setitem__(0, 3), "must have answers about 3 networks, got 3"),
        (lambda d: d["answers"][0][0]["words"].append(3), "grades of words, got"),
        (lambda d: d["answers"][0][0].update(text=6), r"grades must be 1 to 5, or null, got 6"),
        (lambda d: d["answers"][0][0].update(text="5"), r"grades must be 1 to 5, or null, got '5'"),
        (lambda d: d["answers"][0][0].update(text=True), r"grades must be 1 to 5, or null, got True"),
        (lambda d: d["answers"][0].__setitem__(0, "x"), "words"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, change, words):
    data = make_answers(make_survey(), "Ann", lambda *of: 4)
    change(data)
    path = tmp_path / "Ann.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    refuse([path], f"Ann.json.*{words}")


@pytest.mark.parametrize("text", [b"", b"[1, 2]", b"\xff\xfe", b"{", b"null"])
def test_what_is_no_file_of_answers_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_bytes(text)
    refuse([tmp_path / "x.json"], r"x\.json is no file of answers")
