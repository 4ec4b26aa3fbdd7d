"""How tests ask for what a command must refuse: status 2, one line that says why, and no traceback."""

from omegamax.cli.main import main


def refused(capsys, *arguments):
    """Run a command that must be refused; return the line that says why, the last one and the only one of its kind."""
    capsys.readouterr()
    try:
        code = main(list(map(str, arguments)))
    except SystemExit as exit:
        code = exit.code
    shown = capsys.readouterr().err
    errors = [line for line in shown.splitlines() if "error: " in line]
    assert code == 2 and "Traceback" not in shown
    assert len(errors) == 1 and shown.strip().splitlines()[-1] == errors[0], shown
    return errors[0]


def check_refusal(capsys, code, *parts):
    """Check that a command said nothing but one line, which has these parts."""
    shown = capsys.readouterr()
    assert code == 2 and shown.out == ""
    assert shown.err.startswith("omegamax ") and ": error: " in shown.err and shown.err.count("\n") == 1
    assert all(str(part) in shown.err for part in parts), shown.err
