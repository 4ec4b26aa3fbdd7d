"""From the sheet to Markdown: ``results/gpu-<name>.md``, and between markers ``docs/gpu.md`` and the README."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import _runner

from on_gpu.cells import (
    PRECISIONS,
    Row,
    drop_empty,
    failures,
    find,
    joined,
    line,
    number,
    pair,
    scientific,
    titles,
    unique,
    ways,
)
from on_gpu.peers import NAMES as PEERS

PROMISED = ("contract_rows", "contract_losses", "contract_attention", "compilation", "models", "first")
ROOT = Path(__file__).parents[2]


def newest(results: Path, name: str | None) -> Path:
    """The CSV of a GPU, or of the last run."""
    found = sorted(results.glob(f"gpu-{name or '*'}.csv"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SystemExit(f"gpu.py: no {results}/gpu-{name or '*'}.csv to make tables of")
    return found[-1]


def broken(rows: list[Row]) -> list[Row]:
    """Contracts that were not kept. What misses only what it aims at, in time, is none."""
    return [row for row in rows if row["ok"] == "no" and not row["bar"]]


def kept(rows: list[Row]) -> int:
    return sum(row["ok"] == "yes" and not row["bar"] for row in rows)


def write(path: Path, rows: list[Row], into_pages: bool) -> None:
    parts = {name: make(rows) for name, make in PARTS.items()}
    heads = {name: head(rows, SECTIONS[name]) for name in PARTS}
    titled = [
        f"## {TITLES[name]}\n\n{heads[name]}\n\n{text}" for name, text in parts.items() if name != "summary" and text
    ]
    path.with_suffix(".md").write_text("\n\n".join(titled) + "\n")
    if not into_pages:
        return
    for page, names in PAGES.items():
        text = (ROOT / page).read_text() if (ROOT / page).exists() else ""
        for name in names:
            if f"<!-- gpu-{name}:begin -->" in text:
                table = f"{heads[name]}\n\n{parts[name]}" if parts[name] else "Not measured yet."
                _runner.write_between(ROOT / page, f"gpu-{name}", table)


def head(rows: list[Row], section: str) -> str:
    """One line that says where the numbers of a section come from."""
    machines = [row for row in rows if row["section"] == "machine"]
    facts = {row["name"]: row["note"] for row in machines if section in row["work"].split()}
    versions = (f"{name} {facts[name]}" for name in ("torch", "triton", *PEERS) if name in facts)
    return f"{facts.get('gpu', 'GPU')}, {', '.join(versions)}; {facts.get('date', '')}."


def summary(rows: list[Row]) -> str:
    """The README's table: forward and forward+backward at the shapes that matter, beside the peers."""
    lines = [*titles("work", "shape", *PEERS, "omegamax", "aim")]
    for work, shape, way in SUMMARY_ROWS:
        lines += line(rows, work, shape, way, (f"{work}, {way}", shape.replace("x", " x ")))
    for setting in ("causal", "full"):
        for work in ("entmax(1.5)", "entmax(2)"):
            cells = [ways(rows, work, "2x16x8192x64", setting, name) for name in (*PEERS, "omegamax")]
            if any(cells):
                aims = ways(rows, work, "2x16x8192x64", setting, "omegamax", "bar")
                title = f"attention, {setting}, {work}, forward / forward+backward"
                lines.append(joined(title, "2 x 16 x 8192 x 64", *cells, aims))
    return "\n".join(drop_empty(lines)) if len(lines) > 2 else ""


def row_maps(rows: list[Row]) -> str:
    """Three tables, one for each way."""
    parts = []
    for way in ("forward", "backward", "forward+backward"):
        mine = [row for row in rows if row["section"] == "rows" and row["way"] == way]
        columns = ("map", "rows x size", "`torch.softmax`, us", *PEERS, "omegamax", "aim", "omegamax, its call")
        lines = [*titles(*columns)]
        for shape in unique(row["shape"] for row in mine):
            dense = " / ".join(
                f"{1e3 * float(r['ms'] or 'nan'):.0f}"
                for dtype in PRECISIONS
                for r in find(mine, "softmax", shape, dtype, "torch")
            )
            for work in unique(row["work"] for row in mine if row["shape"] == shape and row["name"] == "omegamax"):
                first = (work, shape.replace("x", " x "), dense)
                lines += line(rows, work, shape, way, first, call=True)
        if len(lines) > 2:
            parts.append(f"**{way.capitalize()}**, float32 / bfloat16:\n\n" + "\n".join(drop_empty(lines)))
    return "\n\n".join([*parts, *failures(rows, "rows")])


