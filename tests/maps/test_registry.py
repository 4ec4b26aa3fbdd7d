"""Names to regularisers, and what is said of names and parameters that do not exist."""

from __future__ import annotations

import inspect
import math

import pytest
import torch

import omegamax
from omegamax import Bounded, KSubsets, NormEntropy, Omega, Shannon, Tsallis
from omegamax.maps import MapRecord, find, records, register, unregister


@pytest.mark.parametrize(
    "name, parameters, kind, text",
    [
        ("softmax", {}, Shannon, "Shannon()"),
        ("sparsemax", {}, Tsallis, "Tsallis(alpha=2.0)"),
        ("entmax15", {}, Tsallis, "Tsallis(alpha=1.5)"),
        ("entmax", {"alpha": 1.25}, Tsallis, "Tsallis(alpha=1.25)"),
        ("normmax", {"alpha": 3.0}, NormEntropy, "NormEntropy(alpha=3.0)"),
        ("k_subsets", {"k": 2}, KSubsets, "KSubsets(k=2)"),
        ("k_subsets", {"k": 2, "at_most": True}, KSubsets, "KSubsets(k=2, at_most=True)"),
        ("constrained_softmax", {"upper": 0.5}, Bounded, "Bounded(Shannon(), upper=0.5, lower=None)"),
        ("constrained_sparsemax", {"upper": 0.5, "lower": 0.1}, Bounded, "upper=0.5, lower=0.1)"),
    ],
)
def test_name_gives_its_omega(name: str, parameters: dict, kind: type, text: str):
    omega = omegamax.get(name, **parameters)
    assert isinstance(omega, kind) and omega.name == name and text in repr(omega)


def test_defaults_are_those_of_the_maps():
    assert omegamax.get("entmax").alpha == 1.5
    assert omegamax.get("normmax").alpha == 2.0


def test_omega_passes_through():
    omega = Tsallis(1.3)
    assert omegamax.get(omega) is omega
    with pytest.raises(ValueError, match=r"get: parameters go with a name, got Tsallis\(alpha=1.3\) and alpha"):
        omegamax.get(omega, alpha=2.0)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError) as caught:
        omegamax.get("sparsmax")
    assert "'sparsmax'" in str(caught.value)
    for name in records():
        assert name in str(caught.value)


@pytest.mark.parametrize("wrong", [3, None, Tsallis, torch.zeros(2), object()])
def test_what_is_neither_name_nor_omega_is_refused(wrong: object):
    with pytest.raises(TypeError, match="get: omega must be the name of a map or an Omega"):
        omegamax.get(wrong)


def test_wrong_parameter_names_what_the_map_takes():
    with pytest.raises(TypeError, match=r"get: 'entmax' takes .*alpha.*beta"):
        omegamax.get("entmax", beta=2.0)
    with pytest.raises(TypeError, match=r"get: 'softmax' takes .*alpha"):
        omegamax.get("softmax", alpha=2.0)
    with pytest.raises(TypeError, match=r"get: 'k_subsets' takes .*'k'"):
        omegamax.get("k_subsets")


