"""Language models on IMDB's reviews that differ in the map at the output: the table of the README.

    python experiments/language/run.py --tokens tokens.npz               # all that has no row yet, three seeds
    python experiments/language/run.py --tokens tokens.npz --steps 30 --batch 4 --length 128 --dim 128 --test 8

Rows are added to ``results/runs.csv`` as they are done; what is there is not run again. A network with softmax is
measured as it is and with predictions that are cut: greedy, top-k, nucleus, min-p; the number of a rule is the one with
the best sparsemax score on the validation part. Networks with entmax in their attention also tell how many pages of the
cache their last look has to read, in ``results/pages.csv``; what those of seed 0 write is in ``results/written.jsonl``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from corpus import draw_windows, list_windows, read_tokens
from pages import look
from torch import Tensor
from training import Place, add_training_arguments, autocast, in_half, train

from omegamax.generation import Truncation, sample
from omegamax.metrics import distinct
from omegamax.models.language import Decoder, LanguageConfig, TokenOutputConfig
from omegamax.tasks.experiment import Arguments, name_device, tell_end
from omegamax.tasks.language import LanguageScores
from omegamax.tasks.trials import Trials

HERE = Path(__file__).parent
KEYS = ("output", "attention", "decoding", "seed")
MEASURES = (
    *("loss", "perplexity", "epsilon_perplexity", "sparsemax_score", "jensen_shannon", "accuracy", "support"),
    *("rep", "wrep", "distinct_1", "distinct_2", "distinct_4"),
)
COLUMNS = (*KEYS, "rule", *MEASURES, "epsilon", "alpha", "steps", "batch", "length", "dim", "seconds", "device")
OUTPUTS = {
    "softmax": TokenOutputConfig("softmax", label_smoothing=0.0),
    "entmax15": TokenOutputConfig("entmax15", label_smoothing=0.0),
    "sparsemax": TokenOutputConfig("sparsemax", label_smoothing=0.0),
    # Without smoothing the loss of an index falls with alpha whatever the scores are.
    "learnt": TokenOutputConfig("entmax", learnable=True, label_smoothing=0.01),
}
RULES = {
    "greedy": [Truncation(top_k=1)],
    "top-k": [Truncation(top_k=k) for k in (5, 20, 50, 100)],
    "nucleus": [Truncation(top_p=p) for p in (0.8, 0.9, 0.95, 0.98)],
    "min-p": [Truncation(min_p=p) for p in (0.01, 0.03, 0.1, 0.3)],
}
PAGED = (128, 256, 512, 1024)  # keys, in pages, of texts of windows and of longer ones
PROMPT, WRITTEN, PROMPTS = 16, 64, 32


@dataclass(frozen=True)
class Sizes:
    """Of the network and of what it is measured on."""

    dim: int = 256
    layers: int = 4
    test: int = 400  # windows
    tokens: str = "tokens.npz"
    results: Path = HERE / "results"


def runs_of(folder: Path) -> Trials:
    """Return the rows of the table."""
    return Trials(folder / "runs.csv", COLUMNS, KEYS)


def run(job: Mapping[str, Any], place: Place, sizes: Sizes) -> list[dict[str, Any]]:
    """Train one network and measure it; return its row, and of softmax those of every rule that cuts."""
    torch.set_num_threads(1)
    torch.manual_seed(job["seed"])
    vocabulary, streams = read_tokens(sizes.tokens, place.device)
    network = LanguageConfig(
        vocabulary,
        dim=sizes.dim,
        hidden_dim=4 * sizes.dim,
        layers=sizes.layers,
        heads=max(2, sizes.dim // 64),
        groups=max(2, sizes.dim // 64) // 2,
        attention=job["attention"],
        sink=True,
        output=OUTPUTS[job["output"]],
    )
    model = Decoder(network).to(place.device)
    generator = torch.Generator(place.device).manual_seed(1000 + job["seed"])
    draw = partial(draw_windows, streams["train"], place.batch, place.length, generator)
    seconds = train(model, place, draw, in_half(model.loss, place.device))
    val, test = (list_windows(streams[part], place.length, sizes.test) for part in ("val", "test"))
    about = {"steps": place.steps, "batch": place.batch, "length": place.length, "dim": sizes.dim}
    about |= {"seconds": round(seconds, 1), "device": name_device(place.device), "alpha": read_alpha(model)}
    rows = []
    rules = {"none": [Truncation()]} | (RULES if job["output"] == "softmax" else {})
    for name, choices in rules.items():
        tried = [measure(model, val, place, rule) for rule in choices]
        best = max(range(len(choices)), key=lambda i: tried[i][0]["sparsemax_score"])
        rule, epsilon = choices[best], tried[best][1]
        found, _ = measure(model, test, place, rule, epsilon)
        texts = write_texts(model, test, rule, job["seed"])
        found |= {f"distinct_{n}": float(distinct(texts, n)) for n in (1, 2, 4)}
        numbers = {key: round(value, 6) for key, value in found.items()}
        rows.append({**job, "decoding": name, "rule": rule.label, **numbers, "epsilon": epsilon, **about})
        if job["seed"] == 0:
            keep_texts(sizes.results / "written.jsonl", job, name, model, test, texts)
    if job["attention"] != "softmax":
        measure_pages(sizes.results, job, model, streams["test"])
    return rows


@torch.no_grad()
def measure(
    model: Decoder, windows: Tensor, place: Place, rule: Truncation, epsilon: float | None = None
) -> tuple[dict[str, float], float]:
    """Return the measures of windows, and the epsilon that is best for them."""
    scores = LanguageScores(epsilon, rule).to(windows.device)
    for batch in windows.split(place.batch):
        with autocast(place.device):
            scores.update(model, batch)
    return scores.compute(), scores.find_epsilon()


def write_texts(model: Decoder, windows: Tensor, rule: Truncation, seed: int) -> Tensor:
    """Return what the network writes after the beginnings of windows, ``[PROMPTS, WRITTEN]``; nothing ends it."""
    prompts = windows[:PROMPTS, :PROMPT]
    generator = torch.Generator(windows.device).manual_seed(seed)
    settings: dict[str, Any] = {"omega": model.omega, "max_length": WRITTEN, "truncation": rule, "generator": generator}
    return sample(model.step, prompts, state={}, reorder=model.reorder, **settings).tokens[:, 0]


@torch.no_grad()
def keep_texts(
    path: Path, job: Mapping[str, Any], decoding: str, model: Decoder, windows: Tensor, texts: Tensor
) -> None:
    """Append the texts as tokens, with how many could have come at each, a line for each prompt."""
    prompts = windows[: len(texts), :PROMPT]
    scores = model(torch.cat([prompts, texts[:, :-1]], 1))[:, PROMPT - 1 :].float()
    sizes = (model.omega.argmax(scores) > 0).sum(-1).tolist()
    truths = windows[: len(texts), PROMPT : PROMPT + WRITTEN].tolist()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for prompt, truth, text, size in zip(prompts.tolist(), truths, texts.tolist(), sizes, strict=True):
            record = {**job, "decoding": decoding, "prompt": prompt, "truth": truth, "text": text, "sizes": size}
            file.write(json.dumps(record) + "\n")


@torch.no_grad()
def measure_pages(folder: Path, job: Mapping[str, Any], model: Decoder, stream: Tensor) -> None:
    """Write the share of pages that a look of each head has to read, by the number of keys.

    The network ends on the CPU: there every bound is at hand, also where all pages are read since many have to be.
    """
    model, windows = model.cpu(), list_windows(stream, PAGED[-1], 16).cpu()
    columns = ("output", "attention", "seed", "keys", "layer", "head", "share")
    table = Trials(folder / "pages.csv", columns, ("output", "attention", "seed", "keys", "layer", "head"))
    rows = []
    for keys in PAGED:
        about = {name: job[name] for name in ("output", "attention", "seed")}
        rows += [{**about, "keys": keys, **each} for each in look(model, windows, keys)]
    table.add(row for row in rows if not _is_there(table, row))


def _is_there(table: Trials, row: Mapping[str, Any]) -> bool:
    return not table.missing([row])


def read_alpha(model: Decoder) -> float | None:
    """Return the alpha of the output, if it is entmax."""
    alpha = getattr(model.omega, "alpha", None)
    return None if alpha is None else round(float(alpha), 4)


def main() -> int:
    """Run what has no row yet."""
    parser = Arguments(__doc__, HERE / "results", workers=1, needs_data=False)
    add = parser.add_argument
    add("--tokens", default="tokens.npz", help="file of corpus.py")
    add("--outputs", nargs="+", choices=OUTPUTS, default=list(OUTPUTS))
    add("--attention", nargs="+", default=["softmax"], help="maps of all heads (softmax)")
    add("--steps", type=int, default=2000)
    add("--batch", type=int, default=64, help="windows in a step (64)")
    add("--length", type=int, default=256, help="of a window (256)")
    add("--rate", type=float, default=2e-3, help="of learning, at most (0.002)")
    add("--dim", type=int, default=256)
    add("--test", type=int, default=400, help="windows to measure with (400)")
    add_training_arguments(parser)
    options = parser.parse_args()
    place = Place(options.device, options.steps, options.batch, options.length, options.rate, options.plain)
    sizes = Sizes(dim=options.dim, test=options.test, tokens=options.tokens, results=options.results)
    jobs = [
        {"output": output, "attention": attention, "decoding": "none", "seed": seed}
        for seed in options.seeds
        for attention in options.attention
        for output in options.outputs
    ]
    table = runs_of(options.results)
    work = partial(run, place=place, sizes=sizes)
    return tell_end(table, table.run(jobs, work, options.workers, partial(print, flush=True), options.seconds))


if __name__ == "__main__":
    sys.exit(main())
