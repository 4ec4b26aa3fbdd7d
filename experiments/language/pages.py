"""Share of the pages of a cache that heads have to read, by alpha and by length, before training and after it.

    python experiments/language/pages.py                        # all that has no row yet: a minute for each alpha
    python experiments/language/pages.py --alphas 1.5 --steps 20 --keys 64 128

Small networks learn the embedded reviews, each with entmax of another alpha in all its heads. Then they read a text,
and its next token looks at a cache in pages, of which those have to be read whose bound is above the threshold. Where
these are many, all are read, which is quicker; the share is that of the pages that have to be. Rows are added to
``results/heads.csv`` as they are done; what is there is not run again. No data are needed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from corpus import draw_windows, list_windows
from torch import Tensor
from training import Place, add_training_arguments, in_half, train

from omegamax.kernels.attention import PageBounds
from omegamax.models.language import Decoder, LanguageConfig
from omegamax.nn import Certificate, PagedCache
from omegamax.tasks.experiment import Arguments, name_device, tell_end
from omegamax.tasks.language import EmbeddedReviewsData
from omegamax.tasks.trials import Trials

HERE = Path(__file__).parent
PAGE = 16
KEYS = ("alpha", "seed", "trained", "keys", "layer", "head")
COLUMNS = (*KEYS, "share", "loss", "steps", "batch", "length", "dim", "device")
_TEXTS = 16  # that are looked at


def rows_of(folder: Path) -> Trials:
    """Return the rows of the table."""
    return Trials(folder / "heads.csv", COLUMNS, KEYS)


class WatchedCache(PagedCache):
    """A cache that keeps the bounds it has given last."""

    upper: Tensor | None = None

    def bound_pages(self, q: Tensor, limits: Tensor | None = None, reach: float | Tensor = math.inf) -> PageBounds:
        bounds = super().bound_pages(q, limits, reach)
        self.upper = bounds.upper
        return bounds

    def share(self, certificate: Certificate) -> Tensor:
        """Return the share of the pages that have to be read, ``[*, H, L]``; on a GPU, of those that were."""
        if self.upper is None:
            return certificate.share
        upper = self.upper.reshape(*certificate.threshold.shape, -1)
        needed = (upper > certificate.threshold.unsqueeze(-1)).sum(-1)
        return needed / certificate.pages.clamp(min=1)


@torch.no_grad()
def look(model: Decoder, windows: Tensor, keys: int) -> list[dict[str, Any]]:
    """Let the token behind the first ``keys`` of windows look at a cache in pages; return the share of each head."""
    _, state = model.read(windows[:, :keys], {})
    for layer in state["layers"]:
        cache = WatchedCache(PAGE)
        cache.append(layer["own"]["keys"], layer["own"]["values"])
        layer["own"] = {"pages": cache, "count": len(cache)}
    _, state = model.read(windows[:, keys : keys + 1], state)
    found = []
    for number, layer in enumerate(state["layers"]):
        certificate = layer["own"]["certificate"]
        assert bool(certificate.holds.all())
        shares = layer["own"]["pages"].share(certificate).mean((0, 2)).tolist()
        found += [{"layer": number, "head": head, "share": round(share, 5)} for head, share in enumerate(shares)]
    return found


def run(job: Mapping[str, Any], place: Place, keys: list[int]) -> list[dict[str, Any]]:
    """Look with the heads of a network before and after it was trained; return a row for each head and length."""
    torch.set_num_threads(1)
    data = EmbeddedReviewsData((4000, 10, 3000), length=place.length)
    train_part, test_part = (data.stream(part).tokens.long().to(place.device) for part in ("train", "test"))
    torch.manual_seed(job["seed"])
    config = LanguageConfig.tiny(
        len(data.vocabulary), attention="entmax", attention_options={"alpha": job["alpha"]}, sink=True
    )
    model = Decoder(config).to(place.device)
    generator = torch.Generator(place.device).manual_seed(1000 + job["seed"])
    draw = partial(draw_windows, train_part, place.batch, place.length, generator)
    test = list_windows(test_part, max(keys), _TEXTS)
    about = {"steps": place.steps, "batch": place.batch, "length": place.length, "dim": config.dim}
    about |= {"device": name_device(place.device)}
    rows = []
    for trained in (0, 1):
        if trained:
            train(model, place, draw, in_half(model.loss, place.device))
        model.eval()
        with torch.no_grad():
            loss = round(float(model.loss(list_windows(test_part, place.length, _TEXTS))), 4)
        for count in keys:
            rows += [
                {**job, "trained": trained, "keys": count, **each, "loss": loss, **about}
                for each in look(model, test, count)
            ]
    return rows


def main() -> int:
    """Run what has no row yet."""
    parser = Arguments(__doc__, HERE / "results", workers=1, needs_data=False)
    add = parser.add_argument
    add("--alphas", nargs="+", type=float, default=[1.25, 1.5, 2.0])
    add("--keys", nargs="+", type=int, default=[128, 256, 512, 1024, 2048], help="before the token that looks")
    add("--steps", type=int, default=200)
    add("--batch", type=int, default=4, help="windows in a step (4)")
    add("--length", type=int, default=512, help="of a window (512)")
    add("--rate", type=float, default=4e-3, help="of learning, at most (0.004)")
    add_training_arguments(parser)
    options = parser.parse_args()
    place = Place(options.device, options.steps, options.batch, options.length, options.rate, options.plain)
    first = {"trained": 0, "keys": options.keys[0], "layer": 0, "head": 0}
    jobs = [{"alpha": alpha, "seed": seed, **first} for seed in options.seeds for alpha in options.alphas]
    table = rows_of(options.results)
    work = partial(run, place=place, keys=options.keys)
    return tell_end(table, table.run(jobs, work, options.workers, partial(print, flush=True), options.seconds))


if __name__ == "__main__":
    sys.exit(main())
