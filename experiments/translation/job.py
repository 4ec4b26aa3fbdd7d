"""Rows of the tables: a network of one kind, trained on Multi30k from one seed, its translations and measures."""

from __future__ import annotations

import lzma
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from sets import PairSet, load
from training import Loop, Training

from omegamax.data.translation import PAD, collate_pairs
from omegamax.models.translation import FertilityConfig, RecurrentTranslator, TokenOutputConfig, TranslatorConfig
from omegamax.tasks.experiment import name_device
from omegamax.tasks.rate import Rate
from omegamax.tasks.translation import SearchConfig, Translation, TranslationTask, measure_bleu, translate
from omegamax.tasks.translation.scores import repeats

HERE = Path(__file__).parent
BEAM = 5
WIDTHS = (1, 2, 5, 10, 20, 50)  # of beams, for what length and search have to do with each other
PENALTIES = (0.0, 0.6, 1.0)  # of lengths, of which validation chooses one
MOST = 80  # tokens of a translation
# What kinds change of the network that trials have chosen; ``output`` is the map of the output.
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "entmax15": {"attention": "entmax15", "output": "entmax15"},
    "sparsemax": {"output": "sparsemax"},
    "adaptive": {"attention": "entmax", "learn_alpha": True},
    "softmax_cased": {},
}
CONSTANT, TABLE = FertilityConfig("constant", 2.0), FertilityConfig("table", 2.0)
RECURRENT: dict[str, dict[str, Any]] = {
    "recurrent": {},
    "continuous_softmax": {"density": "continuous_softmax"},
    "continuous_sparsemax": {"density": "continuous_sparsemax"},
    "recurrent_sparsemax": {"attention": "sparsemax"},
    "constrained_softmax": {"attention": "constrained_softmax", "fertility": CONSTANT},
    "constrained_sparsemax": {"attention": "constrained_sparsemax", "fertility": CONSTANT},
    "constrained_sparsemax_table": {"attention": "constrained_sparsemax", "fertility": TABLE},
}
KINDS = {**TRANSFORMERS, **RECURRENT}
OUTPUTS = ("softmax", "entmax15", "sparsemax")  # kinds whose searches are looked into
KEYS = ("kind", "seed")
CHOSEN = ("size", "dim", "hidden", "layers", "dropout", "merges", "rate", "fall", "smoothing", "steps", "tokens")
FOUND = ("curve", "train_loss", "epochs", "train_seconds")
ABOUT = ("parameters", "captured", "seconds", "device")
MEASURED = ("val_bleu", "penalty", "bleu", "brevity", "support", "exact", "complete", "empty", "repeated", "length")
COLUMNS = (*KEYS, *CHOSEN, *MEASURED, *FOUND, *ABOUT)
TRIAL_KEYS = ("kind", *CHOSEN)
TRIAL_COLUMNS = (*TRIAL_KEYS, "val_bleu", *FOUND, *ABOUT)
WIDTH_KEYS = (*KEYS, "beam")
WIDTH_COLUMNS = (*WIDTH_KEYS, "bleu", "brevity", "exact", "complete", "empty", "repeated", "length", "seconds")
ALPHA_KEYS = (*KEYS, "part", "layer", "head")
ALPHA_COLUMNS = (*ALPHA_KEYS, "alpha")


@dataclass(frozen=True)
class Place:
    """Where packed sets are and outputs go, what to compute on, with graphs or not, how much (None: all), what size,
    and the most steps of settings that rows take from trials (None: any)."""

    cache: str
    results: str
    device: str
    captured: bool = True
    steps: int | None = None
    tokens: int | None = None
    pairs: int | None = None
    small: bool = False
    most: int | None = None


