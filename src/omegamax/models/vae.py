"""A variational auto-encoder whose codes have any distribution: Gaussian, relaxed, discrete, or mixed."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn.functional import binary_cross_entropy_with_logits

from omegamax._arguments import check_integer
from omegamax.models.latents import Latent


class Bound(NamedTuple):
    """A lower bound of the log-likelihood of each picture in nats, ``[B]``, and its two parts.

    ``value`` is ``reconstruction - divergence``: an unbiased estimate, with the gradients that
    :class:`~omegamax.models.latents.Latent` promises.
    """

    value: Tensor
    reconstruction: Tensor
    divergence: Tensor


class VAE(torch.nn.Module):
    r"""Pictures of black and white pixels, each made from a code y on the faces of simplices.

    .. math:: \log p(x) \ge E_{q(y \mid x)} \log p(x \mid y) - \mathrm{KL}\bigl(q(y \mid x) \,\|\, p(y)\bigr)

    The encoder's numbers are parameters of a distribution q of the code, the decoder's the log-odds of pixels. Both are
    layers with rectifiers. The divergence is that of the direct sum of the faces: of which face, and of the point on
    it.

    Args:
        latent: distributions of the code, see :func:`omegamax.models.latents.latent`.
        pixels: of a picture.
        hidden, layers: width and number of hidden layers, of the encoder and of the decoder.
        draws: points of each code for an estimate; score functions (of a face, or of a density) use the others as the
            baseline of each, and have none if there is but one.

    ``forward(pictures [B, *])``, of zeros and ones, gives a :class:`Bound`.

        >>> from omegamax.models.latents import latent
        >>> vae = VAE(latent("gaussian_sparsemax", variables=8), pixels=16, hidden=32)
        >>> bound = vae(torch.ones(5, 4, 4))
        >>> bound.value.shape, bool((bound.divergence > 0).all())
        (torch.Size([5]), True)

    References: Kingma and Welling (ICLR 2014); with mixed codes: Farinhas et al. (ICLR 2022).
    """

    def __init__(self, latent: Latent, pixels: int = 784, hidden: int = 500, layers: int = 2, draws: int = 1) -> None:
        super().__init__()
        given = {"pixels": pixels, "hidden": hidden, "layers": layers, "draws": draws}
        pixels, hidden, layers, draws = (check_integer("VAE", name, value, least=1) for name, value in given.items())
        self.latent, self.pixels, self.draws = latent, pixels, draws
        self.encoder = _layers(pixels, hidden, layers, latent.numbers)
        self.decoder = _layers(latent.size, hidden, layers, pixels)

    @torch.no_grad()
    def centre(self, brightness: Tensor) -> None:
        """Let the decoder start from the mean picture, ``[*]`` in [0, 1].

        If it has to find it, codes pile up on one corner meanwhile: the one from which it is reached soonest.
        """
        last = self.decoder[-1]
        assert isinstance(last, torch.nn.Linear)
        last.bias.copy_(brightness.flatten().clamp(1e-3, 1 - 1e-3).logit())

    def encode(self, pictures: Tensor) -> Distribution:
        """q(y | x) of pictures ``[B, *]``."""
        flat = pictures.flatten(1)
        if flat.shape[-1] != self.pixels:
            raise ValueError(f"VAE: pictures must have {self.pixels} pixels each, got {tuple(pictures.shape)}")
        return self.latent.distribution(self.encoder(flat))

    def decode(self, point: Tensor) -> Tensor:
        """Log-odds of the pixels ``[*, pixels]``, of points ``[*, n, K]`` of the distribution of codes."""
        return self.decoder(self.latent.read(point))

    def forward(self, pictures: Tensor) -> Bound:
        distribution = self.encode(pictures)
        point, log_choice = self.latent.draw(distribution, self.draws)
        fit = self._fit(pictures, point)  # [S, B]
        reconstruction = fit.mean(0)
        if log_choice is not None and log_choice.requires_grad:
            with torch.no_grad():
                # The mean of the other draws is independent of a draw: it takes variance away and adds no bias.
                alone = len(fit) == 1
                advantage = fit if alone else (fit - fit.mean(0)) * (len(fit) / (len(fit) - 1))
            reconstruction = reconstruction + (advantage * (log_choice - log_choice.detach())).mean(0)
        divergence = self.latent.divergence(distribution, point)
        return Bound(reconstruction - divergence, reconstruction, divergence)

    @torch.no_grad()
    def weighted_bound(self, pictures: Tensor, samples: int = 100, chunk: int = 10) -> Tensor:
        r"""Compute the importance-weighted bound in nats, ``[B]``: more samples bring it nearer to the log-likelihood.

        .. math:: E \log \frac{1}{S} \sum_{s=1}^S \frac{p(x \mid y_s) \, p(y_s)}{q(y_s \mid x)} \le \log p(x)

        ``chunk`` samples are in memory at a time. Reference: Burda et al. (ICLR 2016).
        """
        distribution, parts = self.encode(pictures), []
        for start in range(0, samples, chunk):
            point = self.latent.draw(distribution, min(chunk, samples - start)).point
            parts.append((self._fit(pictures, point) + self.latent.log_ratio(distribution, point)).logsumexp(0))
        return torch.stack(parts).logsumexp(0) - math.log(samples)

    @torch.no_grad()
    def reconstruct(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities of pixels of the shape of the pictures, and the codes ``[B, n, K]`` drawn for them."""
        point = self.latent.draw(self.encode(pictures), 1).point[0]
        return self.decode(point).sigmoid().reshape(pictures.shape), self.latent.code(point)

    def _fit(self, pictures: Tensor, point: Tensor) -> Tensor:
        """log p(x | y) at points ``[S, B, n, K]``, ``[S, B]``."""
        odds = self.decode(point)
        target = pictures.flatten(1).to(odds.dtype).expand_as(odds)
        return -binary_cross_entropy_with_logits(odds, target, reduction="none").sum(-1)


def _layers(inputs: int, hidden: int, count: int, outputs: int) -> torch.nn.Sequential:
    parts: list[torch.nn.Module] = []
    for width in [inputs] + [hidden] * (count - 1):
        parts += [torch.nn.Linear(width, hidden), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(hidden, outputs))
