"""The last feature map, found in networks of several kinds."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from omegamax.tasks.features.feature_map import FeatureMap, as_map


class Residual(nn.Module):
    """As in torchvision: stages, pooling by a layer, a classifier, and no function for the features."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 2, 1)
        self.layer1 = nn.Sequential(nn.Conv2d(4, 6, 3, 2, 1), nn.ReLU())
        self.layer2 = nn.Sequential(nn.Conv2d(6, 8, 3, 2, 1), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.pool(self.layer2(self.layer1(self.stem(x)))).flatten(1))


class Tokens(nn.Module):
    """A transformer: patches by a convolution, then a class token in front, and a classifier that reads only that."""

    def __init__(self, extra=1):
        super().__init__()
        self.patches, self.extra = nn.Conv2d(3, 6, 8, 8), extra
        self.encoder, self.head = nn.Linear(6, 6), nn.Linear(6, 10)

    def forward(self, x):
        cells = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.encoder(torch.cat([cells.new_zeros(len(x), self.extra, 6), cells], 1))[:, 0])


def test_last_map_of_a_classifier_is_that_before_pooling():
    network, images = Residual().eval(), torch.rand(2, 3, 32, 48)
    feature_map = FeatureMap(network)
    with torch.no_grad():
        wanted = network.layer2(network.layer1(network.stem(images)))
        torch.testing.assert_close(feature_map(images), wanted, rtol=0, atol=0)
        torch.testing.assert_close(feature_map(images[:1]), wanted[:1])
    assert feature_map.layer == "layer2"
    assert not any(module._forward_hooks for module in network.modules())


def test_named_layer_is_taken():
    feature_map = FeatureMap(Residual(), layer="layer1.0")
    assert feature_map(torch.rand(1, 3, 32, 48)).shape == (1, 6, 8, 12)


def test_unknown_layer_is_an_error_that_lists_layers():
    with pytest.raises(ValueError, match=r"no layer 'layer9'; it has stem, layer1"):
        FeatureMap(Residual(), layer="layer9")


@pytest.mark.parametrize("extra", [0, 1, 5])
def test_tokens_of_a_transformer_become_cells_without_those_in_front(extra):
    network, images = Tokens(extra).eval(), torch.rand(2, 3, 32, 48)
    feature_map = FeatureMap(network)
    with torch.no_grad():
        found = feature_map(images)
        wanted = network.encoder(network.patches(images).movedim(1, -1)).movedim(-1, 1)
    assert feature_map.layer == "encoder"
    torch.testing.assert_close(found, wanted)


def test_function_for_features_is_preferred():
    network = Residual()
    network.forward_features = lambda x: network.layer1(network.stem(x))
    feature_map = FeatureMap(network)
    assert feature_map(torch.rand(1, 3, 32, 32)).shape == (1, 6, 8, 8)
    assert feature_map.layer is None


def test_channels_at_the_end_are_moved():
    x = torch.rand(2, 7, 9, 64)
    assert torch.equal(as_map(x, (224, 288)), x.permute(0, 3, 1, 2))
    assert as_map(torch.rand(2, 64, 7, 9), (224, 288)).shape == (2, 64, 7, 9)


def test_merged_tokens_are_not_taken_for_patches():
    # Patches of 4 pixels, merged to 32 on the way.
    assert as_map(torch.rand(1, 49, 16), (224, 224), (4, 4)).shape == (1, 16, 7, 7)


def test_few_cells_and_many_registers_need_the_size_of_the_patches():
    tokens = torch.arange(25.0).view(1, 25, 1)
    assert as_map(tokens, (32, 32), (8, 8)).flatten().tolist() == list(range(9, 25))


@pytest.mark.parametrize(
    "output", [torch.rand(2, 10), torch.rand(2, 8, 1, 1), torch.rand(2, 117, 6), torch.ones(2, 8, 4, 4).int(), None]
)
def test_features_without_positions_are_refused(output):
    assert as_map(output, (32, 32), (8, 8)) is None


def test_outputs_of_transformers_are_understood():
    x = torch.rand(1, 8, 4, 4)
    assert as_map(SimpleNamespace(last_hidden_state=x), (32, 32)) is x
    assert as_map(SimpleNamespace(feature_maps=(None, x)), (32, 32)) is x
    assert as_map({"low": torch.rand(1, 4, 8, 8), "high": x}, (32, 32)) is x


def test_network_without_maps_is_an_error():
    with pytest.raises(ValueError, match=r"no layer of the backbone has a map over 4 x 4 pixels, .*\(1, 2\)"):
        FeatureMap(nn.Sequential(nn.Flatten(), nn.Linear(48, 2)))(torch.rand(1, 3, 4, 4))


def test_layer_that_is_not_used_is_an_error():
    network = Residual()
    network.spare = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"layer 'spare' .* was not used"):
        FeatureMap(network, layer="spare")(torch.rand(1, 3, 32, 32))
