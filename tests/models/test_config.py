"""Configurations: the papers' numbers, what is refused, and what comes back from a file."""

from __future__ import annotations

import json

import pytest
import torch

from omegamax.basis import grid_positions
from omegamax.mixtures import AIC, Linear
from omegamax.models.mcan import KINDS, MCAN, PAPERS, ImageGrid, MCANConfig, OutputAttention, OutputConfig
from omegamax.nn import ContinuousAttention, MultimodalAttention


def test_paper_sizes():
    paper = MCANConfig.paper(words=20573, answers=3129)
    sizes = (paper.word_dim, paper.image_dim, paper.hidden_dim, paper.fused_dim, paper.layers, paper.heads)
    assert sizes == (300, 2048, 512, 1024, 6, 8)
    assert (paper.flat_dim, paper.feedforward_dim, paper.dropout, paper.attention_dropout) == (512, 2048, 0.1, None)


def test_network_has_the_parameters_of_the_published_one():
    """Counted from the description: SA and SGA units, scores for words and cells, and what is around them."""
    words, answers, w, v, d, n, feed_dim, flat, fused = 100, 31, 30, 20, 16, 3, 64, 12, 24
    attention, feed, norm = 4 * (d * d + d), 2 * d * feed_dim + feed_dim + d, 2 * d
    units = n * (attention + feed + 2 * norm) + n * (2 * attention + feed + 3 * norm)
    around = words * w + 4 * d * (w + d + 2) + v * d + d
    looks = 2 * (d * flat + flat + flat + 1) + 2 * (d * fused + fused)
    total = units + around + looks + 2 * fused + fused * answers + answers
    network = MCAN(MCANConfig(words, answers, w, v, d, 4, n, feed_dim, flat, fused))
    assert sum(p.numel() for p in network.parameters()) == total


@pytest.mark.parametrize("name", PAPERS)
def test_every_row_of_the_papers_can_be_built(name):
    look = OutputAttention(8, 8, PAPERS[name])
    if not PAPERS[name].continuous:
        return
    basis = look.density.basis
    assert len(basis) == (49 if name.endswith("49") else 100)
    torch.testing.assert_close(basis.variance[0].flatten()[0], torch.tensor(0.001))
    padded = name not in ("unimodal", "multimodal")  # the later paper has no zeros around the image
    assert look.density.fit.penalty == 0.01 and look.density.fit.padding == padded and look.density.floor == 1e-6


def test_multimodal_settings_arrive():
    look = OutputAttention(8, 8, PAPERS["multimodal"]).density
    assert isinstance(look, MultimodalAttention)
    assert (look.max_components, look.components, look.iterations, look.restarts) == (4, "random", (5, 10), 3)
    assert look.init == "random" and OutputAttention(8, 8, PAPERS["2-mca"]).density.init == "split"
    assert look.criterion == Linear(5.0)
    assert OutputAttention(8, 8, OutputConfig("multimodal", selection="aic")).density.criterion == AIC()
    assert OutputAttention(8, 8, PAPERS["test-mca-100"]).density.criterion == Linear(100.0)


def test_starts_floor_and_mixing_arrive():
    three = OutputConfig("multimodal", init="random", restarts=3, floor=1e-6, selection=5.0)
    density = OutputAttention(4, 4, three).density
    assert (density.init, density.restarts, density.floor) == ("random", 3, 1e-6)
    settings = OutputConfig("multimodal", components="fixed", mixing="sparsemax", iterations=(50, 50))
    assert OutputAttention(4, 4, settings).density.mixing == "sparsemax"


def test_a_small_floor_leaves_several_components():
    """With the variance of a cell on each, the papers' lambda takes one component for what are two points."""
    x = torch.zeros(1, 64, 4)
    z = torch.full((1, 64), -20.0)
    z[0, 9] = z[0, 54] = 0.0
    found = []
    for floor in (None, 1e-6):
        config = OutputConfig("multimodal", floor=floor, selection=5.0, init="random", restarts=3)
        look = OutputAttention(4, 4, config).eval()
        look.scores = lambda x: z
        found.append(int(look(x, ImageGrid((8, 8)))[1].density.component_count))
    assert found == [1, 2]


