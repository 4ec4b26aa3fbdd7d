"""Questions in any script are drawn without a warning for each letter."""

import pytest
from matplotlib.figure import Figure

from omegamax.cli import _font
from omegamax.cli._font import letters_of


def draw(text, path):
    with letters_of(text):
        figure = Figure()
        figure.suptitle(text)
        figure.savefig(path)


@pytest.mark.parametrize("text", ["what colour is the star?", "كم دائرة هناك؟", "有多少个圆圈", "कितने वृत्त हैं?"])
def test_at_most_one_line_is_said(text, tmp_path, capsys):
    draw(text, tmp_path / "a.png")  # a warning would be an error
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) <= 1 and all("no installed font has" in line for line in lines)


def test_letters_that_no_font_has_are_named_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_font, "_letters", lambda path: set("abc"))
    draw("abc 有多", tmp_path / "a.png")
    (line,) = capsys.readouterr().err.splitlines()
    assert "多有" in line or "有多" in line


def test_font_that_has_the_letters_is_taken(monkeypatch):
    import matplotlib
    from matplotlib.font_manager import fontManager

    other = next(font for font in fontManager.ttflist if font.name != "DejaVu Sans")
    monkeypatch.setattr(_font, "_letters", lambda path: set("有") if path == other.fname else set("abc"))
    with letters_of("abc有"):
        assert matplotlib.rcParams["font.family"][-1] == other.name
