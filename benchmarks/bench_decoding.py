"""One token at a time over a long past, on the CPU: a cache in pages that proves what it left out beside all keys.

Writes ``results/decoding_cpu.csv`` and ``.md``.

    python benchmarks/bench_decoding.py
"""

from __future__ import annotations

from collections.abc import Callable

import _runner
import torch

from omegamax import Tsallis, attention
from omegamax.nn import PagedCache

HEADS, DIM, PAGE = 8, 64, 64
LENGTHS = [1 << n for n in (12, 14, 16, 18)]
ALPHAS = (1.25, 1.5, 2.0)
SHARP = {"flat": 1.0, "sharp": 3.0}  # what queries are multiplied by: their scores have this standard deviation


@torch.no_grad()
def make_rivals(length: int, sharp: float) -> tuple[dict[str, Callable[[], object]], dict[str, float]]:
    """Return the ways to attend to so many independent keys, and the share of the pages that each has to read."""
    torch.manual_seed(0)
    k, v = (torch.randn(1, HEADS, length, DIM) for _ in range(2))
    q = sharp * torch.randn(1, HEADS, 1, DIM)
    cache = PagedCache(PAGE)
    cache.append(k, v)
    shares = {"softmax": 1.0}

    def attend(transform: str | Tsallis, **given: object) -> object:
        with torch.no_grad():
            return attention(q, *((None, None) if given else (k, v)), transform, **given)  # type: ignore[arg-type]

    rivals: dict[str, Callable[[], object]] = {"softmax": lambda: attend("softmax")}
    for alpha in ALPHAS:
        name, transform = f"alpha {alpha:g}", Tsallis(alpha)
        rivals[f"{name}, all keys"] = lambda t=transform: attend(t)  # type: ignore[misc]
        rivals[name] = lambda t=transform: attend(t, cache=cache)  # type: ignore[misc]
        _, certificate = attention(q, transform=transform, cache=cache)
        assert bool(certificate.holds.all())
        shares |= {f"{name}, all keys": 1.0, name: float(certificate.share.mean())}
    return rivals, shares


def main() -> None:
    """Time all, and write the files."""
    torch.set_num_threads(1)
    _runner.keep_memory()
    rows = []
    for kind, sharp in SHARP.items():
        for length in LENGTHS:
            rivals, shares = make_rivals(length, sharp)
            times = _runner.interleave(rivals, rounds=25, calls=1, patience=15.0)
            for name, taken in times.items():
                row = {"scores": kind, "keys": length, "map": name, "share": round(shares[name], 4)}
                rows.append({**row, "milliseconds": round(1e3 * min(taken), 3)})
    path = _runner.write_csv("decoding_cpu", rows)
    path.with_suffix(".md").write_text(describe(rows), encoding="utf-8")


def describe(rows: list[dict]) -> str:
    """Return the table: milliseconds, over those of softmax, and the share of pages read."""
    lines = [
        f"One query of {HEADS} heads to independent keys of {DIM} features, float32, in pages of {PAGE}; flat and "
        f"sharp scores have a standard deviation of {' and '.join(f'{each:g}' for each in SHARP.values())}. Time over "
        "softmax to all keys (the least of up to 25); with a cache, the share of the pages that was read.",
        f"{_runner.machine()}.",
        "",
    ]
    names = [f"alpha {alpha:g}" for alpha in ALPHAS]
    head = [each for name in names for each in (f"{name}, all keys", f"{name}, cache")]
    lines += ["| scores | keys | softmax, ms | " + " | ".join(head) + " |", "|---|---:|---:|" + "---:|" * len(head)]
    for kind in SHARP:
        for length in LENGTHS:
            mine = {row["map"]: row for row in rows if (row["scores"], row["keys"]) == (kind, length)}
            base = mine["softmax"]["milliseconds"]
            cells = []
            for name in names:
                dense, cached = mine[f"{name}, all keys"], mine[name]
                cells.append(f"{dense['milliseconds'] / base:.2f}")
                cells.append(f"{cached['milliseconds'] / base:.2f} ({100 * cached['share']:.1f} %)")
            lines.append(f"| {kind} | {length:,} | {base:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
