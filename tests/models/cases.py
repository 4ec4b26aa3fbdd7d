"""Small networks, and batches for them, with one of every kind of attention."""

from __future__ import annotations

from typing import Any

import torch

from omegamax.models.mcan import KINDS, MCAN, MCANConfig, OutputConfig

MODES = ("fixed", "random", "test", "selected")
OUTPUTS = {
    **{kind: OutputConfig(kind, functions=4, variance=0.02, k=5.0) for kind in KINDS if kind != "multimodal"},
    **{
        f"multimodal_{mode}": OutputConfig(
            "multimodal", functions=4, variance=0.02, components=mode, max_components=3, iterations=(2, 3), restarts=2
        )
        for mode in MODES
    },
}
LEARNABLE = ("entmax", "tvmax", "continuous_entmax", "multimodal")
SIZES: dict[str, Any] = {
    "word_dim": 6,
    "image_dim": 7,
    "hidden_dim": 8,
    "heads": 2,
    "layers": 2,
    "feedforward_dim": 12,
    "flat_dim": 5,
    "fused_dim": 10,
}


def config(output: str | OutputConfig = "softmax", **changes: Any) -> MCANConfig:
    output = OUTPUTS[output] if isinstance(output, str) else output
    return MCANConfig(words=11, answers=4, output=output, **{**SIZES, **changes})


def model(output: str | OutputConfig = "softmax", **changes: Any) -> MCAN:
    torch.manual_seed(1)
    return MCAN(config(output, **changes))


def batch(sizes=((4, 5), (4, 5), (4, 5)), lengths=(4, 2, 3), dtype=torch.float32, seed=0) -> dict[str, Any]:
    """Images of these sizes, questions of these lengths, padded; an example does not depend on the others."""
    h, w = (max(size[axis] for size in sizes) for axis in (0, 1))
    features, mask = torch.zeros(len(sizes), h, w, 7, dtype=dtype), torch.zeros(len(sizes), h, w, dtype=torch.bool)
    question = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, ((a, b), length) in enumerate(zip(sizes, lengths, strict=True)):
        generator = torch.Generator().manual_seed(seed + row)
        features[row, :a, :b] = torch.randn(a, b, 7, generator=generator, dtype=torch.float64).to(dtype)
        mask[row, :a, :b] = True
        question[row, :length] = torch.randint(1, 11, (length,), generator=generator)
    return {
        "question": question,
        "features": features.flatten(1, 2),
        "feature_mask": mask.flatten(1),
        "grid": (h, w),
        "sizes": torch.tensor(sizes),
    }


def rows(batch: dict[str, Any], *index: int) -> dict[str, Any]:
    """These examples of a batch, with its padding."""
    return {k: v[list(index)] if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
