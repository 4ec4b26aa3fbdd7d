"""A training step of the captioner of Martins et al. (ICIP 2021) with each attention, and captions written a second.

Writes ``results/captioning_cpu.csv`` and ``.md``, or with ``--device cuda`` those of ``captioning_cuda``.

    python benchmarks/bench_captioning.py
    python benchmarks/bench_captioning.py --device cuda
"""

from __future__ import annotations

import argparse
import statistics
import time

import _runner
import torch

from omegamax.models.captioning import CaptionConfig, Captioner
from omegamax.models.mcan import OutputConfig

BATCH, GRID, WORDS, LENGTH, CHANNELS, BEAM = 80, (14, 14), 2600, 16, 512, 5
KINDS = {
    "softmax": OutputConfig(),
    "sparsemax": OutputConfig("sparsemax"),
    "entmax, alpha 1.5": OutputConfig("entmax"),
    "tvmax": OutputConfig("tvmax"),
    "continuous softmax": OutputConfig("continuous_softmax"),
    "continuous sparsemax": OutputConfig("continuous_sparsemax"),
}
STEPS = {"cpu": 1, "cuda": 3}  # of a reading


class Step:
    """One training step: forward, backward, Adam; sizes of the paper, captions of 8 to 16 words."""

    def __init__(self, kind: OutputConfig, device: str) -> None:
        torch.manual_seed(0)
        self.device = device
        self.model = Captioner(CaptionConfig(WORDS, image_dim=CHANNELS, attention=kind)).to(device).train()
        self.adam = torch.optim.Adam(self.model.parameters(), 1e-4, betas=(0.8, 0.999), fused=device == "cuda")
        lengths = torch.linspace(LENGTH / 2, LENGTH, BATCH).long().unsqueeze(1)
        caption = torch.randint(4, WORDS, (BATCH, LENGTH + 2)).where(torch.arange(LENGTH + 2) <= lengths, 0)
        caption[:, 0] = 2
        caption.scatter_(1, lengths + 1, 3)
        # Features whose cells resemble their neighbours, as those of photographs do.
        coarse = torch.randn(BATCH, CHANNELS, 5, 5)
        features = torch.nn.functional.interpolate(coarse, GRID, mode="bilinear").flatten(2).mT.contiguous()
        self.batch = {"features": features.to(device), "grid": GRID, "caption": caption.to(device)}

    def __call__(self) -> None:
        for _ in range(STEPS[self.device]):
            self.adam.zero_grad(set_to_none=True)
            self.model.loss(self.batch).backward()
            self.adam.step()
        if self.device == "cuda":
            torch.cuda.synchronize()


class Writing:
    """Captions of a batch of pictures by beam search, after a few steps of training."""

    def __init__(self, step: Step) -> None:
        self.model, self.batch, self.device = step.model, step.batch, step.device

    def __call__(self) -> None:
        self.model.eval()
        self.model.write(self.batch, beam=BEAM, max_length=LENGTH)
        if self.device == "cuda":
            torch.cuda.synchronize()


def measure(rivals: dict[str, Step] | dict[str, Writing], rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds of each rival, round by round, the rivals taking turns.

    On a CPU it is the time of the processor, of one thread, which others on the machine do not lengthen much: a step
    takes seconds, and may wait for as long.
    """
    clock = time.process_time if device == "cpu" else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(rounds + 1):
        for name, run in rivals.items():
            start = clock()
            run()
            if turn:  # the first prepares what later ones find ready
                times[name].append(clock() - start)
    return times


def race(device: str, rounds: int, kinds: list[str], written: bool) -> list[dict]:
    """Milliseconds of a step, and of the captions of a batch, of each kind, and over those of softmax."""
    steps = {name: Step(KINDS[name], device) for name in kinds}
    parts = {"step": (measure(steps, rounds, device), STEPS[device])}
    if written:
        parts["write"] = measure({name: Writing(step) for name, step in steps.items()}, max(rounds // 3, 2), device), 1
    return [
        {
            "what": what,
            "attention": name,
            "ms": round(statistics.median(times[name]) / calls * 1e3, 1),
            "over_softmax": round(_runner.ratio(times[name], times["softmax"]), 3),
        }
        for what, (times, calls) in parts.items()
        for name in kinds
    ]


def table(rows: list[dict], where: str) -> str:
    """Markdown: steps, then captions."""
    lines = [
        f"{where}. float32, batch {BATCH}, {GRID[0]} x {GRID[1]} cells, captions of {LENGTH // 2} to {LENGTH} words of "
        f"{WORDS}, sizes of the paper; rivals taking turns.",
        "",
    ]
    said = {"step": "a training step", "write": f"{BATCH} captions by beam search, {BEAM} wide"}
    for what, words in said.items():
        if not any(r["what"] == what for r in rows):
            continue
        lines += [f"| {words} | ms | time over softmax |", "|---|---:|---:|"]
        lines += [f"| {r['attention']} | {r['ms']} | {r['over_softmax']} |" for r in rows if r["what"] == what]
        lines += [""]
    return "\n".join(lines).rstrip()


def describe(device: str) -> str:
    """One line that says where numbers come from, and what is timed."""
    if device == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"{_runner.machine()}, time of the processor"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="softmax among them (all)")
    parser.add_argument("--no-captions", action="store_true", help="time steps alone")
    options = parser.parse_args()
    _runner.keep_memory()
    if options.device == "cpu":
        torch.set_num_threads(1)
    where, start = describe(options.device), time.perf_counter()
    rows = race(options.device, options.rounds, options.kinds, not options.no_captions)
    name = f"captioning_{options.device}"
    _runner.write_csv(name, [{**row, "machine": where} for row in rows])
    text = table(rows, where)
    (_runner.RESULTS / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    print(text, f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
