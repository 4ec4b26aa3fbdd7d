"""``omegamax kernels``."""

from pathlib import Path

from omegamax.cli import kernels
from omegamax.cli.main import main
from omegamax.kernels.choice import RULES

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"


def test_every_rule_and_operation_has_a_line(capsys):
    assert main(["kernels"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for rule in RULES for name in (rule.operation, *rule.kernels))
    assert "active_set" in shown and "C++" in shown


def test_page_shows_the_tables_that_the_code_reads():
    text = PAGE.read_text()
    table = text.partition("<!-- kernels:begin -->\n")[2].partition("\n<!-- kernels:end -->")[0]
    assert table == kernels.markdown(), "run: omegamax kernels --into docs/kernels.md"