def test_bad_parameter_is_refused_when_the_omega_is_made():
    for make, message in (
        (lambda: Tsallis(0.0), "Tsallis: alpha must be > 0, got 0"),
        (lambda: Tsallis(math.nan), "Tsallis: alpha must be > 0, got nan"),
        (lambda: NormEntropy(1.0), "NormEntropy: alpha must be > 1, got 1"),
        (lambda: KSubsets(-1), "KSubsets: k must lie in"),
        (lambda: Bounded("entmax15", 0.5), "Bounded: base must be 'softmax' or 'sparsemax'"),
        (lambda: Bounded("softmax", 0.5, 0.1), "Bounded: lower bounds need base='sparsemax'"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_name_can_be_taken_only_once():
    record = find("softmax")
    with pytest.raises(ValueError, match="register: name 'softmax' is taken"):
        register(MapRecord("softmax", record.function, record.omega, summary="", complexity="", cite=""))


@pytest.fixture
def registered():
    """Register maps that are gone after the test."""
    before = set(records())
    yield register
    for name in set(records()) - before:
        unregister(name)


class Sharp(Omega):
    """Softmax at a fraction of its temperature."""

    name = "sharp"
    margin = math.inf
    keeps_order = True

    def __init__(self, factor: float, *, shift: float = 0.0):
        self.factor, self.shift = factor, shift

    def __call__(self, p: torch.Tensor) -> torch.Tensor:
        return torch.special.xlogy(p, p).sum(-1) / self.factor

    def solve(self, z: torch.Tensor) -> torch.Tensor:
        return (self.factor * z + self.shift).softmax(-1)


def test_omega_alone_makes_a_map(registered):
    assert registered(Sharp) is Sharp
    z = torch.randn(3, 5, 4, dtype=torch.float64)
    expected = (2 * z).softmax(1)
    assert (omegamax.sharp(z, 2.0, 1) - expected).abs().max() <= 1e-15
    assert (omegamax.sharp(z, factor=2.0, dim=1, shift=3.0) - expected).abs().max() <= 1e-15
    mask = torch.rand(3, 5, 4) < 0.5
    mask[:, 0] = True
    masked = (2 * z).masked_fill(~mask, -math.inf).softmax(1)
    assert (omegamax.nn.Sharp(2.0, dim=1)(z, mask) - masked).abs().max() <= 1e-15
    assert str(inspect.signature(omegamax.sharp)).startswith(
        "(z: torch.Tensor, factor: 'float', dim: int = -1, *, shift"
    )
    record = find("sharp")
    assert record.summary == "Softmax at a fraction of its temperature" and record.loss == "sharp_loss"
    half = omegamax.sharp(z.bfloat16(), 2.0)
    assert half.dtype == torch.bfloat16 and torch.equal(half, omegamax.sharp(z.bfloat16().float(), 2.0).bfloat16())
    with pytest.raises(TypeError, match="sharp: z must be a floating-point tensor"):
        omegamax.sharp(torch.arange(3), 2.0)
    target = torch.tensor([[0, 1, 2, 3]]).expand(3, 4)
    expected = torch.nn.functional.cross_entropy(2 * z, target) / 2
    assert (omegamax.sharp_loss(z, target, 2.0) - expected).abs() <= 1e-14
    assert (omegamax.nn.SharpLoss(2.0)(z, target) - expected).abs() <= 1e-14


def test_decorators_of_a_class_and_of_a_function(registered):
    @registered(omega=Sharp, summary="sharper", loss=None, module="Sharpener")
    def sharpen(z, factor, dim=-1, *, mask=None):
        return Sharp(factor).argmax(z, dim, mask=mask)

    assert omegamax.functional.sharpen is sharpen and omegamax.nn.Sharpener(2.0).record.summary == "sharper"
    assert not hasattr(omegamax.losses, "sharpen_loss")
    other = registered(name="sharper")(Sharp)
    assert other is Sharp and isinstance(omegamax.get("sharper", factor=3.0), Sharp)


def test_names_of_a_record_are_checked(registered):
    fields = {"omega": Sharp, "function": omegamax.softmax, "summary": ""}
    for change, message in (
        ({"module": "Softmax"}, "register: module 'Softmax' is taken"),
        ({"loss": "softmax_loss"}, "register: loss 'softmax_loss' is taken"),
        ({"name": "k subsets"}, "name must be a name in Python, got 'k subsets'"),
        ({"domain": "sphere"}, "domain must be one of 'simplex', 'budget', 'bounded', 'image', got 'sphere'"),
        ({"colour": "red"}, "colour must be '#rrggbb', got 'red'"),
    ):
        with pytest.raises(ValueError, match=message):
            registered(MapRecord(**{"name": "new", **fields, **change}))
    with pytest.raises(
        TypeError, match="register: map must be a MapRecord, a subclass of Omega or a function, got int"
    ):
        registered(3)
    with pytest.raises(TypeError, match="register: omega, which makes the Omega of softmax, must be given"):
        registered(omegamax.softmax)
    with pytest.raises(ValueError, match="unregister: no map is called 'new'"):
        unregister("new")


def test_omega_without_a_map_says_what_to_give():
    class Bare(Omega):
        name = "bare"
        margin = 1.0

        def __call__(self, p):
            return p.sum(-1)

    with pytest.raises(NotImplementedError, match=r"Bare: give solve\(z\), the map along the last axis, or argmax"):
        Bare().argmax(torch.zeros(3))


def test_files_of_the_maps_are_not_hidden_by_their_functions():
    for name in ("entmax", "normmax", "k_subsets", "fusedmax", "tvmax", "graph_fusedmax", "oscarmax"):
        assert inspect.ismodule(getattr(omegamax.maps, name))


def test_record_is_called_with_its_example():
    z = torch.randn(3, 5)
    assert torch.equal(find("entmax")(z), omegamax.entmax(z, find("entmax").example["alpha"]))
    assert torch.equal(find("entmax")(z, alpha=2.0), omegamax.sparsemax(z))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")
@pytest.mark.parametrize("name", ["softmax", "sparsemax", "entmax"])
def test_name_resolves_inside_a_compiled_function(name: str):
    torch._dynamo.reset()
    z = torch.randn(3, 5)
    compiled = torch.compile(lambda z: omegamax.get(name).argmax(z), fullgraph=True, backend="aot_eager")
    assert (compiled(z) - omegamax.get(name).argmax(z)).abs().max() <= 1e-6


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")
def test_conjugate_compiles_with_its_gradient():
    torch._dynamo.reset()
    omega = Tsallis(1.5)
    z = torch.randn(3, 5, dtype=torch.float64)
    compiled = torch.compile(omega.conjugate, fullgraph=True, backend="aot_eager")
    leaf = z.clone().requires_grad_()
    value = compiled(leaf)
    assert (value - omega.conjugate(z)).abs().max() <= 1e-13
    assert (torch.autograd.grad(value.sum(), leaf)[0] - omega.argmax(z)).abs().max() <= 1e-13
