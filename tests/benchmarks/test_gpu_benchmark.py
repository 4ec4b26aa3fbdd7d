"""benchmarks/gpu.py without a GPU: its promises can be broken, its tables say what the rows say, it rehearses."""

from __future__ import annotations

import csv
import importlib
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import omegamax
from omegamax.kernels import _dispatch

FOLDER = Path(__file__).parents[2] / "benchmarks"
PARTS = (
    "attention",
    "clock",
    "contract_attention",
    "contract_losses",
    "contract_rows",
    "goals",
    "losses",
    "pool",
    "rows",
    "sheet",
    "tables",
)


@pytest.fixture(scope="module")
def parts():
    """The parts as modules, on the CPU even where there is a GPU."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(f"on_gpu.{name}") for name in PARTS})
    finally:
        sys.path.remove(str(FOLDER))


@pytest.fixture
def sheet(parts, tmp_path):
    return parts.sheet.Sheet(tmp_path / "sheet.csv", section="contracts")


def test_a_sheet_holds_every_row_from_the_moment_it_is_known(parts, sheet):
    sheet.contract(1e-8, 1e-7, work="a", note="one, two")
    sheet.contract(math.nan, 1.0, work="b")
    with sheet.kept(work="c"):
        raise ValueError("first line\nsecond")
    with pytest.raises(ValueError, match="no column colour"):
        sheet.add(colour="red")
    rows = parts.sheet.read(sheet.path)
    assert [tuple(row) for row in rows] == [parts.sheet.COLUMNS] * 3
    assert [(row["section"], row["work"], row["ok"]) for row in rows] == [
        ("contracts", "a", "yes"),
        ("contracts", "b", "no"),
        ("contracts", "c", "no"),
    ]
    assert (rows[0]["error"], rows[0]["note"], rows[2]["note"]) == ("1e-08", "one, two", "ValueError: first line")


def test_rivals_are_timed_in_turns_and_one_that_fails_does_not_stop_the_others(parts):
    calls = []

    def fails():
        raise RuntimeError("does not compile")

    clock = parts.clock.Clock("cpu", 0.001, rounds=(3, 3))
    rivals = {"base": lambda: calls.append("base"), "bad": fails, "other": lambda: calls.append("other")}
    readings = clock.compare(rivals, "base")
    assert readings["base"].over == 1 and readings["other"].over > 0
    assert math.isnan(readings["bad"].ms) and readings["bad"].note == "RuntimeError: does not compile"
    assert calls[-6:] == ["base", "other"] * 3


@pytest.mark.parametrize("name", ["sparsemax", "entmax(alpha of each row)", "k_subsets(at most 3)", "fusedmax(0.2)"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_row_contracts_are_kept(parts, sheet, name: str, dtype: str):
    parts.contract_rows.check(
        sheet, name, dtype, "cpu", ("short", "ties", "-inf", "NaN and +inf", "one entry", "no rows")
    )
    rows = parts.sheet.read(sheet.path)
    assert len(rows) >= 8 and all(row["ok"] == "yes" for row in rows)


@pytest.mark.parametrize(
    ("wrong", "broken"),
    [
        (lambda z: omegamax.sparsemax(z) + 1e-6, "probabilities"),
        (lambda z: omegamax.sparsemax(z).nan_to_num(0.5), "probabilities"),
        (lambda z: omegamax.sparsemax(z).detach() + 0 * z, "gradient"),
        (lambda z: omegamax.sparsemax(z).double(), "dtype"),
    ],
    ids=["values", "NaN", "gradient", "dtype"],
)
def test_row_contracts_can_be_broken(parts, sheet, monkeypatch, wrong, broken: str):
    def ours(z):
        return omegamax.sparsemax(z) if _dispatch.current_backend() == "reference" else wrong(z)

    monkeypatch.setitem(parts.contract_rows.MAPS, "sparsemax", ours)
    parts.contract_rows.check(sheet, "sparsemax", "float32", "cpu", ("-inf", "NaN and +inf"))
    lost = [row["way"] for row in parts.sheet.read(sheet.path) if row["ok"] == "no"]
    assert any(broken in way for way in lost)


def test_every_map_belongs_to_one_kernel(parts):
    kinds = parts.contract_rows.KINDS.values()
    assert sorted(name for names in kinds for name in names) == sorted(parts.contract_rows.MAPS)


@pytest.mark.parametrize("name", ["entmax_loss(1.25)", "entmax_loss(alpha of each row)"])
def test_loss_contracts_are_kept(parts, sheet, name: str):
    parts.contract_losses.check(sheet, name, "float32", "cpu", ("-inf", "two"))
    parts.contract_losses.check_linear(sheet, "bfloat16", "cpu", tokens=30, classes=40)
    rows = parts.sheet.read(sheet.path)
    assert len(rows) > 40 and all(row["ok"] == "yes" for row in rows)


@pytest.mark.parametrize(
    "name", ["lengths", "window", "window to both sides", "alibi", "mask", "causal with bias", "decoding", "one key"]
)
def test_attention_contracts_are_kept(parts, sheet, name: str):
    for dtype in ("float32", "bfloat16"):
        parts.contract_attention.check(sheet, name, dtype, "cpu")
    rows = parts.sheet.read(sheet.path)
    assert len(rows) == 8 and all(row["ok"] == "yes" for row in rows)


def test_contracts_of_sinks_are_kept(parts, sheet):
    parts.contract_attention.check_sinks(sheet, "cpu", queries=20)
    rows = parts.sheet.read(sheet.path)
    assert len(rows) == 10 and all(row["ok"] == "yes" for row in rows)


def test_plain_attention_sees_what_it_should(parts):
    q, k = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 7, 8)
    z = parts.contract_attention.scores(q, k, is_causal=True, window=1, offset=2)
    seen = [[j for j in range(7) if z[0, 0, i, j] > -math.inf] for i in range(5)]
    assert seen == [[1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]
    assert torch.allclose(z[0, 3, 4, 6], q[0, 3, 4] @ k[0, 1, 6] / math.sqrt(8))


def end_the_process(sheet) -> None:
    os._exit(3)


def leave_a_row(sheet, work: str) -> None:
    if work == "bad":
        raise ValueError("bad")
    sheet.contract(0.0, 1.0, work=work)


def test_jobs_outlive_those_that_fail(parts, tmp_path):
    """One raises, one takes its process with it, one is never finished: each leaves a row, and the others run."""
    jobs = [parts.pool.Job("contracts", __name__, "leave_a_row", (work,)) for work in ("a", "bad")]
    jobs += [parts.pool.Job("contracts", __name__, "end_the_process")]
    jobs += [parts.pool.Job("contracts", __name__, "leave_a_row", ("b",))]
    said: list[str] = []
    parts.pool.work_through(jobs, tmp_path, 1, 60.0, said.append)
    rows = [row for path in tmp_path.glob("contracts-*.csv") for row in parts.sheet.read(path)]
    found = {row["work"]: (row["ok"], row["note"].split(":")[0]) for row in rows}
    assert found == {
        "a": ("yes", ""),
        "leave_a_row bad": ("no", "ValueError"),
        "end_the_process": ("no", "not finished"),
        "b": ("yes", ""),
    }
    assert said == ["a process ended with status 3; another takes over", "not finished: end_the_process"]


def row(parts, **known: object) -> dict[str, str]:
    return {column: str(known.get(column, "")) for column in parts.sheet.COLUMNS}


def measured(parts) -> list[dict[str, str]]:
    """A sheet with something of everything."""
    rows = [
        row(parts, section="machine", work="rows losses", name=name, note=note)
        for name, note in (("gpu", "NVIDIA X1"), ("torch", "9.9"))
    ]
    for dtype in ("float32", "bfloat16"):
        here = {"section": "rows", "shape": "8192x4096", "dtype": dtype, "way": "forward"}
        rows += [
            row(parts, **here, work="softmax", name="torch", ms=0.1, over=1),
            row(parts, **here, work="entmax15", name="omegamax", ms=0.05, over=0.5, bar=0.45, ok="no", error=1e-7),
            row(parts, **here, work="entmax15", name="entmax", ms=2, over=20),
            row(parts, **here, work="entmax15", name="adasplash", note="CompilationError: at 1:2"),
        ]
    for way in ("forward", "forward+backward"):
        here = {"section": "attention", "shape": "2x16x8192x64", "dtype": "bfloat16", "way": f"causal, {way}"}
        rows.append(row(parts, **here, work="softmax", name="torch", ms=1, over=1))
        rows.append(row(parts, **here, work="softmax (cuDNN)", name="torch", ms=0.9, over=0.9))
        rows.append(
            row(parts, **here, work="entmax(1.5)", name="omegamax", ms=1.2, over=1.2, bar=1.5, ok="yes", peak_mib=7)
        )
    here = {"section": "decoding", "shape": "1x32/8x1:8192x128", "dtype": "bfloat16", "way": "drifting keys"}
    rows.append(row(parts, **here, work="softmax", name="torch", ms=0.5, over=1))
    rows.append(row(parts, **here, work="entmax(1.5)", name="omegamax", ms=0.25, over=0.5, note="0.125"))
    rows.append(row(parts, **here, work="entmax(1.5), all keys", name="omegamax", ms=0.6, over=1.2))
    rows.append(
        row(parts, section="losses", work="entmax15", shape="8x9", name="omegamax", ms=3, over=1.1, peak_mib=1234)
    )
    rows.append(row(parts, section="first", work="map", shape="10", way="w", error=1.5, limit=5, ok="yes"))
    rows.append(
        row(parts, section="contract_rows", work="sparsemax", dtype="float32", way="flat", error=2, limit=1, ok="no")
    )
    return rows


def test_tables_say_what_the_rows_say(parts):
    rows = measured(parts)
    tables = parts.tables
    assert [r["work"] for r in tables.broken(rows)] == ["sparsemax"]  # a missed aim breaks nothing
    assert tables.kept(rows) == 1
    assert "| entmax15 | 8192 x 4096 | 100 / 100 | 20 / 20 | fails / fails | 0.50* / 0.50* |" in tables.row_maps(rows)
    assert "Fails: adasplash, entmax15, 8192x4096, float32, forward: CompilationError: at 1:2" in tables.row_maps(rows)
    ours = "| causal | 2 x 16 x 8192 x 64 | entmax(1.5) | 1.00 / 1.00 |  | 1.20 / 1.20 | 1.5 / 1.5 | 7 / 7 |"
    assert ours in tables.attention(rows)
    assert "| softmax (cuDNN) | 1.00 / 1.00 | 0.90 / 0.90 |" in tables.attention(rows)
    ours = "| drifting | 1 x 32/8 x 1:8192 x 128 | entmax(1.5) | 0.125 | 0.50 | 0.50 | 1.20 |"
    assert ours in tables.decoding(rows)
    ours = "| entmax15, forward | 8192 x 4096 | 20 / 20 | fails / fails | 0.50* / 0.50* | 0.45 / 0.45 |"
    assert ours in tables.summary(rows)
    assert "liger" not in tables.summary(rows) + tables.row_maps(rows)  # no row of it, and no column
    assert "1,234" in tables.losses(rows)
    assert "1 of 2 contracts kept." in tables.contracts(rows)
    assert "Broken: sparsemax float32 flat: 2 > 1" in tables.contracts(rows)
    assert tables.head(rows, "rows").startswith("NVIDIA X1, torch 9.9")
    assert "NVIDIA X1" not in tables.head(rows, "goals")  # measured on another machine


def test_tables_go_between_their_markers(parts, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    for page, names in parts.tables.PAGES.items():
        places = "".join(f"<!-- gpu-{name}:begin -->\nold\n<!-- gpu-{name}:end -->\n" for name in names)
        (tmp_path / page).write_text(f"before\n{places}after\n")
    monkeypatch.setattr(parts.tables, "ROOT", tmp_path)
    parts.tables.write(tmp_path / "gpu-x1.csv", measured(parts), into_pages=True)
    readme, docs = ((tmp_path / page).read_text() for page in ("README.md", "docs/gpu.md"))
    assert "0.50*" in readme and "old" not in readme and readme.startswith("before") and readme.endswith("after\n")
    assert "## Maps of rows" in (tmp_path / "gpu-x1.md").read_text()
    assert "1,234" in docs and "1,234" not in readme


def test_tables_of_the_pages_are_those_of_the_rows(parts, tmp_path, monkeypatch):
    root = FOLDER.parent
    made = tmp_path / "gpu-h200.csv"
    (tmp_path / "docs").mkdir()
    for page in parts.tables.PAGES:
        (tmp_path / page).write_text((root / page).read_text())
    monkeypatch.setattr(parts.tables, "ROOT", tmp_path)
    parts.tables.write(made, parts.sheet.read(FOLDER / "results" / made.name), into_pages=True)
    assert made.with_suffix(".md").read_text() == (FOLDER / "results" / "gpu-h200.md").read_text()
    for page in parts.tables.PAGES:
        assert (tmp_path / page).read_text() == (root / page).read_text()


@pytest.mark.parametrize("page", ["docs/gpu.md"])
def test_page_has_a_place_for_each_table(parts, page: str):
    text = (FOLDER.parent / page).read_text()
    for name in parts.tables.PAGES[page]:
        assert text.count(f"<!-- gpu-{name}:begin -->") == text.count(f"<!-- gpu-{name}:end -->") == 1


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(FOLDER / "gpu.py"), *arguments]
    return subprocess.run(command, env=hidden, capture_output=True, text=True, timeout=600)


def test_without_a_gpu_it_says_so():
    done = run()
    assert done.returncode == 2 and "no GPU here" in done.stderr


@pytest.mark.slow
def test_rehearsal_goes_through_everything(parts, tmp_path):
    done = run("--scale", "tiny", "--results", str(tmp_path), "--workers", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "gpu-none.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    sections = list(dict.fromkeys(row["section"] for row in rows))
    contracts = ["contract_rows", "contract_losses", "contract_attention"]
    timed = ["rows", "attention", "decoding", "losses", "first", "model_speed"]
    assert sections == ["machine", *contracts, "compilation", "models", *timed]
    assert (tmp_path / "gpu-none.md").read_text().count("## ") == 6
    # The tables can be made again; a section that is run again takes the place of its old rows.
    assert run("--tables", "--results", str(tmp_path)).returncode == 0
    assert run("--scale", "tiny", "--only", "losses", "--results", str(tmp_path)).returncode == 0
    again = parts.sheet.read(tmp_path / "gpu-none.csv")
    measured = [[r["section"] for r in each if r["section"] != "machine"] for each in (again, rows)]
    assert measured[0] == measured[1]
    machines = {r["work"] for r in again if r["section"] == "machine"}
    assert machines == {"losses", " ".join(section for section in rows[0]["work"].split() if section != "losses")}


def test_goals_are_measured_line_by_line(parts, sheet, monkeypatch):
    """One in milliseconds, one over softmax, one whose rival is not here, one that fails."""
    found = {goal.title: goal for goal in parts.goals.cases("tiny")}
    ways = " float32 forward"
    titles = [f"fusedmax 4x9{ways}+backward", f"k_subsets(8) 4x16{ways}"]
    some = [found[title] for title in titles]
    broken = some[1]

    def rival_fails() -> dict:
        raise ImportError("no such library")

    def ours_fails() -> dict:
        return {**broken.make(), broken.ours: rival_fails}

    some += [type(broken)(**{**vars(broken), "make": make}) for make in (rival_fails, ours_fails)]
    monkeypatch.setattr(parts.goals, "cases", lambda scale: some)
    said = list(parts.goals.measure(sheet, "tiny"))
    assert len(said) == 4 and said[2].endswith("ImportError: no such library")
    rows = parts.sheet.read(sheet.path)
    assert [row["name"] for row in rows] == [
        "omegamax",
        "omegamax",
        "torch",
        "omegamax",
        "omegamax",
        "torch",
        "omegamax",
    ]
    assert rows[1]["bar"] == "1" and rows[1]["ok"] in ("yes", "no") and rows[1]["note"] == "ms; before 12 ms"
    assert rows[4]["ok"] == "" and rows[6]["ok"] == "no" and rows[6]["note"] == "ImportError: no such library"
    lines = parts.tables.goals([{**row, "section": "goals"} for row in rows]).splitlines()
    assert len(lines) == 6 and lines[2].startswith("| fusedmax | 4 x 9 | float32 | forward+backward | through the host")
    assert lines[3].endswith(" | 450-970 |") and " | 1.5 | " in lines[3]
    assert "ImportError: no such library" in lines[4] and "softmax by torch" in lines[5]


def test_every_line_of_the_goals_has_an_aim_or_says_why_not(parts):
    """Lines without an aim compare distributions of scores with other libraries."""
    for goal in parts.goals.cases("full"):
        assert goal.aim is not None or goal.dtype == "bfloat16"
        assert goal.unit in ("over", "ms", "MiB") and goal.ours != goal.baseline