def test_basis_functions_of_either_kind_have_the_same_variance():
    grid = grid_positions((400, 400), dtype=torch.float64)
    for basis in ("gaussian", "paraboloid"):
        look = OutputAttention(4, 4, OutputConfig("continuous_softmax", functions=1, variance=0.002, basis=basis))
        psi = look.density.basis.double()(grid).squeeze(-1) / 160_000
        assert float(psi.sum()) == pytest.approx(1.0, abs=1e-4)
        assert float((psi * (grid[:, 0] - 0.5).square()).sum()) == pytest.approx(0.002, rel=1e-4)


def test_alpha_arrives():
    assert OutputAttention(8, 8, OutputConfig("continuous_sparsemax")).density.alpha == 2.0
    look = OutputAttention(8, 8, OutputConfig("continuous_entmax", alpha=1.75, floor=1e-6)).density
    assert isinstance(look, ContinuousAttention) and look.alpha == 1.75 and look.floor == 1e-6
    assert OutputAttention(8, 8, OutputConfig("entmax", alpha=1.2)).transform.alpha == 1.2


@pytest.mark.parametrize("kind", KINDS)
def test_configuration_survives_json(kind):
    config = MCANConfig.small(9, 3, output=OutputConfig(kind, iterations=(2, 3)), grid=(7, 9))
    assert MCANConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_replace():
    config = MCANConfig.small(9, 3)
    assert config.replace(layers=1).layers == 1 and config.replace(layers=1).words == 9


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"kind": "hardmax"}, "kind must be one of 'softmax', .* got 'hardmax'"),
        ({"kind": "softmax", "alpha": 1.5}, "alpha goes with entmax, continuous_entmax, multimodal, got alpha=1.5"),
        ({"kind": "k_subsets", "learnable": True}, "learnable goes with .* tvmax, got 'k_subsets'"),
        ({"kind": "k_subsets", "k": 0}, "k must be > 0, got 0"),
        ({"discrete": "tvmax"}, "discrete must be one of .* got 'tvmax'"),
        ({"selection": "dic"}, "selection must be one of .* got 'dic'"),
        ({"basis": "wavelet"}, "basis must be one of 'gaussian', 'paraboloid', got 'wavelet'"),
        ({"init": "best"}, "init must be one of .* got 'best'"),
        ({"mixing": "sparsemax"}, "mixing goes with components='fixed', got 'random'"),
        ({"floor": -1.0}, "floor must be a finite number >= 0, got -1.0"),
        ({"max_components": 2.5}, "max_components must be an integer >= 1, got 2.5"),
    ],
)
def test_bad_output_is_named(settings, text):
    with pytest.raises(ValueError, match=text):
        OutputConfig(**settings)


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"heads": 5}, "hidden_dim must be a multiple of heads, got 64 and 5"),
        ({"layers": 0}, "layers must be an int >= 1, got 0"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\), got 1.0"),
        ({"transform": "tvmax"}, "transform must be a map along one axis, got 'tvmax'"),
        ({"transform": "hardmax"}, "no map is called 'hardmax'"),
    ],
)
def test_bad_network_is_named(settings, text):
    with pytest.raises(ValueError, match=text):
        MCANConfig.small(9, 3, **settings)


def test_unknown_setting_is_named():
    with pytest.raises(ValueError, match="MCANConfig: no setting is called 'depth'; known: words"):
        MCANConfig.from_dict({**MCANConfig.small(9, 3).to_dict(), "depth": 3})
    with pytest.raises(ValueError, match="OutputConfig: no setting is called 'sort'"):
        MCANConfig.from_dict({"words": 9, "answers": 3, "output": {"sort": "softmax"}})
