"""Trained on short texts, asked about long ones: maps of attention on tasks whose answers are known at any length.

    python experiments/language/length.py                                # all that has no row yet, three seeds
    python experiments/language/length.py --tasks two_back --kinds softmax entmax15 --steps 200 --longest 4 --seeds 0

Networks see questions of up to ``--length`` symbols in training, and of 1, 2, 4, ... up to ``--longest`` times that in
the test. All is computed in single precision: half of it would round the scores of far keys. How long one is trained is
decided by texts of the trained length alone: until 128 of them are all right, and a quarter as long with a falling
rate; ``--steps`` at most. Rows are added to ``results/length.csv`` as they are done; what is there is not run again. No
data are needed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from training import Place, add_training_arguments, train_until

from omegamax.data.language import count_tokens, draw_task
from omegamax.data.language.lengths import TASKS
from omegamax.models.language import Decoder, LanguageConfig
from omegamax.tasks.experiment import Arguments, name_device, tell_end
from omegamax.tasks.trials import Trials

HERE = Path(__file__).parent
KEYS = ("task", "kind", "positions", "trained", "seed", "times")
COLUMNS = (
    *KEYS,
    "length",
    "tokens_right",
    "texts_right",
    "tested",
    "steps",
    "batch",
    "dim",
    "layers",
    "rate",
    "seconds",
    "device",
)
KINDS: dict[str, dict[str, Any]] = {
    "softmax": {"attention": "softmax"},
    "softmax, scale": {"attention": "softmax", "length_scale": True},
    "entmax15": {"attention": "entmax15"},
    "entmax15, scale": {"attention": "entmax15", "length_scale": True},
    "learnt, scale": {"attention": "entmax", "learn_alpha": True, "length_scale": True},
}
_TOKENS = 1 << 13  # of a test batch; scores of a layer take 8 heads times its square over the texts
_VALIDATED = 128  # texts of the trained length that have to be right for a task to be learnt


def rows_of(folder: Path) -> Trials:
    """Return the rows of the curves."""
    return Trials(folder / "length.csv", COLUMNS, KEYS)


def run(job: Mapping[str, Any], place: Place, dim: int, layers: int, longest: int, test: int) -> list[dict[str, Any]]:
    """Train one network on short texts, and measure it on longer and longer ones; return a row for each length."""
    torch.set_num_threads(1)
    torch.manual_seed(job["seed"])
    task, keys = job["task"], place.length * longest // 2
    config = LanguageConfig(
        count_tokens(task, keys),
        dim=dim,
        hidden_dim=4 * dim,
        layers=layers,
        heads=8,
        dropout=0.0,
        positions=job["positions"],
        sink=True,
        **KINDS[job["kind"]],
    )
    model = Decoder(config).to(place.device)
    generator = torch.Generator(place.device).manual_seed(1000 + job["seed"])
    sizes = torch.Generator().manual_seed(job["seed"])
    widest = draw_task(task, 1, place.length, torch.Generator(), keys=keys)[0].shape[1]

    def draw() -> tuple[Tensor, Tensor]:
        least = max(8, place.length // 4)
        length = int(torch.randint(least, place.length + 1, (), generator=sizes))
        texts = draw_task(task, place.batch, length, generator, keys=keys)
        if not place.captured:
            return texts
        # Padding behind a text changes nothing of it, and gives all batches one shape.
        tokens, target = (F.pad(each, (0, widest - each.shape[1])) for each in texts)
        return tokens, target

    def loss(texts: tuple[Tensor, Tensor]) -> Tensor:
        scores = model(texts[0])
        return F.cross_entropy(scores.float().flatten(0, 1), texts[1].flatten(), ignore_index=0)

    def is_learnt() -> bool:
        return measure(model, task, place, place.length, keys, _VALIDATED, seed=0)["texts_right"] == 1

    steps, seconds = train_until(model, place, draw, loss, is_learnt)
    about = {"steps": steps, "batch": place.batch, "dim": dim, "layers": layers, "rate": place.rate}
    about |= {"seconds": round(seconds, 1), "device": name_device(place.device)}
    rows, times = [], 1
    while times <= longest:
        found = measure(model, task, place, times * place.length, keys, test)
        rows.append({**job, "times": times, "length": times * place.length, **found, **about})
        times *= 2
    return rows


@torch.no_grad()
def measure(
    model: Decoder, task: str, place: Place, length: int, keys: int, test: int, seed: int | None = None
) -> dict[str, Any]:
    """Return the shares of tokens, and of whole texts, that are foretold right, given the true tokens before them."""
    generator = torch.Generator(place.device).manual_seed(length if seed is None else seed)
    batch = max(1, min(test, _TOKENS // (2 * length)))
    right = asked = whole = seen = 0
    while seen < test:
        tokens, target = draw_task(task, min(batch, test - seen), length, generator, keys=keys)
        said = model(tokens).argmax(-1)
        there = target != 0
        right += int(((said == target) & there).sum())
        asked += int(there.sum())
        whole += int(((said == target) | ~there).all(1).sum())
        seen += len(tokens)
    return {"tokens_right": round(right / asked, 5), "texts_right": round(whole / seen, 5), "tested": seen}


def main() -> int:
    """Run what has no row yet."""
    parser = Arguments(__doc__, HERE / "results", workers=1, needs_data=False)
    add = parser.add_argument
    add("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    add("--positions", default="alibi", help="alibi, rotary or none (alibi: half of the heads see distances)")
    add("--length", type=int, default=32, help="symbols of a question in training, at most (32)")
    add("--longest", type=int, default=64, help="how many times that in the test, a power of 2 (64)")
    add("--steps", type=int, default=4000, help="of training, at most (4000)")
    add("--batch", type=int, default=128, help="texts in a step (128)")
    add("--rate", type=float, default=1e-3, help="of learning, at most (0.001)")
    add("--dim", type=int, default=128)
    add("--layers", type=int, default=4)
    add("--test", type=int, default=64, help="texts of each length (64)")
    add_training_arguments(parser)
    options = parser.parse_args()
    place = Place(options.device, options.steps, options.batch, options.length, options.rate, options.plain)
    jobs = [
        {
            "task": task,
            "kind": kind,
            "positions": options.positions,
            "trained": options.length,
            "seed": seed,
            "times": 1,
        }
        for seed in options.seeds
        for task in options.tasks
        for kind in options.kinds
    ]
    table = rows_of(options.results)
    sizes = {"dim": options.dim, "layers": options.layers, "longest": options.longest, "test": options.test}
    work = partial(run, place=place, **sizes)
    return tell_end(table, table.run(jobs, work, options.workers, partial(print, flush=True), options.seconds))


if __name__ == "__main__":
    sys.exit(main())