@dataclass(frozen=True)
class Settings:
    """What validation chooses: subwords, sizes, dropout, whether merges are left out, rate, smoothing, how long."""

    size: int = 4000
    dim: int = 256
    hidden: int = 512
    layers: int = 3
    dropout: float = 0.3
    merges: int = 1
    rate: float = 1.5e-3
    fall: str = "cosine"
    smoothing: float = 0.1
    steps: int = 8000
    tokens: int = 4096

    @property
    def columns(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Settings:
        whole: dict[str, Any] = {
            key: int(row[key]) for key in ("size", "dim", "hidden", "layers", "merges", "steps", "tokens")
        }
        real = {key: float(row[key]) for key in ("dropout", "rate", "smoothing")}
        return cls(**whole, **real, fall=str(row["fall"]))


# Half as many steps of twice as many tokens, which see the same pairs as often.
WIDE = Settings(merges=0, rate=2e-3, steps=4000, tokens=8192)
RECURRENT_SETTINGS = replace(WIDE, dim=320, hidden=1, layers=1, dropout=0.4, steps=2000)
# Of a size that a CPU trains in half an hour; nothing in them was chosen by trials.
SMALL = Settings(dim=128, hidden=256, dropout=0.1, merges=0, rate=2e-3, steps=3400, tokens=2048)
SMALL_RECURRENT = Settings(dim=192, hidden=1, layers=1, dropout=0.2, merges=0, rate=2e-3, steps=2800, tokens=2048)


def grid(kind: str) -> list[Settings]:
    """List what is tried for a kind."""
    if kind == "softmax":
        return [Settings(), Settings(size=8000), Settings(merges=0), WIDE, replace(WIDE, size=8000)]
    if kind in ("entmax15", "sparsemax"):
        smoothed = [Settings(smoothing=smoothing) for smoothing in (0.0, 0.01, 0.1)]
        dropouts = (0.1, 0.2, 0.3) if kind == "entmax15" else (0.1,)
        return [*smoothed, *(replace(WIDE, smoothing=0.0, dropout=dropout) for dropout in dropouts)]
    if kind == "recurrent":
        return [RECURRENT_SETTINGS, replace(RECURRENT_SETTINGS, dim=512, dropout=0.5)]
    return []


def small(kind: str) -> Settings:
    """Return the settings of a small network; sparse outputs are trained without smoothing."""
    settings = SMALL_RECURRENT if kind in RECURRENT else SMALL
    return replace(settings, smoothing=0.0) if "output" in KINDS[kind] else settings


def tried_kind(kind: str) -> str:
    """Return the kind whose trials say the sizes of another."""
    return "recurrent" if kind in RECURRENT else "softmax"


def network(data: PairSet, kind: str, settings: Settings, seed: int, place: Place) -> TranslationTask:
    """Make a network: the seed draws its weights, the same for all kinds where shapes are."""
    torch.manual_seed(seed)
    changes = dict(KINDS[kind])
    output = TokenOutputConfig(changes.pop("output", "softmax"), label_smoothing=settings.smoothing)
    changes["architecture"] = "recurrent" if kind in RECURRENT else "transformer"
    config = TranslatorConfig(
        dim=settings.dim,
        hidden_dim=settings.hidden,
        layers=settings.layers,
        dropout=settings.dropout,
        output=output,
        **changes,
    )
    task = TranslationTask(data.vocabulary, config)
    if isinstance(task.model, RecurrentTranslator) and config.fertility is TABLE:
        assert task.model.look.fertility is not None
        task.model.look.fertility.table.copy_(torch.tensor(data.fertilities))
    task.model.output.chunk = settings.tokens
    return task.to(place.device)


def train(job: Mapping[str, Any], place: Place) -> tuple[TranslationTask, PairSet, dict[str, Any]]:
    """Train the network of a job; return it, its set, and what was found on the way."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    settings, kind, seed = Settings.of(job), job["kind"], int(job["seed"])
    data = load(place.cache, settings.size, "cased" if kind.endswith("cased") else "lower")
    task = network(data, kind, settings, seed, place)
    steps = place.steps or settings.steps
    rate = Rate(settings.rate, max(1, min(2000, steps // 5)), settings.fall, interval="step")
    how = Training(rate, steps, place.tokens or settings.tokens, bool(settings.merges))
    # The recurrent network asks how long sources are, which a graph cannot.
    captured = place.captured and place.device.startswith("cuda") and kind in TRANSFORMERS
    loop = Loop(task.model, how, captured)
    torch.manual_seed(seed)
    begin = time.perf_counter()
    found = loop.fit(data.parts["train"], seed, lambda: greedy_bleu(task, data, place))
    task.eval()
    found["parameters"] = sum(weight.numel() for weight in loop.weights)
    found["captured"] = int(captured)
    found["device"] = name_device(place.device)
    return task, data, {**found, "began": begin}


def lines_of(data: PairSet, part: str, place: Place) -> tuple[list[str], list[str]]:
    """Return sources and references of a part."""
    pairs = data.parts[part].pairs[: place.pairs]
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def search(task: TranslationTask, lines: list[str], beam: int, penalty: float = 0.0) -> list[Translation]:
    """Translate lines."""
    task.eval()
    room = max(256, 40_000 // beam)
    return translate(task, lines, SearchConfig(beam, penalty, MOST), batch_tokens=room)


def greedy_bleu(task: TranslationTask, data: PairSet, place: Place) -> float:
    """Return the BLEU of greedy translations of the validation part."""
    sources, references = lines_of(data, "val", place)
    texts = [each.text for each in search(task, sources, 1)]
    return measure_bleu(texts, references, task.vocabulary.form).score


def try_out(job: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the row of a trial: the validation of one setting, by a beam."""
    task, data, found = train({**job, "seed": 0}, place)
    sources, references = lines_of(data, "val", place)
    score = measure_bleu([each.text for each in search(task, sources, BEAM)], references, task.vocabulary.form).score
    return {"trial": {**{key: job[key] for key in TRIAL_KEYS}, "val_bleu": round(score, 3), **_timed(found)}}


def run(job: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return what goes into the files: a row, what beams of other widths found, alphas; write the translations."""
    task, data, found = train(job, place)
    form, keys = task.vocabulary.form, {key: job[key] for key in KEYS}
    sources, references = lines_of(data, "val", place)
    validation = {
        penalty: measure_bleu([each.text for each in search(task, sources, BEAM, penalty)], references, form).score
        for penalty in PENALTIES
    }
    penalty = max(validation, key=lambda each: (validation[each], -each))
    sources, references = lines_of(data, "test", place)
    plain = search(task, sources, BEAM)
    best = plain if penalty == 0 else search(task, sources, BEAM, penalty)
    row = {**keys, **{key: job[key] for key in CHOSEN}, "val_bleu": round(validation[penalty], 3), "penalty": penalty}
    row |= {**_measure(plain, references, form), "support": round(count_support(task, data, place), 3)}
    report = measure_bleu([each.text for each in best], references, form)
    row |= {"bleu": round(report.score, 3), "brevity": round(report.brevity, 4)}
    write_lines(Path(place.results, "outputs", f"{job['kind']}-{job['seed']}.txt.xz"), [each.text for each in best])
    out: dict[str, Any] = {"widths": [], "alphas": []}
    for beam in WIDTHS if job["kind"] in OUTPUTS else ():
        began = time.perf_counter()
        translations = search(task, sources, beam)
        seconds = round(time.perf_counter() - began, 2)
        out["widths"].append({**keys, "beam": beam, **_measure(translations, references, form), "seconds": seconds})
    if job["kind"] == "adaptive":
        for part, alphas in task.model.alphas.items():  # type: ignore[operator, union-attr]
            for layer, heads in enumerate(alphas.tolist()):
                rows = [
                    {**keys, "part": part, "layer": layer, "head": h, "alpha": round(a, 4)} for h, a in enumerate(heads)
                ]
                out["alphas"] += rows
    return {"run": {**row, **_timed(found)}, **out}


def _timed(found: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in found.items() if key != "began"}
    return {**rest, "seconds": round(time.perf_counter() - found["began"], 1)}


def _measure(translations: list[Translation], references: list[str], form: Any) -> dict[str, Any]:
    """Return what is measured of translations by a plain search."""
    texts, count = [each.text for each in translations], len(translations)
    report = measure_bleu(texts, references, form)
    tokens = [len(each.hypotheses[0].tokens) if each.hypotheses else 0 for each in translations]
    return {
        "bleu": round(report.score, 3),
        "brevity": round(report.brevity, 4),
        "exact": round(sum(each.exact for each in translations) / count, 4),
        "complete": round(sum(each.complete for each in translations) / count, 4),
        "empty": round(sum(not text.strip() for text in texts) / count, 4),
        "repeated": round(sum(map(repeats, texts)) / count, 4),
        "length": round(sum(tokens) / count, 3),
    }


@torch.no_grad()
def count_support(task: TranslationTask, data: PairSet, place: Place) -> float:
    """Return the mean number of tokens that can follow, given the reference up to there."""
    part, device = data.parts["test"], task.device
    total = count = 0
    rows = list(range(len(part)))[: place.pairs]
    for first in range(0, len(rows), 100):
        batch = collate_pairs([part[row] for row in rows[first : first + 100]])
        target = batch["target"].to(device)
        support = task.model.count_support({"source": batch["source"].to(device), "target": target})
        there = target != PAD
        total += int(support[there].sum())
        count += int(there.sum())
    return total / count


def write_lines(place: Path, lines: list[str]) -> None:
    """Write lines, compressed."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(place, "wt", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{' '.join(line.splitlines())}\n" for line in lines)


def read_lines(place: Path) -> list[str]:
    """Read what :func:`write_lines` wrote."""
    with lzma.open(place, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]
