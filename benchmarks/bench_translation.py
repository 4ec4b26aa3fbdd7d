"""A training step of the transformer that translates with entmax beside softmax, and sentences translated a second.

Writes ``results/translation_cpu.csv`` and ``.md``, with ``--device cuda`` ``results/translation_cuda.csv`` and ``.md``.

    python benchmarks/bench_translation.py
    python benchmarks/bench_translation.py --device cuda
"""

from __future__ import annotations

import argparse
import os
import statistics
from typing import Any

import _runner
import torch

from omegamax.data.translation import EOS, UNK
from omegamax.models.translation import TokenOutputConfig, TranslatorConfig, make_translator
from omegamax.tasks.captured import CapturedStep
from omegamax.tasks.translation.search import SearchConfig, search_tokens

LENGTHS = {"cpu": 16, "cuda": 22}  # about those of Multi30k, in subwords
TOKENS = {"cpu": 512, "cuda": 4096}
SIZES: dict[str, Any] = {"source": 4000, "target": 4000, "joint": True, "dim": 256, "hidden_dim": 512, "layers": 3}
KINDS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "entmax15 attention": {"attention": "entmax15"},
    "entmax15 output": {"output": TokenOutputConfig("entmax15")},
    "entmax15 attention and output": {"attention": "entmax15", "output": TokenOutputConfig("entmax15")},
    "sparsemax output": {"output": TokenOutputConfig("sparsemax")},
    "learnt alphas": {"attention": "entmax", "learn_alpha": True},
}
STEPS = {"cpu": 1, "cuda": 10}  # of a reading
SENTENCES, BEAM, WRITTEN = {"cpu": 8, "cuda": 256}, 5, 20


class Step:
    """One training step: forward, backward, Adam."""

    def __init__(self, kind: dict[str, Any], device: str) -> None:
        torch.manual_seed(0)
        self.model = make_translator(TranslatorConfig(**SIZES, **kind)).to(device).train()
        self.model.output.chunk = TOKENS[device]
        gpu = device == "cuda"
        self.adam = torch.optim.Adam(self.model.parameters(), 1e-4, fused=gpu, capturable=gpu)
        self.device = device
        length = LENGTHS[device]
        tokens = torch.randint(UNK + 1, SIZES["source"], (TOKENS[device] // length, length))
        tokens[:, -1] = EOS
        tokens[::4, -3:] = torch.tensor([EOS, 0, 0])  # some are shorter
        self.batch = tokens.to(device), tokens.flip(0).to(device)

    def step(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Take the step."""
        self.adam.zero_grad(set_to_none=True)
        self.model.loss({"source": source, "target": target}).backward()
        self.adam.step()

    def __call__(self) -> None:
        for _ in range(STEPS[self.device]):
            self.step(*self.batch)
        if self.device == "cuda":
            torch.cuda.synchronize()


class Replay(Step):
    """The same, replayed from a CUDA graph."""

    def __init__(self, kind: dict[str, Any], device: str) -> None:
        super().__init__(kind, device)
        self.graph = CapturedStep(super().step, self.batch, self.adam)

    def step(self, source: torch.Tensor, target: torch.Tensor) -> None:
        self.graph(source, target)


class Search:
    """Translations of some sentences by a beam, as long for all: no network ends them early.

    They are drawn by an untrained network with scores that are made larger, so that few words can follow where a map is
    sparse, as it is with trained ones.
    """

    def __init__(self, kind: dict[str, Any], device: str) -> None:
        torch.manual_seed(0)
        self.model = make_translator(TranslatorConfig(**SIZES, **kind)).to(device).eval()
        with torch.no_grad():
            assert self.model.output.bias is not None
            self.model.output.bias[EOS] = -1e4
        self.device = device
        shape = (SENTENCES[device], LENGTHS[device])
        self.source = torch.randint(UNK + 1, SIZES["source"], shape).to(device)

    def __call__(self) -> None:
        search_tokens(self.model, self.source, SearchConfig(BEAM, max_length=WRITTEN, temperature=0.1))
        if self.device == "cuda":
            torch.cuda.synchronize()


def race(device: str, rounds: int) -> list[dict[str, Any]]:
    """Milliseconds of a step, and of a search, of each kind, and over those of softmax."""
    rows = []
    contests: dict[str, Any] = {"step": (Step, STEPS[device]), "search": (Search, 1)}
    if device == "cuda":
        contests["replayed step"] = Replay, STEPS[device]
    for what, (make, count) in contests.items():
        rivals = {name: make(kind, device) for name, kind in KINDS.items()}
        for rival in rivals.values():
            rival()  # kernels are compiled
        times = _runner.interleave(rivals, rounds, 1, patience=60.0)  # type: ignore[arg-type]
        for name in KINDS:
            row: dict[str, Any] = {"what": what, "network": name}
            row["ms"] = round(statistics.median(times[name]) / count * 1e3, 2)
            row["over_softmax"] = round(_runner.ratio(times[name], times["softmax"]), 3)
            rows.append(row)
            print(row, flush=True)
    return rows


def table(rows: list[dict[str, Any]], device: str, where: str) -> str:
    """Markdown: steps, then searches."""
    contests = list(dict.fromkeys(row["what"] for row in rows))
    lines = [
        f"{where}. A transformer of {SIZES['layers']} layers, D = {SIZES['dim']}, {SIZES['target']:,} subwords; rivals "
        f"taking turns. A step of training has {TOKENS[device]:,} tokens in sentences of {LENGTHS[device]}; a replayed "
        f"step is a CUDA graph; a search has {SENTENCES[device]} sentences, beam {BEAM}, {WRITTEN} subwords.",
        "",
        "| network | " + " | ".join(f"{what}, ms | over softmax" for what in contests) + " |",
        "|---|" + "---:|---:|" * len(contests),
    ]
    for name in KINDS:
        own = {row["what"]: row for row in rows if row["network"] == name}
        cells = [str(own[what][key]) for what in contests for key in ("ms", "over_softmax")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Time, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=STEPS, default="cpu")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    _runner.keep_memory()
    torch.set_float32_matmul_precision("high")
    where = f"{_runner.machine()}, load {os.getloadavg()[0]:.1f}"
    if options.device == "cuda":
        where = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    rows = race(options.device, options.rounds)
    _runner.write_csv(f"translation_{options.device}", [{**row, "machine": where} for row in rows])
    text = table(rows, options.device, where)
    (_runner.RESULTS / f"translation_{options.device}.md").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
