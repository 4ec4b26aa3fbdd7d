"""Goals of continuous layers, of structured maps, and of models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import omegamax
from omegamax import structured
from on_gpu import DEVICE, models
from on_gpu.clock import Run
from on_gpu.goal import Goal, Key, both_ways

DISCRETE = ("softmax attention", "torch")
HOST = ("through the host", "omegamax")
CONTINUOUS = {1.0: (2.0, "13"), 1.5: (2.5, "23"), 2.0: (2.5, "20"), 4 / 3: (2.5, "86")}
MULTIMODAL = {1: (3.0, "20"), 2: (6.0, "102"), 4: (8.0, "108")}


def goals(scale: str) -> list[Goal]:
    tiny = scale == "tiny"
    return [*_continuous(tiny), *_variation(tiny), *_structures(tiny), *_models(tiny)]


def _continuous(tiny: bool) -> list[Goal]:
    batch, grid, width, per_axis = (2, (3, 3), 4, 3) if tiny else (64, (14, 14), 512, 10)
    shape = f"{batch}x{grid[0] * grid[1]}x{width}"

    def make(work: str, layer: torch.nn.Module) -> dict[Key, Run]:
        generator = torch.Generator().manual_seed(0)
        values = torch.randn(batch, grid[0] * grid[1], width, generator=generator).to(DEVICE)
        scores = torch.randn(batch, grid[0] * grid[1], generator=generator).to(DEVICE)
        layer.to(DEVICE).train()

        def discrete(v: Tensor, z: Tensor) -> Tensor:
            return (z.softmax(-1)[:, None] @ v)[:, 0]

        def ours(v: Tensor, z: Tensor) -> Tensor:
            return layer(v, z.softmax(-1))[0]

        return {DISCRETE: both_ways(discrete, values, scores), (work, "omegamax"): both_ways(ours, values, scores)}

    basis = partial(omegamax.basis.GaussianRBF.grid, per_axis, 2, 0.001)
    found = []
    for alpha, (aim, before) in CONTINUOUS.items():
        work = f"ContinuousAttention(alpha {alpha:.3g})"
        layer = partial(_layer, omegamax.nn.ContinuousAttention, basis, alpha=alpha, positions=grid)
        made = partial(_make_with, make, work, layer)
        found.append(Goal(work, shape, "float32", "forward+backward", made, DISCRETE, aim, before))
    for most, (aim, before) in MULTIMODAL.items():
        work = f"MultimodalAttention(K <= {most})"
        layer = partial(_layer, omegamax.nn.MultimodalAttention, basis, most, positions=grid)
        made = partial(_make_with, make, work, layer)
        found.append(Goal(work, shape, "float32", "forward+backward", made, DISCRETE, aim, before))
    return found


def _layer(kind: Callable, basis: Callable, *rest, **options) -> torch.nn.Module:
    return kind(basis(), *rest, **options)


def _make_with(make: Callable, work: str, layer: Callable) -> dict[Key, Run]:
    return make(work, layer())


def _on_host(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """What a user can do without any kernel for a GPU."""
    return lambda z: function(z.cpu()).to(z.device)


def _variation(tiny: bool) -> list[Goal]:
    lines: list[tuple[str, tuple[int, ...], Callable[[Tensor], Tensor], float, str]] = [
        ("tvmax", (4, 3, 3) if tiny else (512, 14, 14), lambda z: omegamax.tvmax(z, 0.1), 1.0, "79-94 ms"),
        ("tvmax", (2, 4, 4) if tiny else (64, 64, 64), lambda z: omegamax.tvmax(z, 0.1), 10.0, "107 ms"),
        ("fusedmax", (4, 9) if tiny else (4096, 1000), lambda z: omegamax.fusedmax(z, 0.25), 1.0, "12 ms"),
        ("oscarmax", (4, 9) if tiny else (4096, 256), lambda z: omegamax.oscarmax(z, 0.1), 2.0, "16 ms"),
    ]
    lines += [("fusedmax", (2, 9) if tiny else (64, 1000), lambda z: omegamax.fusedmax(z, 0.25), 1.0, "")]
    return [_against_host(*line, unit="ms") for line in lines]


def _structures(tiny: bool) -> list[Goal]:
    chains = lambda z: structured.sparsemap(z, structured.Sequence())  # noqa: E731
    trees = lambda z: structured.sparsemap(z, structured.DependencyTree())  # noqa: E731
    pairs = lambda z: structured.sparsemap(z, structured.Matching())  # noqa: E731
    subsets = lambda z: omegamax.sequential_k_subsets(z, min(5, z.shape[-1]), 0.5)  # noqa: E731
    return [
        _against_host("sequential_k_subsets", (3, 6) if tiny else (128, 50), subsets, 5.0, "565 ms", unit="ms"),
        _against_host("sparsemap of sequences", (2, 3, 3) if tiny else (32, 50, 8), chains, 1.1),
        _against_host("sparsemap of matchings", (2, 3, 3) if tiny else (64, 20, 20), pairs, 1.1),
        _against_host("sparsemap of trees", (2, 3, 3) if tiny else (32, 30, 30), trees, 1.1),
    ]


def _against_host(
    work: str, shape: tuple[int, ...], function: Callable, aim: float, before: str = "", unit: str = "over"
) -> Goal:
    def make() -> dict[Key, Run]:
        z = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(DEVICE)
        return {HOST: both_ways(_on_host(function), z), (work, "omegamax"): both_ways(function, z)}

    return Goal(work, "x".join(map(str, shape)), "float32", "forward+backward", make, HOST, aim, before, unit)


def _models(tiny: bool) -> list[Goal]:
    lines = [
        # model, attention, dropout, batch, length, aim, before
        ("gpt2", "omegamax:entmax15", 0.1, 8, 1024, 1.15, "2.4"),
        ("bert", "omegamax:entmax15", 0.1, 8, 512, 1.15, "1.7"),
        ("bert", "omegamax:entmax15", 0.0, 64, 128, 1.1, "1.5-1.8"),
        ("vit", "omegamax:entmax15", 0.0, 32, 197, 1.1, "1.2-1.3"),
        ("bert", "omegamax:softmax", 0.0, 8, 512, 1.0, "2.2-2.4"),
    ]
    found = []
    for name, attention, dropout, batch, length, aim, before in lines[:1] if tiny else lines:
        batch, length = (2, 8) if tiny else (batch, length)
        work = f"{name}, {attention}" + (f", dropout {dropout:g}" if dropout else "")
        make = partial(_training, work, name, attention, dropout, batch, length)
        found.append(Goal(work, f"{batch}x{length}", "bfloat16", "train step", make, ("sdpa", "torch"), aim, before))
    work, tokens = "llama, omegamax:entmax15", 4 if tiny else 256
    make = partial(_writing, work, tokens)
    return [*found, Goal(work, f"1x{tokens}", "bfloat16", "generate", make, ("sdpa", "torch"), 1.1, "3.4")]


def _training(work: str, name: str, attention: str, dropout: float, batch: int, length: int) -> dict[Key, Run]:
    given = models.inputs(name, batch, length, DEVICE)
    if "attention_mask" in given:
        given["attention_mask"].fill_(1)

    def step(kind: str) -> Run:
        model = models.make(name, kind, DEVICE, dropout).to(torch.bfloat16).train()
        given_here = {key: x.to(torch.bfloat16) if x.is_floating_point() else x for key, x in given.items()}
        return partial(models.train_step, model, given_here)

    return {("sdpa", "torch"): step("sdpa"), (work, "omegamax"): step(attention)}


def _writing(work: str, tokens: int) -> dict[Key, Run]:
    prompt = {key: x[:, :8] for key, x in models.inputs("llama", 1, 16, DEVICE).items()}
    prompt["attention_mask"].fill_(1)

    def write(kind: str) -> Run:
        model = models.make("llama", kind, DEVICE).to(torch.bfloat16)
        return partial(model.generate, **prompt, max_new_tokens=tokens, do_sample=False)

    return {("sdpa", "torch"): write("sdpa"), (work, "omegamax"): write("omegamax:entmax15")}
