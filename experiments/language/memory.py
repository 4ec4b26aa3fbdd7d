"""Long reviews in segments, with what is kept of the segments before: perplexity by the place in the review.

    python experiments/language/memory.py --tokens tokens.npz            # all that has no row yet, three seeds
    python experiments/language/memory.py --tokens tokens.npz --steps 20 --batch 2 --length 128 --dim 32 --seeds 0

All networks see the segment that they are in, and have as many vectors of what came before: none, the last ones,
averages of neighbours, or the coefficients of a signal; ``everything`` sees all of it. Rows are added to
``results/memory.csv`` as they are done.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from corpus import list_reviews, read_tokens
from torch import Tensor
from training import Place, add_training_arguments, autocast, in_half, train

from omegamax.models.language import Decoder, LanguageConfig, MemoryConfig
from omegamax.tasks.experiment import Arguments, name_device, tell_end
from omegamax.tasks.trials import Trials

HERE = Path(__file__).parent
KEYS = ("kind", "segment", "size", "seed", "until")
COLUMNS = (*KEYS, "since", "perplexity", "reviews", "steps", "batch", "dim", "rate", "seconds", "device")
KINDS = ("none", "last", "average", "signal", "matched", "everything")


def rows_of(folder: Path) -> Trials:
    """Return the rows of the curves."""
    return Trials(folder / "memory.csv", COLUMNS, KEYS)


def run(job: Mapping[str, Any], place: Place, dim: int, tokens: str, test: int) -> list[dict[str, Any]]:
    """Train one network on long reviews, and measure it on others; return a row for each stretch of places."""
    torch.set_num_threads(1)
    torch.manual_seed(job["seed"])
    vocabulary, streams = read_tokens(tokens, place.device)
    memory = None
    if job["kind"] != "everything":
        kind, moments = ("signal", "matched") if job["kind"] == "matched" else (job["kind"], "predicted")
        memory = MemoryConfig(kind, segment=job["segment"], size=job["size"], moments=moments)
    heads = max(2, dim // 64)
    config = LanguageConfig(vocabulary, dim=dim, hidden_dim=4 * dim, heads=heads, sink=True, memory=memory)
    model = Decoder(config).to(place.device)
    reviews = list_reviews(streams["train"], place.length)
    generator = torch.Generator(place.device).manual_seed(1000 + job["seed"])

    def draw() -> Tensor:
        return reviews[torch.randint(len(reviews), (place.batch,), generator=generator, device=reviews.device)]

    seconds = train(model, place, draw, in_half(model.loss, place.device))
    about = {"steps": place.steps, "batch": place.batch, "dim": dim, "rate": place.rate}
    about |= {"seconds": round(seconds, 1), "device": name_device(place.device)}
    losses = measure(model, list_reviews(streams["test"], place.length, test), place)
    rows, since, until = [], 0, job["segment"]
    while until <= place.length:
        found = {"since": since, "perplexity": round(math.exp(float(losses[:, since:until].mean())), 4)}
        rows.append({**job, "until": until, **found, "reviews": len(losses), **about})
        since, until = until, 2 * until
    return rows


@torch.no_grad()
def measure(model: Decoder, reviews: Tensor, place: Place) -> Tensor:
    """Return the loss of each token of reviews, ``[N, length]``."""
    found = []
    for batch in reviews.split(place.batch):
        with autocast(place.device):
            found.append(model.loss(batch, reduction="none").float())
    return torch.cat(found)


def main() -> int:
    """Run what has no row yet."""
    parser = Arguments(__doc__, HERE / "results", workers=1, needs_data=False)
    add = parser.add_argument
    add("--tokens", default="tokens.npz", help="file of corpus.py")
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    add("--segment", type=int, default=64, help="tokens that attention sees at once (64)")
    add("--size", type=int, default=32, help="vectors, or coefficients, of a memory (32)")
    add("--length", type=int, default=512, help="tokens of a review (512)")
    add("--steps", type=int, default=2000)
    add("--batch", type=int, default=32, help="reviews in a step (32)")
    add("--rate", type=float, default=1e-3, help="of learning, at most (0.001)")
    add("--dim", type=int, default=256)
    add("--test", type=int, default=500, help="reviews to measure with (500)")
    add_training_arguments(parser)
    options = parser.parse_args()
    place = Place(options.device, options.steps, options.batch, options.length, options.rate, options.plain)
    about = {"segment": options.segment, "size": options.size}
    jobs = [
        {"kind": kind, **about, "seed": seed, "until": options.segment}
        for seed in options.seeds
        for kind in options.kinds
    ]
    table = rows_of(options.results)
    work = partial(run, place=place, dim=options.dim, tokens=options.tokens, test=options.test)
    return tell_end(table, table.run(jobs, work, options.workers, partial(print, flush=True), options.seconds))


if __name__ == "__main__":
    sys.exit(main())