def errors(rows: list[Row]) -> str:
    """Largest error of the maps, on the input that was timed."""
    mine = [row for row in rows if row["section"] == "rows" and row["way"] == "forward" and row["shape"] == "8192x4096"]
    lines = [*titles("map", *PEERS, "omegamax")]
    for work in unique(row["work"] for row in mine if row["name"] == "omegamax"):
        cells = [pair(mine, work, "8192x4096", name, "error", scientific) for name in (*PEERS, "omegamax")]
        lines.append(joined(work, *cells))
    return "\n".join(drop_empty(lines)) if len(lines) > 2 else ""


def attention(rows: list[Row]) -> str:
    mine = [row for row in rows if row["section"] == "attention"]
    columns = ("attention", "shape", "map", "FlashAttention, ms")
    columns += ("torch", "adasplash", "omegamax", "aim", "its call", "MiB")
    lines = [*titles(*columns)]
    settings = unique((row["way"].rsplit(", ", 1)[0], row["shape"]) for row in mine)
    for setting, shape in settings:
        for work in unique(r["work"] for r in mine if r["shape"] == shape and r["way"].startswith(f"{setting}, forw")):
            if work == "softmax" and not ways(rows, work, shape, setting, "omegamax"):
                continue
            dense = ways(rows, "softmax", shape, setting, "torch", "ms")
            names = ("torch", "adasplash", "omegamax")
            cells = [ways(rows, work, shape, setting, name) for name in names]
            cells.append(ways(rows, work, shape, setting, "omegamax", "bar"))
            cells.append(ways(rows, work, shape, setting, "omegamax", "call_over"))
            memory = ways(rows, work, shape, setting, "omegamax", "peak_mib")
            lines.append(joined(setting, shape.replace("x", " x "), work, dense, *cells, memory))
    return "\n\n".join(["\n".join(drop_empty(lines)), *failures(rows, "attention")]) if len(lines) > 2 else ""


def decoding(rows: list[Row]) -> str:
    """One line for each length and map: the share of pages read, and time over FlashAttention's."""
    mine = [row for row in rows if row["section"] == "decoding" and row["work"] != "all"]
    titled = ("keys", "shape", "map", "share of pages read", "FlashAttention, ms", "over it", "all keys, over it")
    lines = [*titles(*titled)]
    found = {(row["way"], row["shape"], row["work"]): row for row in mine}
    for (way, shape, work), row in found.items():
        whole = found.get((way, shape, f"{work}, all keys"))
        if whole is None:
            continue
        dense = found[way, shape, "softmax"]["ms"]
        cells = [number(cell) if cell else "fails" for cell in (dense, row["over"], whole["over"])]
        share = row["note"] if row["ms"] else ""
        lines.append(joined(way.removesuffix(" keys"), shape.replace("x", " x "), work, share, *cells))
    return "\n\n".join(["\n".join(lines), *failures(rows, "decoding")]) if len(lines) > 2 else ""


def losses(rows: list[Row]) -> str:
    mine = [row for row in rows if row["section"] == "losses" and row["work"] != "all"]
    lines = [*titles("loss", "tokens x (width x) vocabulary", "dtype", "by", "ms", "over cross-entropy", "MiB", "")]
    for row in mine:
        over = number(row["over"]) if row["over"] else "fails"
        peak = f"{float(row['peak_mib']):,.0f}" if row["peak_mib"] else ""
        shape = row["shape"].replace("x", " x ")
        lines.append(joined(row["work"], shape, row["dtype"], row["name"], row["ms"], over, peak, row["note"]))
    return "\n\n".join(["\n".join(lines), *failures(rows, "losses")]) if mine else ""


