"""A training step of the text classifier with continuous attention beside discrete, and reviews predicted a second.

Writes ``results/text_cpu.csv`` and ``.md``, or with ``--device cuda`` ``results/text_cuda.csv`` and ``.md``.

    python benchmarks/bench_text.py
    python benchmarks/bench_text.py --device cuda
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import _runner
import lightning as L
import torch

from omegamax.data import Vocabulary
from omegamax.models.text import TextConfig, WordsConfig
from omegamax.tasks.captured import CapturedStep
from omegamax.tasks.quiet import quiet
from omegamax.tasks.text import TextTask
from omegamax.tasks.text.sets import ReviewsData

BATCH, LENGTH, SHORTEST = 16, 280, 240  # texts of a batch are about as long as each other
SIZES: dict[str, Any] = {"word_dim": 300, "hidden_dim": 128, "score_dim": 128}  # Table 3 of Martins et al., 2020
KINDS: dict[str, dict[str, Any]] = {
    "softmax": {"kind": "softmax"},
    "sparsemax": {"kind": "sparsemax"},
    "continuous softmax": {"kind": "continuous_softmax", "source": "cnn", "functions": 64},
    "continuous sparsemax": {"kind": "continuous_sparsemax", "source": "cnn", "functions": 64},
    "softmax + continuous softmax": {"kind": "continuous_softmax", "combined": True, "functions": 64},
    "softmax + continuous sparsemax": {"kind": "continuous_sparsemax", "combined": True, "functions": 64},
}
STEPS = {"cpu": 1, "cuda": 10}  # of a reading
REVIEWS, SENTENCES, PREDICTED_BATCH = 4096, (30, 36), 256


class Step:
    """One training step: forward, backward, Adam; the embedding is left as it is, as with the paper's GloVe."""

    def __init__(self, kind: dict[str, Any], device: str) -> None:
        torch.manual_seed(0)
        words = 5000
        vocabulary = Vocabulary([f"w{i}" for i in range(words)], ["negative", "positive"])
        self.task = TextTask(vocabulary, TextConfig(**SIZES, attention=WordsConfig(**kind)), freeze_words=True)
        self.task.to(device).train()
        learnt = [p for p in self.task.parameters() if p.requires_grad]
        gpu = device == "cuda"
        self.adam = torch.optim.Adam(learnt, 1e-3, weight_decay=1e-4, fused=gpu, capturable=gpu)
        self.device, self.times = device, STEPS[device]
        lengths = torch.linspace(SHORTEST, LENGTH, BATCH).long()
        text = torch.randint(2, words, (BATCH, LENGTH)) * (torch.arange(LENGTH) < lengths.unsqueeze(1))
        self.words, self.label = text.to(device), (torch.arange(BATCH) % 2).to(device)
        self.lengths = lengths.tolist()

    def step(self) -> None:
        """Take the step; the lengths of the texts are known without asking the device."""
        self.learn({"words": self.words, "label": self.label, "lengths": self.lengths})

    def learn(self, batch: dict[str, Any]) -> None:
        """Change the weights by a batch."""
        self.adam.zero_grad(set_to_none=True)
        self.task.training_loss(batch).backward()
        self.adam.step()

    def __call__(self) -> None:
        for _ in range(self.times):
            self.step()
        if self.device == "cuda":
            torch.cuda.synchronize()


class Replay(Step):
    """The same, replayed from a CUDA graph; lengths are read on the device."""

    def __init__(self, kind: dict[str, Any], device: str) -> None:
        super().__init__(kind, device)
        inputs = [self.words, self.label]
        self.graph = CapturedStep(lambda words, label: self.learn({"words": words, "label": label}), inputs, self.adam)

    def step(self) -> None:
        self.graph(self.words, self.label)


def race(device: str, rounds: int) -> list[dict]:
    """Milliseconds of a step of each kind, and over that of softmax."""
    rows = []
    contests: dict[str, type[Step]] = {"step": Step, "replayed step": Replay} if device == "cuda" else {"step": Step}
    for what, make in contests.items():
        steps = {name: make(kind, device) for name, kind in KINDS.items()}
        times = _runner.interleave(steps, rounds, 1, patience=120.0)  # type: ignore[arg-type]
        for name in KINDS:
            ms = round(statistics.median(times[name]) / STEPS[device] * 1e3, 2)
            over = round(_runner.ratio(times[name], times["softmax"]), 3)
            rows.append({"what": what, "attention": name, "ms": ms, "over_softmax": over})
    return rows


def predict(device: str, kind: dict[str, Any]) -> tuple[float, float]:
    """Reviews predicted a second by the trainer, reading the files not counted; and their mean number of words."""
    data = ReviewsData((64, 64, REVIEWS), SENTENCES, batch_size=PREDICTED_BATCH)
    with quiet():
        task = TextTask(data.vocabulary, TextConfig(**SIZES, attention=WordsConfig(**kind)))
        none = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
        trainer = L.Trainer(accelerator="gpu" if device == "cuda" else "cpu", devices=1, **none)
        loader = data.test_dataloader()
        trainer.predict(task, loader, return_predictions=True)
        start = time.perf_counter()
        answers = trainer.predict(task, loader, return_predictions=True)
        seconds = time.perf_counter() - start
    assert answers is not None and sum(map(len, answers)) == REVIEWS
    return REVIEWS / seconds, data.split("test").lengths.double().mean().item()


def table(rows: list[dict], where: str) -> str:
    """Markdown: steps, then predictions."""
    contests = [what for what in dict.fromkeys(row["what"] for row in rows) if what != "predict"]
    lines = [
        f"{where}. One training step, float32, batch {BATCH}, L = {LENGTH}, D = {2 * SIZES['hidden_dim']}, N = 64 "
        f"basis functions, lengths from {SHORTEST} to {LENGTH}; rivals taking turns"
        + ("; a replayed step is a CUDA graph." if len(contests) > 1 else "."),
        "",
        "| attention | " + " | ".join(f"{what}, ms | time over softmax" for what in contests) + " |",
        "|---|" + "---:|---:|" * len(contests),
    ]
    for name in KINDS:
        own = {row["what"]: row for row in rows if row["attention"] == name}
        cells = [str(own[what][key]) for what in contests for key in ("ms", "over_softmax")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    predicted = [r for r in rows if r["what"] == "predict"]
    if predicted:
        words = predicted[0]["words"]
        lines += ["", f"Reviews of {words} words on average, predicted a second, batches of {PREDICTED_BATCH}:", ""]
        lines += ["| attention | reviews a second |", "|---|---:|"]
        lines += [f"| {r['attention']} | {r['reviews_a_second']} |" for r in predicted]
    return "\n".join(lines)


def describe(device: str) -> str:
    """One line that says where numbers come from, and how busy the machine was."""
    if device == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"{_runner.machine()}, load {os.getloadavg()[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no-predictions", action="store_true")
    options = parser.parse_args()
    _runner.keep_memory()
    where = describe(options.device)
    rows = race(options.device, options.rounds)
    for name in () if options.no_predictions else ("softmax", "softmax + continuous sparsemax"):
        rate, words = predict(options.device, KINDS[name])
        rows.append({"what": "predict", "attention": name, "words": round(words), "reviews_a_second": round(rate)})
    columns = ("what", "attention", "ms", "over_softmax", "words", "reviews_a_second", "machine")
    _runner.write_csv(
        f"text_{options.device}", [{c: {**r, "machine": where}.get(c, "") for c in columns} for r in rows]
    )
    text = table(rows, where)
    (_runner.RESULTS / f"text_{options.device}.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
