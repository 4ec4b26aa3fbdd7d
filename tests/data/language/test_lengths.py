"""Tasks whose answers are known, against plain loops."""

import pytest
import torch

from omegamax.data.language import count_tokens, draw_task
from omegamax.data.language.lengths import ASK, FIRST, TASKS


def answer_by_loop(task, tokens):
    """What is to be foretold at each place, from the text up to there."""
    target = [0] * len(tokens)
    if task == "two_back":
        return [0, 0, *tokens[:-2]]
    at = tokens.index(ASK)
    question = tokens[:at]
    if task == "recall":
        values = dict(zip(question[::2], question[1::2], strict=True))
        for place in range(at + 1, len(tokens), 2):
            target[place] = values[tokens[place]]
        return target
    order = {"copy": question, "reverse": question[::-1], "sort": sorted(question)}[task]
    return [0] * at + order


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("length", [8, 9, 40])
def test_answers_are_those_of_a_loop(task, length):
    tokens, target = draw_task(task, 5, length, torch.Generator().manual_seed(length))
    assert tokens.shape == target.shape and tokens.dtype == torch.int64
    assert int(tokens.max()) < count_tokens(task, length // 2) and int(tokens.min()) >= ASK
    for row, wanted in zip(tokens.tolist(), target.tolist(), strict=True):
        assert answer_by_loop(task, row) == wanted
    again, _ = draw_task(task, 5, length, torch.Generator().manual_seed(length))
    assert torch.equal(tokens, again)


def test_keys_are_distinct_and_teacher_has_the_answers():
    tokens, target = draw_task("recall", 3, 60, torch.Generator().manual_seed(0))
    for row in tokens.tolist():
        keys = row[:60:2]
        assert len(set(keys)) == 30 and min(keys) >= FIRST + 32
    assert int((target > 0).sum()) == 3 * 4
    many, _ = draw_task("recall", 50, 8, torch.Generator().manual_seed(0), keys=100)
    assert len(many[:, :8:2].unique()) > 80
    with pytest.raises(ValueError, match="keys must be an integer >= 30"):
        draw_task("recall", 1, 60, torch.Generator(), keys=10)
    copied, wanted = draw_task("copy", 2, 7, torch.Generator().manual_seed(0))
    assert torch.equal(copied[:, 8:], wanted[:, 7:-1])


def test_what_is_no_task_is_refused():
    with pytest.raises(ValueError, match="task"):
        draw_task("guess", 1, 8, torch.Generator())
    with pytest.raises(ValueError, match="length must be an integer >= 8"):
        draw_task("recall", 1, 4, torch.Generator())
