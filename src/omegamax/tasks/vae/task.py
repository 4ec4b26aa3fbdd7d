"""Training and evaluation of a variational auto-encoder."""

from __future__ import annotations

from typing import Any

import lightning as L
import torch
from torch import Tensor

from omegamax.models.latents import latent
from omegamax.models.vae import VAE, Bound
from omegamax.tasks.vae.usage import CodeUsage


class VAETask(L.LightningModule):
    """A :class:`~omegamax.models.VAE`, its optimiser, and what is measured of its bound and of its codes.

    Logged are ``train_bound`` and ``val_bound``, nats of a picture (the larger the better), and ``val_reconstruction``
    and ``val_divergence``, whose difference it is. In a test: the same, ``test_weighted`` (the importance-weighted
    bound) and, if codes are on a simplex, ``test_corner``, ``test_zero``, ``test_nonzeros`` and ``test_faces``, see
    :class:`CodeUsage`.

    Args:
        kind, variables, vertices, options: distribution of the codes, see :func:`omegamax.models.latents.latent`.
        pixels, hidden, layers, draws: see :class:`~omegamax.models.VAE`.
        rate: of Adam at the start; it falls to 0 along half a cosine.
        warm_up: share of the steps in which the weight of the divergence in the loss grows from 0 to 1. With all of it
            from the start, codes that tell nothing yet cost more than they bring, and many never tell anything.
        samples: of the importance-weighted bound.

        >>> task = VAETask("mixed_dirichlet", variables=1, vertices=3, pixels=16, hidden=8, draws=2)
        >>> task(torch.ones(5, 4, 4)).value.shape
        torch.Size([5])
    """

    def __init__(
        self,
        kind: str = "gaussian_sparsemax",
        variables: int = 128,
        vertices: int = 2,
        options: dict[str, Any] | None = None,
        pixels: int = 784,
        hidden: int = 500,
        layers: int = 2,
        draws: int = 1,
        rate: float = 1e-3,
        warm_up: float = 0.3,
        samples: int = 100,
    ) -> None:
        super().__init__()
        self.model = VAE(latent(kind, variables, vertices, **(options or {})), pixels, hidden, layers, draws)
        self.rate, self.warm_up, self.samples = rate, warm_up, samples
        self._rising = 0.0  # steps until the divergence has its whole weight
        self.usage = CodeUsage(variables, vertices) if vertices > 1 else None

    def forward(self, pictures: Tensor) -> Bound:
        return self.model(pictures)

    def on_fit_start(self) -> None:
        self._rising = self.warm_up * float(self.trainer.estimated_stepping_batches)
        brightness = getattr(getattr(self.trainer, "datamodule", None), "brightness", None)
        if brightness is not None and self.global_step == 0:
            self.model.centre(brightness)

    def training_step(self, batch: Tensor, index: int) -> Tensor:
        bound = self(batch)
        self.log("train_bound", bound.value.mean(), prog_bar=True, batch_size=len(batch), sync_dist=True)
        weight = min(1.0, self.global_step / self._rising) if self._rising else 1.0
        return (weight * bound.divergence - bound.reconstruction).mean()

    def validation_step(self, batch: Tensor, index: int) -> None:
        self._log_bound("val_", batch)

    def test_step(self, batch: Tensor, index: int) -> None:
        self._log_bound("test_", batch)
        weighted = self.model.weighted_bound(batch, self.samples).mean()
        self.log("test_weighted", weighted, batch_size=len(batch), sync_dist=True)
        if self.usage is not None:
            self.usage.update(self.model.reconstruct(batch)[1])

    def on_test_epoch_end(self) -> None:
        if self.usage is not None:
            self.log_dict({f"test_{name}": value.float() for name, value in self.usage.compute().items()})
            self.usage.reset()

    def _log_bound(self, prefix: str, batch: Tensor) -> None:
        for name, value in self(batch)._asdict().items():
            name = "bound" if name == "value" else name
            self.log(prefix + name, value.mean(), prog_bar=name == "bound", batch_size=len(batch), sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.Adam(self.parameters(), self.rate, fused=self.device.type in ("cpu", "cuda"))
        steps = int(self.trainer.estimated_stepping_batches)
        rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": rate, "interval": "step"}}
