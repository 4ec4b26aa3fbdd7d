"""Variational auto-encoders with codes of any distribution."""

from omegamax.tasks.vae.copies import VAECopies as VAECopies
from omegamax.tasks.vae.data import PictureData as PictureData
from omegamax.tasks.vae.task import VAETask as VAETask
from omegamax.tasks.vae.usage import CodeUsage as CodeUsage
