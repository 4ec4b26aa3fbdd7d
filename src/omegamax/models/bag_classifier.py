"""One answer for a bag of instances: encoded one by one, pooled by a memory, classified."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_integer, check_number
from omegamax.maps import Omega, get
from omegamax.nn.hopfield_pooling import HopfieldPooling


class BagAnswer(NamedTuple):
    """The logit of each bag ``[B]``, and the weight of each instance in each head of the pooling ``[B, H, n]``."""

    logits: Tensor
    weights: Tensor


class DigitEncoder(torch.nn.Sequential):
    """Features of grey pictures of 28 x 28 pixels: ``[N, 1, 28, 28] -> [N, dim]``.

    Two convolutions of 5 x 5 with 20 and 50 channels, each with a rectifier and the maximum over 2 x 2, and a layer.

        >>> DigitEncoder()(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 500])

    Reference: Ilse et al., "Attention-based deep multiple instance learning" (ICML 2018), after LeNet.
    """

    def __init__(self, dim: int = 500):
        super().__init__(
            torch.nn.Conv2d(1, 20, 5),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(20, 50, 5),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(50 * 4 * 4, dim),
            torch.nn.ReLU(),
        )
        self.dim = dim


class VectorEncoder(torch.nn.Sequential):
    """Features of vectors: ``[N, features] -> [N, dim]``, by ``layers`` linear maps with rectifiers.

    >>> VectorEncoder(230)(torch.rand(2, 230)).shape
    torch.Size([2, 128])
    """

    def __init__(self, features: int, dim: int = 128, layers: int = 2):
        layers = check_integer("VectorEncoder", "layers", layers, least=1)
        parts: list[torch.nn.Module] = []
        for width in [features] + [dim] * (layers - 1):
            parts += [torch.nn.Linear(width, dim), torch.nn.ReLU()]
        super().__init__(*parts)
        self.dim = dim


class BagClassifier(torch.nn.Module):
    r"""Is a bag positive? A memory holds its instances, and one learnt query asks for those that tell.

    .. math:: z = w^\top \mathrm{pool}(f(x_1), ..., f(x_n)) + b

    Args:
        encoder: f, of an instance, with ``dim`` features.
        omega: map of the pooling, by name with ``options``, or an Omega: ``"k_subsets"`` with ``k=2`` looks at two.
        beta: sharpness of the pooling, a number or one for each head; None: that of attention.
        heads, hidden_dim: of the pooling, see :class:`~omegamax.nn.HopfieldPooling`.
        dropout: of the pooling's weights, while training.
        normalize: layer normalisation of what the pooling takes in.
        init_deviation: of the weights of the pooling's projections at the start, which are then normal; None: Xavier's.
            The authors of the poolings start from 0.02: scores, and with them weights, are then softer for one beta.

    ``forward(instances [B, n, *], mask [B, n] | None)`` gives a :class:`BagAnswer`; the mask is True where there is an
    instance. With ``encoded=True`` instances are features ``[B, n, dim]`` that the encoder has made.

        >>> classify = BagClassifier(VectorEncoder(5, 8), "sparsemax")
        >>> logits, weights = classify(torch.randn(3, 4, 5), torch.rand(3, 4) > 0.2)
        >>> logits.shape, weights.shape
        (torch.Size([3]), torch.Size([3, 1, 4]))

    References: Ramsauer et al. (ICLR 2021); with sparse and structured maps: Santos et al. (ICML 2024).
    """

    def __init__(
        self,
        encoder: DigitEncoder | VectorEncoder,
        omega: str | Omega = "softmax",
        options: dict[str, Any] | None = None,
        *,
        beta: float | Tensor | None = None,
        heads: int = 1,
        hidden_dim: int | None = None,
        dropout: float = 0.0,
        normalize: bool = False,
        init_deviation: float | None = None,
    ):
        super().__init__()
        self.encoder = encoder
        settings: dict[str, Any] = {"num_heads": heads, "hidden_dim": hidden_dim, "dropout": dropout}
        omega = get(omega, **(options or {}))
        self.pool = HopfieldPooling(omega, beta, embed_dim=encoder.dim, normalize=normalize, **settings)
        # Subsets of k need room for k, however small the bags; where there are fewer, all are taken.
        self.least = math.ceil(float(getattr(omega, "k", 1)))
        self.classify = torch.nn.Linear(encoder.dim, 1)
        if init_deviation is not None:
            check_number("BagClassifier", "init_deviation", init_deviation, above=0)
            for projection in self.pool.association.children():
                if isinstance(projection, torch.nn.Linear):
                    torch.nn.init.normal_(projection.weight, std=init_deviation)

    def forward(self, instances: Tensor, mask: Tensor | None = None, encoded: bool = False) -> BagAnswer:
        if mask is not None and mask.shape != instances.shape[:2]:
            shapes = f"{tuple(mask.shape)} for instances {tuple(instances.shape)}"
            raise ValueError(f"BagClassifier: mask must be [B, n], got {shapes}")
        there = torch.ones(instances.shape[:2], dtype=torch.bool, device=instances.device) if mask is None else mask
        if encoded:
            features = instances
        else:  # only what is there: bags are of many sizes
            found = self.encoder(instances[there])
            features = found.new_zeros(*there.shape, found.shape[-1])
            features[there] = found
        size = instances.shape[1]
        if size < self.least:
            features = F.pad(features, (0, 0, 0, self.least - size))
            there = F.pad(there, (0, self.least - size))
        pooled, weights = self.pool(features, there, return_weights=True)
        return BagAnswer(self.classify(pooled).squeeze(-1), weights.squeeze(-2)[..., :size])
