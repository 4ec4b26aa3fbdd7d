"""SICK with three alignments of words: train, measure, and look at where the alignment is.

    python experiments/text/alignments.py --trials     # settings, by validation
    python experiments/text/alignments.py              # with the best of them, several seeds
    python experiments/text/alignments.py --picture    # heat maps of the first seed

Rows go to ``results/alignment_trials.csv`` and ``results/alignments.csv`` as they are done. The vectors that words
start from are those of wordllama: ``pip install 'omegamax[vectors]'``.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fit import HERE, Place, Schedule, TextSet, batches, make_task, read_set, train, validate
from torch import Tensor

from omegamax.metrics import entropy, mass_inside
from omegamax.models.text import TextConfig, WordAlignment
from omegamax.tasks.experiment import Arguments, silent_training, tell_end
from omegamax.tasks.text import TextTask
from omegamax.tasks.trials import Trials

ALIGNMENTS = ("softmax", "sequence", "matching")
RATES, DROPOUT = (1e-3, 3e-4), 0.2
EPOCHS, SIZES = 8, {"hidden_dim": 64, "score_dim": 64}
CHOSEN = ("rate",)
KEYS = ("alignment", "seed", *CHOSEN)
TRAINED = ("val_accuracy", "val_loss", "best_epoch", "seconds", "device")
MEASURED = ("accuracy", "same", "same_top", "same_chance", "zero", "entropy")
COLUMNS = (*KEYS, *MEASURED, "parameters", *TRAINED)
TRIAL_COLUMNS = ("alignment", *CHOSEN, *TRAINED)
PAIR = "A man is playing a guitar on the stage", "On the stage a guitar is being played by a man"

# Words that are in nearly every sentence, and whose other one in a pair may well be another's.
FUNCTION_WORDS = frozenset(
    "a an the and or but of in on at to from by with into over under near behind for as is are was were be being been "
    "has have had do does did not no n't 's it its he his him she her they their them there this that which who whose "
    "some one two three up down out off through around , . ; : ! ? ' \" -".split()
)
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", ""))


def trials(folder: Path) -> Trials:
    """Return the rows of the validations that settings come from."""
    return Trials(folder / "alignment_trials.csv", TRIAL_COLUMNS, ("alignment", *CHOSEN))


def runs(folder: Path) -> Trials:
    """Return the rows of the table."""
    return Trials(folder / "alignments.csv", COLUMNS, KEYS)


def choose(rows: Sequence[Mapping[str, str]], alignment: str) -> dict[str, float]:
    """Return the settings with the best validation; without trials the first."""
    own = [row for row in rows if row["alignment"] == alignment]
    if not own:
        return {"rate": RATES[0]}
    best = max(own, key=lambda row: (float(row["val_accuracy"]), -float(row["val_loss"])))
    return {key: float(best[key]) for key in CHOSEN}


def strip_ending(word: str) -> str:
    """Return a word without the endings of inflection: *plays*, *played* and *playing* are all *play*.

    >>> [strip_ending(word) for word in ("plays", "running", "riding", "puppies", "grass", "is")]
    ['play', 'run', 'rid', 'puppy', 'grass', 'is']
    """
    for ending, instead in _ENDINGS:
        stem = word.removesuffix(ending) + instead
        if word.endswith(ending) and not word.endswith("ss") and len(stem) > 2 and re.search("[aeiouy]", stem):
            doubled = ending in ("ing", "ed") and stem[-1] == stem[-2] and stem[-1] not in "ls"
            return (stem[:-1] if doubled else stem).removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word


def number_lemmas(words: Sequence[str]) -> Tensor:
    """Return a number for each word of a vocabulary, the same for words of one lemma; 0 for those that do not count.

    The first two rows are those of padding and of unknown words.
    """
    known: dict[str, int] = {}
    found = [0, 0]
    for word in words:
        counts = word not in FUNCTION_WORDS and any(map(str.isalpha, word))
        found.append(known.setdefault(strip_ending(word), len(known) + 1) if counts else 0)
    return torch.tensor(found)


def score_alignment(found: WordAlignment, first: Tensor, second: Tensor) -> dict[str, Tensor]:
    """Return measures of the content words that are in both sentences, in either direction.

    Args:
        found: the alignment.
        first, second: lemmas of the words ``[B, n]`` and ``[B, m]``, 0 for words that do not count.

    Returns:
        ``same`` (the share of a word's alignment on the words of its own lemma), ``same_top`` (whether the most is),
        ``same_chance`` (what equal shares would have) and ``entropy`` (of the row, in bits): each ``[N]``, of all such
        words.
    """
    parts: dict[str, list[Tensor]] = {"same": [], "same_top": [], "same_chance": [], "entropy": []}
    for weights, mine, other, mask in (
        (found.onward, first, second, found.mask),
        (found.back, second, first, found.mask.mT),
    ):
        same = (mine.unsqueeze(2) == other.unsqueeze(1)) & (mine != 0).unsqueeze(2) & mask
        rows = same.any(-1) & (weights.sum(-1) > 0)  # a matching may leave a word out
        left_out = same.any(-1) & ~rows
        p, region, there = weights[rows], same[rows], mask[rows]
        none = torch.zeros(int(left_out.sum()), dtype=p.dtype, device=p.device)
        top = region.gather(-1, p.argmax(-1, keepdim=True)).squeeze(-1).to(p.dtype)
        parts["same"] += [mass_inside(p, region, mask=there), none]
        parts["same_top"] += [top, none]
        every = same.any(-1)
        parts["same_chance"].append(same[every].sum(-1) / mask[every].sum(-1))
        parts["entropy"].append(entropy(p, mask=there))
    return {name: torch.cat(each) for name, each in parts.items()}


@torch.no_grad()
def measure(task: TextTask, texts: TextSet, device: str) -> dict[str, float]:
    """Return what the test part says of the alignments: means over words, and the share of pairs without any."""
    lemmas = number_lemmas(texts.data.vocabulary.words).to(device)
    collected: dict[str, list[Tensor]] = {}
    for batch in batches(texts.packed("test"), 256, device):
        found = task(batch).attention
        assert isinstance(found, WordAlignment)
        scores = score_alignment(found, lemmas[batch["words"]], lemmas[batch["second"]])
        scores["zero"] = found.empty()[found.mask].double()
        for name, values in scores.items():
            collected.setdefault(name, []).append(values.double().cpu())
    return {name: round(float(torch.cat(values).mean()), 6) for name, values in collected.items()}


def fit(job: Mapping[str, Any], place: Place, seed: int, epochs: int) -> tuple[TextTask, TextSet, dict[str, Any]]:
    """Train a network with the settings of a job."""
    with silent_training():
        texts = read_set("sick", place)
        network = TextConfig(**SIZES, dropout=DROPOUT, alignment=job["alignment"])
        task = make_task(texts, network, seed)
        found = train(task, texts, Schedule(float(job["rate"]), epochs), place.device, seed)
    return task, texts, {**found, "device": place.name}


def try_out(job: Mapping[str, Any], place: Place, epochs: int) -> dict[str, Any]:
    """Return the row of a trial."""
    return {**job, **fit(job, place, 0, epochs)[2]}


def run(job: Mapping[str, Any], place: Place, epochs: int) -> dict[str, Any]:
    """Return the row of a network that was trained and tested."""
    task, texts, found = fit(job, place, job["seed"], epochs)
    with silent_training():
        accuracy, _ = validate(task, texts.packed("test"), place.device)
        measures = measure(task, texts, place.device)
    learnt = sum(p.numel() for p in task.parameters())
    return {**job, "accuracy": accuracy, **measures, "parameters": learnt, **found}


def draw(place: Place, folder: Path, epochs: int, path: Path) -> None:
    """Draw the alignments of one pair of sentences by networks of the first seed."""
    from omegamax.tasks.text.explain_pair import draw_pairs, explain_pair

    said = {}
    for alignment in ALIGNMENTS:
        task, _, _ = fit({"alignment": alignment, **choose(trials(folder).rows(), alignment)}, place, 0, epochs)
        said[alignment] = explain_pair(task.cpu(), *PAIR)
    draw_pairs(said).savefig(path, dpi=110)


def main() -> int:
    """Try settings, run those that did best, or draw."""
    parser = Arguments(__doc__, HERE / "results", seeds=range(5), workers=1)
    parser.add_argument("--trials", action="store_true", help="validate settings instead")
    parser.add_argument("--picture", action="store_true", help="draw results/alignments.png instead")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"at most ({EPOCHS})")
    parser.add_argument("--cache", help="folder for sets as numbers")
    options = parser.parse_args()
    place = Place(options.data, options.device, options.cache)
    if options.picture:
        draw(place, options.results, options.epochs, options.results / "alignments.png")
        return 0
    jobs: list[dict[str, Any]]
    if options.trials:
        file, work = trials(options.results), try_out
        jobs = [{"alignment": each, "rate": rate} for rate in RATES for each in ALIGNMENTS]
    else:
        file, work = runs(options.results), run
        tried = trials(options.results).rows()
        jobs = [
            {"alignment": each, "seed": seed, **choose(tried, each)} for seed in options.seeds for each in ALIGNMENTS
        ]
    failed = file.run(
        jobs, functools.partial(work, place=place, epochs=options.epochs), options.workers, within=options.seconds
    )
    return tell_end(file, failed)


if __name__ == "__main__":
    sys.exit(main())
