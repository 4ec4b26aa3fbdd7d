"""Auto-encoders side by side have the bounds that each has, and learn."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from omegamax.models.latents import latent
from omegamax.models.vae import VAE
from omegamax.tasks.vae import VAECopies

KINDS = [
    ("gaussian", 6, 1),
    ("gumbel_softmax", 6, 2),
    ("straight_through", 1, 4),
    ("hard_concrete", 6, 2),
    ("hard_concrete", 1, 4),
    ("gaussian_sparsemax", 6, 2),
    ("gaussian_sparsemax", 1, 4),
    ("mixed_dirichlet", 1, 4),
]
TEMPERATURES = (0.5, 1.0, 2.0)


def networks(kind, variables, vertices):
    torch.manual_seed(0)
    with_temperature = kind in ("gumbel_softmax", "straight_through", "hard_concrete")
    return [
        VAE(latent(kind, variables, vertices, **({"temperature": t} if with_temperature else {})), 9, 16, draws=2)
        for t in TEMPERATURES
    ]


@pytest.mark.parametrize("kind, variables, vertices", KINDS)
def test_bounds_are_those_of_each_alone(kind, variables, vertices):
    made = networks(kind, variables, vertices)
    copies = VAECopies(made)
    torch.manual_seed(1)
    pictures = (torch.rand(3, 300, 9) < 0.5).float()
    for method in ("bound", "weighted_bound"):
        with torch.no_grad():
            both = copies.weighted_bound(pictures, 5) if method == "weighted_bound" else copies.bound(pictures).value
            for mine, network, given in zip(both, made, pictures, strict=True):
                alone = network.weighted_bound(given, 5) if method == "weighted_bound" else network(given).value
                error = (mine.var() / len(mine) + alone.var() / len(alone)).sqrt()
                assert abs(float(mine.mean() - alone.mean())) < 4.5 * float(error) + 1e-4


def test_exact_parts_are_the_same_numbers():
    made = networks("straight_through", 5, 2)
    pictures = (torch.rand(3, 7, 9) < 0.5).float()
    found = VAECopies(made).bound(pictures).divergence
    wanted = torch.stack([network(given).divergence for network, given in zip(made, pictures, strict=True)])
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("kind, variables, vertices", [KINDS[1], KINDS[5]])
def test_training_raises_the_bound_of_each_on_its_own_set(kind, variables, vertices):
    torch.manual_seed(0)
    one = (torch.randint(2, (600, 1)) * 255).expand(-1, 9).byte()  # all black or all white
    two = one.clone()
    two[:, ::2] = 255 - two[:, ::2]  # stripes
    made = networks(kind, variables, vertices)
    copies = VAECopies(made)
    sets = [one, two, one]
    tests = [(each > 0).float() for each in sets]
    before = copies.measure_bound(tests)
    copies.train(sets, [1e-2, 1e-2, 1e-2], epochs=20, batch_size=50)
    after = copies.measure(tests, samples=5)
    for old, new in zip(before, after, strict=True):
        assert new["bound"] > old["bound"] + 1
        assert new["bound"] == pytest.approx(new["reconstruction"] - new["divergence"], abs=1e-4)
        assert new["weighted"] > new["bound"] - 0.1
    with torch.no_grad():  # weights were handed back
        again = made[1](tests[1]).value.mean()
    assert float(again) == pytest.approx(after[1]["bound"], abs=0.5)


def test_rates_are_of_each():
    def trained(rates):
        copies = VAECopies(networks("gaussian", 2, 1))
        pictures = (torch.arange(9 * 40) % 256).reshape(40, 9).byte()
        copies.train([pictures] * 3, rates, epochs=1, batch_size=20, seed=3)
        return copies.encoders.weights[0].detach()

    one, two = trained([1e-3, 1e-3, 1e-3]), trained([1e-3, 1e-2, 1e-3])
    torch.testing.assert_close(one[0], two[0])
    assert not torch.allclose(one[1], two[1])


def test_sets_of_different_sizes_are_refused():
    copies = VAECopies(networks("gaussian", 2, 1)[:2])
    with pytest.raises(ValueError, match=r"equally many pictures, got \[4, 5\]"):
        copies.train([torch.zeros(4, 9).byte(), torch.zeros(5, 9).byte()], [1e-3, 1e-3], 1)


class OffDevice(TorchDispatchMode):
    """Lists operations that take or give tensors which are not on a device."""

    def __init__(self, device):
        super().__init__()
        self.device, self.found = torch.device(device), []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = [each for each in (*args, result) if isinstance(each, torch.Tensor)]
        if any(each.device != self.device for each in tensors):
            self.found.append(str(function))
        return result


@pytest.mark.parametrize("kind, variables, vertices", [each for each in KINDS if each[0] != "mixed_dirichlet"])
def test_after_the_first_step_nothing_is_copied_to_the_device_or_read_from_it(kind, variables, vertices):
    # As a CUDA graph wants it. A device without values, where reading one is an error, stands for the GPU.
    checked = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        copies = VAECopies(networks(kind, variables, vertices), "meta")
        pictures = torch.ones(3, 5, 9, device="meta")
        copies.bound(pictures).value.sum().backward()
        with OffDevice("meta") as mode:
            copies.bound(pictures).value.sum().backward()
    finally:
        torch.distributions.Distribution.set_default_validate_args(checked)
    assert mode.found == []
