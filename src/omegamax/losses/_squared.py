"""The squared loss, as the Fenchel-Young loss it is."""

from __future__ import annotations

from torch import Tensor

from omegamax.losses._fenchel_young import fenchel_young_loss
from omegamax.maps import SquaredNorm


def squared_loss(z: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    r"""Return half the squared distance of predictions and targets: the loss of regression.

    .. math:: L(z; y) = \tfrac12 \lVert z - y \rVert^2, \qquad \nabla_z L = z - y

    It is :func:`fenchel_young_loss` of :class:`omegamax.SquaredNorm`, whose map is the identity, and half of
    :func:`torch.nn.functional.mse_loss` times K. Targets are real vectors: there are no classes, and no margin.

    Args:
        z: predictions ``[*, K]``; ``-inf`` takes an entry out, and costs ``inf`` where the target is not 0.
        y: targets, shaped like ``z``. Gradients reach them.
        reduction: ``"mean"`` or ``"sum"`` over the rows, or ``"none"``.

    Returns:
        A scalar, or ``[*]`` without reduction.

        >>> import torch
        >>> z = torch.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
        >>> loss = squared_loss(z, torch.tensor([[1.0, 0.0], [0.0, 3.0]]), reduction="none")
        >>> loss.detach(), torch.autograd.grad(loss.sum(), z)[0]
        (tensor([2.0000, 0.1250]), tensor([[ 0.0000, -2.0000],
                [ 0.5000,  0.0000]]))

    Reference: Blondel, Martins & Niculae (JMLR 2020), Def. 2.
    """
    return fenchel_young_loss(z, y, SquaredNorm(), reduction)
