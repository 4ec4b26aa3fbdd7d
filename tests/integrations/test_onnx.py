"""ONNX files by both exporters of torch: run by onnxruntime they equal the maps, for every batch size."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import omegamax
from omegamax import nn, structured

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

TOLERANCE = 1e-6
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]

CLOSED: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": omegamax.softmax,
    "sparsemax": omegamax.sparsemax,
    "entmax15": omegamax.entmax15,
    "argmax": lambda z: omegamax.entmax(z, math.inf),
    "k_subsets": lambda z: omegamax.k_subsets(z, 2),
    "k_subsets, at most": lambda z: omegamax.k_subsets(z, 2, at_most=True),
    "masked": lambda z: omegamax.entmax15(z, mask=z > -1),
    "first axis": lambda z: omegamax.sparsemax(z.unsqueeze(1).expand(-1, 3, -1), dim=1),
    "half": lambda z: omegamax.sparsemax(z.half()).float(),
}
UNROLLED: dict[str, Callable[[Tensor], Tensor]] = {
    "entmax, alpha 0.5": lambda z: omegamax.entmax(z, 0.5),
    "entmax, alpha 1.25": lambda z: omegamax.entmax(z, 1.25),
    "entmax, alpha 3": lambda z: omegamax.entmax(z, 3.0),
    "normmax, alpha 1.5": lambda z: omegamax.normmax(z, 1.5),
    "normmax": omegamax.normmax,
    "normmax, alpha 4": lambda z: omegamax.normmax(z, 4.0),
    "constrained_softmax": lambda z: omegamax.constrained_softmax(z.clamp(min=-9), 0.5),
    "constrained_sparsemax": lambda z: omegamax.constrained_sparsemax(z.clamp(min=-9), 0.5, lower=0.02),
}
CHAINS: dict[str, Callable[[Tensor], Tensor]] = {
    "fusedmax": lambda z: omegamax.fusedmax(z, 0.3),
    "fusedmax over entmax15": lambda z: omegamax.fusedmax(z, 0.3, base="entmax15"),
    "tv_prox_1d": lambda z: omegamax.tv_prox_1d(z.clamp(min=-9), 0.3),
}


class Layer(torch.nn.Module):
    def __init__(self, *functions: Callable[..., Tensor]):
        super().__init__()
        self.functions = functions

    def forward(self, z: Tensor) -> tuple[Tensor, ...]:
        return tuple(f(z) for f in self.functions)


def scores(rows: int, size: int = 5) -> Tensor:
    """Ordinary rows, and one each of ties, of a single entry, of large scores and of none."""
    z = torch.randn(rows, size) * 2
    z[0], z[1, 1:], z[2] = 0, -math.inf, 1e4 * z[2]
    z[3] = -math.inf
    return z


def worst_error(module: torch.nn.Module, args: tuple[Tensor, ...], others: tuple[Tensor, ...], path, dynamo: bool):
    """The largest difference of what onnxruntime and the module itself return, for two batch sizes."""
    module.eval()
    names = [f"x{i}" for i in range(len(args))]
    if dynamo:
        batch = torch.export.Dim("batch", min=2, max=64)
        torch.onnx.export(
            module,
            args,
            str(path),
            dynamo=True,
            input_names=names,
            dynamic_shapes=({0: batch},) * len(args),
            verbose=False,
        )
    else:
        axes = {name: {0: "batch"} for name in names}
        torch.onnx.export(module, args, str(path), dynamo=False, input_names=names, dynamic_axes=axes)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    for given in (args, others):
        values = session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), given, strict=True)})
        wanted = module(*given)
        for value, want in zip(values, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            worst = max(worst, (torch.from_numpy(value) - want.detach()).abs().max().item())
    return worst


@pytest.mark.parametrize("name", [*CLOSED, *UNROLLED])
def test_traced_maps(name: str, tmp_path):
    layer = Layer({**CLOSED, **UNROLLED}[name])
    assert worst_error(layer, (scores(6),), (scores(11),), tmp_path / "map.onnx", dynamo=False) <= TOLERANCE


def test_exported_closed_forms(tmp_path):
    layer = Layer(*CLOSED.values())
    assert worst_error(layer, (scores(6),), (scores(11),), tmp_path / "maps.onnx", dynamo=True) <= TOLERANCE


# Of the maps with an alpha, one for each solver: it is a number in the same steps.
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in UNROLLED if not name.endswith((" 1.25", " 1.5", " 4"))])
def test_exported_maps_in_many_steps(name: str, tmp_path):
    layer = Layer(UNROLLED[name])
    assert worst_error(layer, (scores(6),), (scores(11),), tmp_path / "map.onnx", dynamo=True) <= TOLERANCE


# Steps for each entry, for each pair of segments: a row of three has every kind of them.
@pytest.mark.parametrize("dynamo", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["traced", "exported"])
@pytest.mark.parametrize("name", CHAINS)
def test_maps_over_chains(name: str, dynamo: bool, tmp_path):
    rows = (scores(6, 3),), (scores(11, 3),)
    assert worst_error(Layer(CHAINS[name]), *rows, tmp_path / "map.onnx", dynamo) <= TOLERANCE


def test_rows_of_another_length(tmp_path):
    z, path = torch.randn(4, 5), str(tmp_path / "maps.onnx")
    layer = Layer(omegamax.sparsemax, omegamax.entmax15, CLOSED["k_subsets"], UNROLLED["entmax, alpha 3"])
    torch.onnx.export(layer, (z,), path, dynamo=False, input_names=["z"], dynamic_axes={"z": {0: "batch", 1: "size"}})
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in ((4, 5), (7, 12)):
        z = torch.randn(shape)
        for value, want in zip(session.run(None, {"z": z.numpy()}), layer(z), strict=True):
            assert (torch.from_numpy(value) - want).abs().max() <= TOLERANCE


class Attention(torch.nn.Module):
    def __init__(self, transform: str, is_causal: bool):
        super().__init__()
        self.transform, self.is_causal = transform, is_causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return omegamax.attention(q, k, v, transform=self.transform, is_causal=self.is_causal)


def heads(batch: int) -> tuple[Tensor, ...]:
    return tuple(torch.randn(batch, 2, 5, 4) for _ in range(3))


both_exporters = pytest.mark.parametrize(
    "dynamo", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["traced", "exported"]
)


@both_exporters
@pytest.mark.parametrize("transform, is_causal", [("entmax15", False), ("sparsemax", True)])
def test_attention(transform: str, is_causal: bool, dynamo: bool, tmp_path):
    layer = Attention(transform, is_causal)
    assert worst_error(layer, heads(3), heads(4), tmp_path / "attention.onnx", dynamo) <= TOLERANCE


class SelfAttention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, transform="entmax15", batch_first=True)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.attention(x, x, x, key_padding_mask=padding)[0]


@both_exporters
def test_multihead_attention(dynamo: bool, tmp_path):
    def batch(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, 5, 8), torch.arange(5) >= torch.randint(1, 6, (size, 1))

    assert worst_error(SelfAttention(), batch(3), batch(5), tmp_path / "heads.onnx", dynamo) <= TOLERANCE


class TabularBlock(torch.nn.Module):
    """Two decision steps of TabNet: a sparse mask of features, which remembers those it had."""

    def __init__(self):
        super().__init__()
        self.normalise, self.attend = torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 6)
        self.decide, self.mask = torch.nn.Linear(6, 3), nn.Sparsemax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.normalise(x)
        prior, out = torch.ones_like(x), 0
        for _ in range(2):
            mask = self.mask(prior * self.attend(x))
            prior = prior * (1.3 - mask)
            out = out + self.decide(mask * x).relu()
        return out


@both_exporters
def test_tabular_block(dynamo: bool, tmp_path):
    rows = (torch.randn(4, 6),), (torch.randn(9, 6),)
    assert worst_error(TabularBlock(), *rows, tmp_path / "block.onnx", dynamo) <= TOLERANCE


def test_learnt_alpha(tmp_path):
    rows = (torch.randn(4, 6),), (torch.randn(9, 6),)
    assert worst_error(nn.Entmax(1.3, learnable=True), *rows, tmp_path / "map.onnx", dynamo=False) <= TOLERANCE


REFUSED: dict[str, Callable[[Tensor], Tensor]] = {
    "tvmax": lambda z: omegamax.tvmax(z.unsqueeze(0), 0.1),
    "graph_fusedmax": lambda z: omegamax.graph_fusedmax(z, torch.tensor([[0, 1], [1, 2]]), 0.1),
    "oscarmax": lambda z: omegamax.oscarmax(z, 0.1),
    "sequential_k_subsets": lambda z: omegamax.sequential_k_subsets(z, 2, 0.5),
    "tv_prox_2d": lambda z: omegamax.tv_prox_2d(z, 0.1),
    "sparsemap": lambda z: structured.sparsemap(z, structured.Matching()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_says_so(name: str, tmp_path):
    layer, z = Layer(REFUSED[name]), torch.randn(4, 5)
    with pytest.raises(NotImplementedError, match=f"{name}: cannot be exported"):
        torch.onnx.export(layer, (z,), str(tmp_path / "map.onnx"), dynamo=False)
    with pytest.raises(NotImplementedError, match=f"{name}: cannot be exported"):
        torch.export.export(layer, (z,))