def contracts(rows: list[Row]) -> str:
    """One line for each work: how many promises, how many kept, and how near the worst came to its limit."""
    mine = [row for row in rows if row["section"] in PROMISED and row["ok"] and row["work"] != "all"]
    lines = [*titles("work", "contracts", "kept", "worst error in float32", "nearest to a limit")]
    for work in unique(row["work"] for row in mine):
        own = [row for row in mine if row["work"] == work]
        full = [float(row["error"]) for row in own if row["error"] and row["dtype"] == "float32"]
        shares = [float(r["error"]) / float(r["limit"]) for r in own if r["error"] and float(r["limit"] or 0) > 0]
        worst = f"{max(full):.1e}" if full else ""
        near = f"{max(shares):.2f}" if shares else ""
        lines.append(joined(work, str(len(own)), str(sum(r["ok"] == "yes" for r in own)), worst, near))
    lost = broken(mine)
    said = [f"{sum(row['ok'] == 'yes' for row in mine)} of {len(mine)} contracts kept."]
    said += [f"Broken: {r['work']} {r['dtype']} {r['way']}: {r['error']} > {r['limit']} {r['note']}" for r in lost]
    return "\n".join([*lines, "", "  \n".join(said)]) if mine else ""


def programs(rows: list[Row]) -> str:
    """First calls and whole models."""
    first = [row for row in rows if row["section"] == "first" and row["error"]]
    lines = [*titles("first call", "size", "", "seconds")]
    lines += [joined(row["work"], row["shape"], row["way"], row["error"]) for row in first]
    models = [row for row in rows if row["section"] == "model_speed" and row["name"] == "omegamax" and row["shape"]]
    more = [*titles("model", "shape", "way", "over torch's attention")]
    more += [joined(r["work"], r["shape"], r["way"], number(r["over"]) if r["over"] else r["note"]) for r in models]
    return "\n\n".join("\n".join(part) for part in (lines, more) if len(part) > 2)


def goals(rows: list[Row]) -> str:
    """A line for each goal: what it takes now, beside the rivals, the aim, and what it took when the aim was set."""
    lines = [*titles("work", "shape", "dtype", "way", "rivals, ms", "omegamax, ms", "now", "aim", "met", "before")]
    beside: list[str] = []
    for row in (row for row in rows if row["section"] == "goals"):
        unit, goal, before = row["note"].partition("; before ")
        if row["name"] != "omegamax" or not (goal or row["note"]):
            beside.append(f"{row['work']} by {row['name']} {row['ms'] or row['note']}")
            continue
        now = {"over": row["over"], "ms": row["ms"], "MiB": row["peak_mib"]}.get(unit, "")
        found = f"{number(now)} {unit.removeprefix('over')}".strip() if now else ""
        cells = (", ".join(beside), row["ms"] or row["note"], found, row["bar"], row["ok"], before)
        lines.append(joined(row["work"], row["shape"].replace("x", " x "), row["dtype"], row["way"], *cells))
        beside = []
    return "\n".join(lines) if len(lines) > 2 else ""


PARTS: dict[str, Callable[[list[Row]], str]] = {
    "summary": summary,
    "contracts": contracts,
    "rows": row_maps,
    "errors": errors,
    "attention": attention,
    "decoding": decoding,
    "losses": losses,
    "programs": programs,
    "goals": goals,
}
# The section whose machine stands above a table, where it has rows of several.
SECTIONS = {
    "summary": "rows",
    "contracts": "contract_rows",
    "rows": "rows",
    "errors": "contract_rows",
    "attention": "attention",
    "decoding": "decoding",
    "losses": "losses",
    "programs": "first",
    "goals": "goals",
}
TITLES = {
    "contracts": "Contracts",
    "rows": "Maps of rows",
    "errors": "Their errors",
    "attention": "Attention",
    "decoding": "Decoding with a paged cache",
    "losses": "Losses",
    "programs": "First calls and models",
    "goals": "Goals",
}
PAGES = {"docs/gpu.md": tuple(TITLES), "README.md": ("summary",)}
SUMMARY_ROWS = [
    *((work, "8192x4096", "forward") for work in ("sparsemax", "entmax15", "entmax(4/3)")),
    *(("entmax15", shape, "forward") for shape in ("32768x512", "65536x128", "2048x32768", "512x131072")),
    *(("entmax15", shape, "forward+backward") for shape in ("8192x4096", "65536x128", "512x131072")),
]
