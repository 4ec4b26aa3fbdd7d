"""What rows show, in words: the words follow the numbers."""

from omegamax.tasks.vqa.report import Comparison, Row, summarise


def said(*rows):
    return summarise(Comparison("", "", list(rows)))


def row(name, overall, difference=None, **kinds):
    return Row(name, "softmax", {"overall": overall, **kinds}, 0, difference=difference)


FIRST = row("first", 0.8, number=0.7, other=0.9)


def test_models_are_told_apart_by_the_interval_alone():
    better, same = row("b", 0.82, (0.02, 0.001, 0.039)), row("s", 0.7, (-0.1, -0.21, 0.01))
    worse = row("w", 0.79, (-0.01, -0.019, -0.001))
    text = said(FIRST, worse, same, better)
    assert "Better: b (82.0%, +2.0 points, +0.1 to +3.9)." in text
    assert "Not told apart from it: s (70.0%, -10.0 points, -21.0 to +1.0)." in text
    assert "Worse: w (79.0%, -1.0 points, -1.9 to -0.1)." in text
    assert text.index("Better") < text.index("Not told") < text.index("Worse")


def test_kind_of_question_with_the_largest_gap_is_named():
    worse = row("w", 0.7, (-0.1, -0.12, -0.08), number=0.4, other=0.95)
    assert "; most in number, -30.0)" in said(FIRST, worse)
    better = row("b", 0.9, (0.1, 0.08, 0.12), number=0.75, other=0.99)
    assert "; most in other, +9.0)" in said(FIRST, better)


def test_nothing_is_said_of_what_is_not_known():
    assert said() == said(FIRST) == said(FIRST, row("x", 0.5)) == ""
    assert said(row("a", None), row("b", 0.5, (0.1, 0.0, 0.2))) == ""
    assert Row("x", "softmax", {}, 0, difference=(0.1, float("-inf"), float("inf"))).difference is None
