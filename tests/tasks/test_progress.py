"""Work that takes long says how far it is, where there is no terminal too."""

from omegamax.tasks import progress as module
from omegamax.tasks.progress import progress


def test_long_work_without_a_terminal_tells_how_far_it_is(monkeypatch, capsys):
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    assert list(progress([5, 6, 7, 8], "measuring")) == [5, 6, 7, 8]
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(line.startswith("  measuring: ") and line.endswith(" of 4") for line in lines)


def test_short_work_says_nothing(monkeypatch, capsys):
    monkeypatch.setattr(module.time, "monotonic", lambda: 0.0)
    assert list(progress(iter("ab"), "measuring")) == ["a", "b"]
    assert capsys.readouterr().err == ""
