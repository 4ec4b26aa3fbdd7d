"""Every registered map under ``torch.compile``, ``torch.export`` and the checks for custom operators."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from contracts.records import RECORDS, every_map, wide
from omegamax.maps import MapRecord

# What to call the operators with: tensors by argument name, with the rank of the scores.
ARGUMENTS = {"alpha": 1.7, "k": 2.0, "upper": 0.6, "lower": 0.05, "weights": 0.5, "strength": 0.3, "w": 0.1}
NUMBERS = {"dim": 1, "k": 2, "at_most": False}
# Those of other arguments than scores and a parameter or two for a row have tests of their own.
OTHERS = {"contour", "best_pairs", "best_sequential_subset_score", "sequential_k_subsets"}
OTHERS |= {"tv_prox_1d_spread", "tv_prox_2d_spread", "tv_prox_graph", "tv_prox_graph_spread"}
OTHERS |= {"with_slope", "contour_gradient", "fixed_draws", "weighted_em", "weighted_em_vjp"}
OTHERS |= {"fit_mixtures", "fit_mixtures_vjp", "choose_start"}
OTHERS |= {"attention", "attention_backward", "attention_support"}
OTHERS |= {"entmax_loss_rows", "entmax_loss_rows_vjp", "linear_entmax_loss"}
EVERY = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith("omegamax::")}
OPERATORS = sorted(EVERY - {f"omegamax::{name}" for name in OTHERS})
# Maps whose solvers are searches: no graph of plain operators does what they do.
SEARCHED = {"tvmax", "graph_fusedmax", "oscarmax", "sequential_k_subsets"}
WARNINGS = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def forward_and_backward(f, z: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    leaf = z.detach().clone().requires_grad_()
    p = f(leaf)
    return p.detach(), torch.autograd.grad(p, leaf, g)[0]


@WARNINGS
@every_map
@pytest.mark.parametrize("dim", [-1, pytest.param(0, marks=pytest.mark.slow)])
def test_compiled_map_equals_eager(record: MapRecord, dim: int):
    z, g = wide(record, 6, 7), torch.randn(6, 7, dtype=torch.float64)
    compiled = torch.compile(lambda z: record(2 * z, dim=dim) + 1, fullgraph=True, backend="aot_eager")
    for ours, eager in zip(
        forward_and_backward(compiled, z, g),
        forward_and_backward(lambda z: record(2 * z, dim=dim) + 1, z, g),
        strict=True,
    ):
        assert (ours - eager).abs().max() <= 1e-13
    with torch.no_grad():
        assert (compiled(z) - record(2 * z, dim=dim) - 1).abs().max() <= 1e-13


@WARNINGS
@every_map
def test_compiled_map_takes_masks_and_half_precision(record: MapRecord):
    z = wide(record, 6, 7)
    mask = torch.tensor([True, True, False, True, True, False, True])
    compiled = torch.compile(lambda z, mask: record(z, mask=mask), fullgraph=True, backend="aot_eager")
    assert (compiled(z, mask) - record(z, mask=mask)).abs().max() <= 1e-13
    half = z.bfloat16()
    assert compiled(half, mask).dtype == torch.bfloat16
    assert (compiled(half, mask).float() - record(half, mask=mask).float()).abs().max() <= 2**-8


@WARNINGS
@every_map
def test_compiled_map_takes_any_batch_size(record: MapRecord):
    compiled = torch.compile(record, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows, size in ((3, 5), (8, 6), (4, 9)):
        z = wide(record, rows, size)
        assert (compiled(z) - record(z)).abs().max() <= 1e-13


@pytest.mark.slow
@pytest.mark.inductor
@WARNINGS
def test_inductor_code_equals_eager():
    """All maps in one graph: one after another they would be much the same C++, compiled again for minutes."""
    scores, g = [wide(record, 6, 7) for record in RECORDS], torch.randn(len(RECORDS), 6, 7, dtype=torch.float64)

    def every(*scores: Tensor) -> Tensor:
        return torch.stack([record(2 * z) + 1 for record, z in zip(RECORDS, scores, strict=True)])

    def outputs_and_gradients(f) -> tuple[Tensor, ...]:
        leaves = [z.detach().clone().requires_grad_() for z in scores]
        p = f(*leaves)
        return p.detach(), torch.stack(torch.autograd.grad(p, leaves, g))

    compiled = torch.compile(every, fullgraph=True)
    for ours, eager in zip(outputs_and_gradients(compiled), outputs_and_gradients(every), strict=True):
        far = (ours - eager).abs().amax((1, 2)) > 1e-12
        assert not [record.name for record, bad in zip(RECORDS, far, strict=True) if bad]


class _Layer(nn.Module):
    def __init__(self, record: MapRecord):
        super().__init__()
        self.record = record

    def forward(self, z: Tensor) -> Tensor:
        return self.record(z)


@WARNINGS
@every_map
def test_exported_program_survives_a_round_trip(record: MapRecord, tmp_path):
    z = wide(record, 4, 3)  # steps are written out for each entry
    batch = torch.export.Dim("batch", min=2, max=64)
    if record.name in SEARCHED:
        with pytest.raises(NotImplementedError, match=f"{record.name}: cannot be exported"):
            torch.export.export(_Layer(record), (z,), dynamic_shapes=({0: batch},))
        return
    program = torch.export.export(_Layer(record), (z,), dynamic_shapes=({0: batch},))
    assert not any("omegamax" in str(node.target) for node in program.graph.nodes)
    path = tmp_path / "map.pt2"
    torch.export.save(program, path)
    loaded = torch.export.load(path).module()
    for rows in (4, 11):
        z = wide(record, rows, 3)
        assert (loaded(z) - record(z)).abs().max() <= 1e-13


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("grad", [False, True], ids=["constant", "differentiated"])
@WARNINGS
def test_operator_passes_the_checks_of_torch_library(name: str, grad: bool):
    operator = getattr(torch.ops.omegamax, name.removeprefix("omegamax::")).default
    arguments = []
    for argument in operator._schema.arguments:
        if argument.name == "z":
            arguments.append(torch.randn(3, 5, dtype=torch.float64, requires_grad=grad))
        elif str(argument.type) != "Tensor":
            arguments.append((NUMBERS if argument.name in NUMBERS else ARGUMENTS)[argument.name])
        elif argument.name == "edges":
            arguments.append(torch.tensor([[0], [1]]))
        else:
            arguments.append(torch.full((1, 1), ARGUMENTS[argument.name], dtype=torch.float64, requires_grad=grad))
    torch.library.opcheck(operator, tuple(arguments))


@pytest.mark.parametrize("shape", [(3, 5), (3, 1), (5,)])
@WARNINGS
def test_operator_of_a_slope_passes_the_checks_of_torch_library(shape: tuple[int, ...]):
    value, x = torch.randn(3, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
    slope = torch.randn(3, 5, dtype=torch.float64)
    inputs = tuple(a.requires_grad_() for a in (value, x, slope))
    torch.library.opcheck(torch.ops.omegamax.with_slope.default, inputs)


def test_every_map_has_an_operator():
    assert OPERATORS
    for record in RECORDS:
        if not record.function.__module__.startswith("omegamax."):
            continue  # may be made of torch alone
        graph = torch.fx.experimental.proxy_tensor.make_fx(record, tracing_mode="fake")(torch.randn(3, 5))
        called = {str(node.target).split(".")[1] for node in graph.graph.nodes if "omegamax" in str(node.target)}
        assert called, f"{record.name} is traced into its kernel's steps"
        assert {f"omegamax::{c}" for c in called} <= EVERY


@every_map
def test_fake_tensors_give_the_right_metadata(record: MapRecord):
    with FakeTensorMode():
        for shape, dtype in (((3, 5), torch.float32), ((2, 4, 6), torch.float64), ((7, 5), torch.float16)):
            p = record(torch.empty(shape, dtype=dtype))
            assert p.shape == shape and p.dtype == dtype and p.is_contiguous()


@every_map
def test_meta_tensors_give_the_right_metadata(record: MapRecord):
    p = record(torch.empty(3, 5, device="meta"))
    assert p.shape == (3, 5) and p.device.type == "meta"
