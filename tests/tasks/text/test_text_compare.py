"""Networks compared on the same texts: numbers, examples, what is refused."""

import pytest
import torch

from omegamax.data import DataError, Vocabulary
from omegamax.models.text import RationaleConfig, TextConfig, WordsConfig
from omegamax.tasks.report import Contender
from omegamax.tasks.text import ReviewsData, SentencePairsData, TextTask
from omegamax.tasks.text.compare import compare
from omegamax.tasks.text.report import PairLook
from omegamax.tasks.text.report.page import page

SIZES = {"word_dim": 8, "hidden_dim": 4, "score_dim": 4}


@pytest.fixture(scope="module")
def data():
    return ReviewsData(samples=(40, 8, 24), batch_size=8)


def make(data, *configs):
    torch.manual_seed(0)
    tasks = [TextTask(data.vocabulary, TextConfig.small(**SIZES, **config)).eval() for config in configs]
    return {task.label: Contender(task, [{"step": 1, "val_accuracy": 0.5}]) for task in tasks}


def test_numbers_are_those_of_the_texts(data):
    kinds = ("sparsemax", "continuous_sparsemax")
    runs = make(data, *({"attention": WordsConfig(kind, functions=8)} for kind in kinds))
    found = compare(runs, data, examples=4, themed=2, rounds=1)
    assert [row.name for row in found.rows] == list(runs) and all(row.step_ms > 0 for row in found.rows)
    samples = list(data.read("test"))
    right = {}
    for row, contender in zip(found.rows, runs.values(), strict=True):
        task, chosen, f1, none = contender.task, [], [], []
        for sample in samples:
            with torch.no_grad():
                answer = task({"words": torch.tensor([data.vocabulary.find_words(sample.words)])})
            chosen.append(float(data.vocabulary.answers[int(answer.logits.argmax())] == sample.label))
            empty = answer.attention.empty()[0].tolist()
            marks = [mark >= 0.5 for mark in sample.marks]
            both = sum(m and not e for m, e in zip(marks, empty, strict=True))
            f1.append(2 * both / (sum(marks) + empty.count(False)))
            none += empty
        assert row.accuracy["overall"] == pytest.approx(sum(chosen) / len(chosen))
        assert row.token_f1 == pytest.approx(sum(f1) / len(f1)) and row.zero == pytest.approx(sum(none) / len(none))
        right[row.name] = torch.tensor(chosen)
    one, other = right.values()
    assert found.rows[0].difference is None and found.rows[1].difference[0] == pytest.approx(
        float((other - one).mean())
    )
    plain = [example for example in found.examples if example.theme is None]
    assert len(plain) == 4 and len({example.label for example in plain[:2]}) == 2
    by_id = {sample.id: sample for sample in samples}
    for example in found.examples:
        assert tuple(example.words) == by_id[example.id].words and set(example.looks) == set(runs)
        told = [look.right for look in example.looks.values()]
        assert example.theme is None or (any(told) != all(told)) == (example.theme == "networks disagree")


def test_rationales_show_the_words_that_were_chosen(data):
    runs = make(data, {"rationale": RationaleConfig("k_subsets", k=3)}, {"attention": WordsConfig("softmax")})
    found = compare(runs, data, examples=2, themed=0, rounds=0)
    chosen, all_words = found.rows
    assert chosen.kind == "k_subsets" and chosen.zero > 0 == all_words.zero and chosen.step_ms is None
    look = found.examples[0].looks[chosen.name]
    assert [w == 0 for w in look.weights] == look.empty and any(look.empty) and "rationale by k-subsets" in page(found)


def test_pairs_have_alignments():
    data = SentencePairsData(samples=(24, 4, 6), batch_size=4)
    runs = make(data, {"alignment": "softmax"}, {"alignment": "matching"})
    found = compare(runs, data, examples=2, themed=0, rounds=1)
    soft, matching = found.examples[0].looks.values()
    assert isinstance(soft, PairLook) and matching.mutual and not soft.mutual
    assert all(sum(row) == pytest.approx(1, abs=2e-3) for row in soft.onward)
    assert found.rows[1].zero > found.rows[0].zero == 0


def test_what_does_not_belong_together_is_refused_by_name(data):
    other = TextTask(Vocabulary(["good"], ["0", "1"])).eval()
    with pytest.raises(DataError, match="strange knows other words or classes than the data"):
        compare({"strange": Contender(other)}, data)
    aligned = make(data, {"alignment": "matching"})
    with pytest.raises(DataError, match="matching alignment reads pairs of sentences, and the data have none"):
        compare(aligned, data)
    pairs = SentencePairsData(samples=(24, 4, 6))
    single = make(pairs, {})
    with pytest.raises(DataError, match="reads single texts, and the data have pairs"):
        compare(single, pairs)
