"""From cells of an image to features that know the image and the question."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.models.mcan.blocks import GuidedAttention
from omegamax.models.mcan.config import MCANConfig


class ImageDecoder(torch.nn.Module):
    """A linear map and guided attention layers: ``features [B, L, image_dim] -> [B, L, D]``.

    ``forward(features, guide [B, T, D], mask [B, L] | None, guide_mask [B, T] | None)``; masks are True where there is
    something. Absent cells count for nothing, whatever they hold, and what comes out there has no meaning.

        >>> decode = ImageDecoder(MCANConfig.small(words=20, answers=5))
        >>> decode(torch.randn(2, 196, 64), torch.randn(2, 4, 64)).shape
        torch.Size([2, 196, 64])

    Reference: Yu et al. (CVPR 2019), the decoder of Fig. 5: all layers are guided by the encoder's last.
    """

    def __init__(self, config: MCANConfig):
        super().__init__()
        self.project = torch.nn.Linear(config.image_dim, config.hidden_dim)
        self.layers = torch.nn.ModuleList(GuidedAttention(*config.block()) for _ in range(config.layers))

    def forward(
        self, features: Tensor, guide: Tensor, mask: Tensor | None = None, guide_mask: Tensor | None = None
    ) -> Tensor:
        if mask is not None:  # a weight of 0 would not stop a NaN
            features = features.masked_fill(~mask.unsqueeze(-1), 0.0)
        x = self.project(features)
        for layer in self.layers:
            x = layer(x, guide, mask, guide_mask)
        return x
