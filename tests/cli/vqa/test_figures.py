"""``omegamax vqa figures``: files from a comparison, and what is none."""

from dataclasses import replace

from tasks.vqa.report.cases import comparison

from omegamax.cli.main import main


def test_figures_are_written_beside_the_comparison_or_where_they_are_wanted(tmp_path, capsys):
    given = comparison()
    replace(given, examples=given.examples[:1]).save(tmp_path / "comparison.json")
    assert main(["vqa", "figures", str(tmp_path), "--rows", "1"]) == 0
    names = ["kinds.png", "components.png", "agreement.png"]
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "figures" / name) for name in names]
    file, out = tmp_path / "comparison.json", tmp_path / "elsewhere"
    assert main(["vqa", "figures", str(file), "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == sorted(names)


def test_what_is_no_comparison_or_has_no_examples_is_named(tmp_path, capsys):
    for write, why in (
        (lambda path: None, "does not exist; give a folder that `omegamax vqa compare` wrote"),
        (lambda path: path.write_text("{}"), "is not a saved comparison"),
        (lambda path: replace(comparison(), examples=[]).save(path), "has no examples; compare with --examples"),
    ):
        write(tmp_path / "comparison.json")
        assert main(["vqa", "figures", str(tmp_path)]) == 2
        assert why in capsys.readouterr().err
