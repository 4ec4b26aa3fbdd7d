"""Archives of ``torch.export`` hold plain operators of torch: they run where omegamax is not installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import omegamax
from omegamax import nn

PROGRAM = """
import sys
sys.modules["omegamax"] = None  # an import of it fails
import torch
module = torch.export.load(sys.argv[1]).module()
for z, wanted in torch.load(sys.argv[2]):
    for p, want in zip(module(z), wanted, strict=True):
        assert (p - want).abs().max() <= 1e-6, (z.shape, (p - want).abs().max())
assert sys.modules["omegamax"] is None
"""


class Model(torch.nn.Module):
    def __init__(self, *functions: Callable[[Tensor], Tensor]):
        super().__init__()
        self.functions = functions
        self.heads = nn.MultiheadAttention(6, 2, transform="sparsemax", batch_first=True)

    def forward(self, z: Tensor) -> tuple[Tensor, ...]:
        x = z.unsqueeze(-1) * torch.ones(6)
        return (*(f(z) for f in self.functions), self.heads(x, x, x)[0])


CLOSED = (omegamax.softmax, omegamax.sparsemax, omegamax.entmax15, lambda z: omegamax.k_subsets(z, 2))
UNROLLED = (
    nn.Entmax(1.3, learnable=True),
    omegamax.normmax,
    lambda z: omegamax.constrained_softmax(z, 0.5),
    lambda z: omegamax.constrained_sparsemax(z, 0.5),
    lambda z: omegamax.fusedmax(z, 0.2),
)


@pytest.mark.parametrize(
    "functions", [CLOSED, pytest.param(UNROLLED, marks=pytest.mark.slow)], ids=["closed forms", "unrolled steps"]
)
def test_archive_runs_without_omegamax(functions: tuple[Callable[[Tensor], Tensor], ...], tmp_path):
    model, batch = Model(*functions).eval(), torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(model, (torch.randn(4, 3),), dynamic_shapes=({0: batch},))
    assert not any("omegamax" in str(node.target) for node in program.graph.nodes)
    torch.export.save(program, tmp_path / "model.pt2")
    given = [torch.randn(rows, 3) for rows in (4, 9)]
    torch.save([(z, tuple(p.detach() for p in model(z))) for z in given], tmp_path / "rows.pt")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "model.pt2"), str(tmp_path / "rows.pt")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_compiled_code_keeps_the_operators():
    """Only what is exported is written out: a compiled model calls the kernels."""
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph

    torch.compile(lambda z: omegamax.entmax15(z) + 1, backend=keep, fullgraph=True)(torch.randn(3, 5))
    torch._dynamo.reset()
    assert any("omegamax" in str(node.target) for node in graphs[0].graph.nodes)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_scripts_traced_by_the_older_compiler():
    z = torch.randn(3, 5)
    traced = torch.jit.trace(omegamax.sparsemax, (z,))
    assert "omegamax::" not in str(traced.graph)
    z = torch.randn(6, 5)
    assert (traced(z) - omegamax.sparsemax(z)).abs().max() <= 1e-6
