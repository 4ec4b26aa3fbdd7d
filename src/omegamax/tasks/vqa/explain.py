"""A question put to a trained network: its answers, and where it looked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from omegamax.data import DataError, Sample, tokenise
from omegamax.data.boxes import spread_boxes
from omegamax.data.collate import Collate
from omegamax.data.pictures import resize
from omegamax.densities import Density, Mixture
from omegamax.tasks.answers import list_likeliest
from omegamax.tasks.vqa.task import VQATask

_MOST_FITS = 6  # numbers of components that are looked at side by side
_RASTER = (96, 96)  # cells of the map on which weights of boxes are drawn


@dataclass(frozen=True, eq=False)
class VQAExplanation:
    """What a network says to one question.

    Args:
        answers: the likeliest ones first, each with its probability.
        weights: the attention of each cell, ``[h, w]``, or of each of L boxes, ``[1, L]``.
        density: of batch ``[1]``, for continuous kinds; else None.
        boxes: ``[L, 4]``, where the network looks at boxes; else None.
    """

    answers: list[tuple[str, float]]
    weights: Tensor
    density: Density | None
    boxes: Tensor | None = None

    @property
    def look(self) -> Tensor | Density:
        """Return the density, or the weights with a batch axis, for :func:`omegamax.viz.looks` with ``index=0``.

        Weights of boxes are those of a fine grid, each spread over its box.
        """
        if self.density is not None:
            return self.density
        weights = self.weights if self.boxes is None else spread_boxes(self.weights[0], self.boxes, _RASTER)
        return weights.unsqueeze(0)

    @property
    def components(self) -> int | None:
        """Return the number of components that a mixture uses; None for other looks."""
        return int(self.density.component_count[0]) if isinstance(self.density, Mixture) else None


@torch.no_grad()
def explain(task: VQATask, sample: Sample, top: int = 5) -> VQAExplanation:
    """Ask a trained network about one picture.

    Args:
        task: in evaluation mode, as :meth:`VQATask.load` leaves it.
        sample: question and picture, of any size, or features; its answers and kind do not matter.
        top: how many answers to tell.

        >>> from omegamax.data import Vocabulary
        >>> from omegamax.models.mcan import MCANConfig
        >>> task = VQATask(Vocabulary(["is", "it", "red"], ["yes", "no"]), MCANConfig.small(grid=(4, 4))).eval()
        >>> said = explain(task, Sample("Is it red?", {}, "yes/no", "new", image=torch.rand(3, 50, 60)))
        >>> len(said.answers), said.weights.shape
        (2, torch.Size([4, 4]))
    """
    sample = _resize(task, sample) if sample.image is not None else _check_features(task, sample)
    batch = Collate(task.vocabulary, task.network.grid, unknown="drop")([sample])
    answer = task({key: _move(value, task.device) for key, value in batch.items()})
    answers = list_likeliest(task.loss.probabilities(answer.logits)[0], task.vocabulary.answers, top)
    found, boxes = answer.attention, answer.attention.grid.boxes
    return VQAExplanation(answers, found.weights[0], found.density, None if boxes is None else boxes[0])


def fix_components(task: VQATask) -> dict[int, VQATask]:
    """Return the network with 1, 2, ... (up to 6) components where it selects their number; empty if it does not."""
    output = task.network.output
    single = output.kind == "multimodal" and output.heads * output.glimpses == 1
    if task.blind or not single or output.components == "fixed":
        return {}
    fixed = {}
    for k in range(1, min(output.max_components, _MOST_FITS) + 1):
        network = task.network.replace(output=replace(output, components="fixed", max_components=k))
        other = VQATask(task.vocabulary, network, task.loss_name, task.loss_options)
        other.model.load_state_dict(task.model.state_dict())
        other.data_settings = task.data_settings
        fixed[k] = other.to(task.device).eval()
    return fixed


def find_unknown_words(task: VQATask, question: str) -> list[str]:
    """List the words of a question that the network was not trained with; it takes them all for the same one."""
    known = set(task.vocabulary.words)
    return [word for word in tokenise(question) if word not in known]


def _resize(task: VQATask, sample: Sample) -> Sample:
    """Return the sample with its picture in the size of those the network was trained on."""
    if task.blind:
        return sample
    if task.model.cnn is None:
        raise DataError(
            f"sample {sample.id!r}: the network was trained on features, not on pictures; give a file of features"
        )
    size = _size(task.data_settings)
    image = sample.image
    if image is None or size is None:
        return sample
    whole = image if image.dtype == torch.uint8 else (255 * image).round().to(torch.uint8)
    return Sample(sample.question, sample.answers, sample.kind, sample.id, image=resize(whole, size))


def _check_features(task: VQATask, sample: Sample) -> Sample:
    """Return the sample, whose features must be those of the network."""
    assert sample.features is not None
    wanted, given = task.network.image_dim, sample.features.shape[-1]
    if given != wanted and not task.blind:
        raise DataError(
            f"sample {sample.id!r}: the network takes {wanted} features of a cell, and there are {given}; extract them "
            "as those that it was trained on"
        )
    return sample


def _size(settings: Mapping[str, Any]) -> tuple[int, int] | None:
    if "image_size" in settings:
        return settings["image_size"], settings["image_size"]
    return None if settings.get("size") is None else (settings["size"][0], settings["size"][1])


def _move(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value
