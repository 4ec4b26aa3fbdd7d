"""Several looks as one: heads side by side, looks in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from omegamax.densities import BetaGaussian, Density, Mixture
from omegamax.nn.continuous import make_density


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Return each head's part of the features, ``[B, L, D] -> [B H, L, D / H]``; the heads of an example are together.

    >>> split_heads(torch.arange(8.0).view(1, 2, 4), 2)[:, 0]
    tensor([[0., 1.],
            [2., 3.]])
    """
    return x if heads == 1 else x.unflatten(-1, (heads, -1)).transpose(1, 2).flatten(0, 1)


def join_looks(densities: Sequence[Density], heads: int) -> Mixture:
    r"""Return the mixture of all looks, of batch ``[B]``, in which each counts alike.

    .. math:: p(t) = \frac{1}{G H} \sum_{g=1}^G \sum_{h=1}^H p_{gh}(t)

    Args:
        densities: of G looks in turn, each of batch ``[B H]``; mixtures give their components, with their weights.
        heads: H.
    """
    weights, places, roots = [], [], []
    alpha: float | Tensor = 1.0
    for density in densities:
        parts = density.components if isinstance(density, Mixture) else density
        if not isinstance(parts, BetaGaussian):
            raise TypeError(
                f"join_looks: densities must be BetaGaussian or mixtures of them, got {type(parts).__name__}"
            )
        mixed = density.weights if isinstance(density, Mixture) else parts.loc.new_ones(len(parts.loc), 1)
        loc, root, alpha = parts.loc, parts.scale_tril, parts.alpha
        if not isinstance(density, Mixture):
            loc, root = loc.unsqueeze(1), root.unsqueeze(1)
        weights.append(mixed.unflatten(0, (-1, heads)).flatten(1) / (heads * len(densities)))
        places.append(loc.unflatten(0, (-1, heads)).flatten(1, 2))
        roots.append(root.unflatten(0, (-1, heads)).flatten(1, 2))
    if isinstance(alpha, Tensor):  # one for all examples
        alpha = alpha.flatten()[0]
    components = make_density(torch.cat(places, 1), alpha, scale_tril=torch.cat(roots, 1))
    return Mixture(torch.cat(weights, 1), components, validate_args=False)


def regroup(density: Density, change: Callable[[Tensor], Tensor]) -> Density:
    """Return a density with another shape of its batch.

    Args:
        density: a :class:`~omegamax.densities.BetaGaussian` or a mixture of them.
        change: applied to each parameter, reshapes the axes of the batch and leaves those after them alone.

        >>> from omegamax.densities import Gaussian
        >>> regroup(Gaussian(torch.zeros(2, 3, 2), torch.eye(2)), lambda part: part.flatten(0, 1)).mean.shape
        torch.Size([6, 2])
    """
    parts = density.components if isinstance(density, Mixture) else density
    if not isinstance(parts, BetaGaussian):
        raise TypeError(f"regroup: density must be BetaGaussian or a mixture of them, got {type(parts).__name__}")
    shape = parts.batch_shape
    alpha = parts.alpha
    if isinstance(alpha, Tensor):  # one for all examples
        alpha = alpha.flatten()[0]
    loc, root = parts.loc, parts.scale_tril
    n = loc.shape[-1]
    components = make_density(change(loc.expand(*shape, n)), alpha, scale_tril=change(root.expand(*shape, n, n)))
    if not isinstance(density, Mixture):
        return components
    return Mixture(change(density.weights), components, validate_args=False)
