"""Continuous layers as one compiled graph, which serves batches of every size."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from omegamax.basis import GaussianRBF
from omegamax.nn import ContinuousAttention, MultimodalAttention

F64 = torch.float64
LINE = GaussianRBF.grid(5, 1, 0.01, dtype=F64)
PLANE = GaussianRBF.grid(4, 2, 0.01, dtype=F64)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def step(layer: torch.nn.Module, values: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)  # of starts, and of the number of components
    context, density = layer(values, weights)
    return context, density.mean, *torch.autograd.grad(context.square().sum(), (values, weights))


def check(layer: torch.nn.Module, width: int, backend: str) -> None:
    """Compare with the layer as it is; the second size is traced anew, with a size that is left open, and no other."""
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(layer, backend=counter, fullgraph=True)
    for batch in (3, 4, 7):
        torch.manual_seed(batch)
        values = torch.randn(batch, width, 5, dtype=F64, requires_grad=True)
        weights = torch.rand(batch, width, dtype=F64, requires_grad=True)
        for found, wanted in zip(step(compiled, values, weights), step(layer, values, weights), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-12)
    assert counter.frame_count == 2


@pytest.mark.parametrize("alpha", [1.5, *(pytest.param(alpha, marks=pytest.mark.slow) for alpha in (1.0, 4 / 3, 2.0))])
def test_over_the_line(alpha):
    check(ContinuousAttention(LINE, alpha), 9, "aot_eager")


# Of 1.5, the code of the compiler is tested.
@pytest.mark.parametrize("alpha", [2.0, *(pytest.param(alpha, marks=pytest.mark.slow) for alpha in (1.0, 4 / 3))])
def test_over_the_plane(alpha):
    check(ContinuousAttention(PLANE, alpha, positions=(3, 4)), 12, "aot_eager")


@pytest.mark.parametrize(
    "components, most, training",
    [
        ("fixed", 1, True),
        pytest.param("fixed", 4, False, marks=pytest.mark.slow),
        pytest.param("random", 4, True, marks=pytest.mark.slow),
        pytest.param("selected", 2, True, marks=pytest.mark.slow),
        pytest.param("selected", 2, False, marks=pytest.mark.slow),  # as random ones are in evaluation
    ],
)
def test_several_components(components, most, training):
    layer = MultimodalAttention(PLANE, most, components=components, positions=(3, 4), iterations=1, restarts=2)
    check(layer.train(training), 12, "aot_eager")


@pytest.mark.slow
@pytest.mark.inductor
def test_code_of_the_compiler():
    check(ContinuousAttention(PLANE, 1.5, positions=(3, 4)), 12, "inductor")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.inductor
def test_code_of_the_compiler_for_several_components():
    check(MultimodalAttention(PLANE, 2, positions=(3, 4), iterations=2, restarts=2), 12, "inductor")
