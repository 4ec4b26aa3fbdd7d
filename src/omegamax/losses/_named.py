"""Losses of named maps, called as :func:`torch.nn.functional.cross_entropy` is."""

from __future__ import annotations

from torch import Tensor

from omegamax._checks import check_above
from omegamax.losses._classification import classification_loss


def softmax_loss(
    z: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Return the loss of softmax: cross-entropy, as the member of the family it is.

    .. math:: \log \sum_j \exp z_j - \langle y, z \rangle + \sum_i y_i \log y_i

    With class indices this is :func:`torch.nn.functional.cross_entropy`; with probabilities or smoothing it is less
    by the entropy of the target, and so zero where softmax returns the target.

    Args:
        z: scores ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices, shaped like ``z`` without the class axis, or probabilities, shaped like ``z``.
        weight: ``[C]``. A sample weighs ``weight[target]``, and the mean is over the weights; with probabilities it
            weighs ``<weight, target>``, and the mean is over the samples.
        ignore_index: class index that takes a sample out.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: in [0, 1], how far the target is moved towards the uniform one.

    Returns:
        A scalar, or one loss for each sample without reduction.

        >>> import torch
        >>> softmax_loss(torch.tensor([[1.0, 0.5, -1.0]]), torch.tensor([0]))
        tensor(0.5550)

    Reference: Blondel, Martins & Niculae (JMLR 2020).
    """
    return classification_loss("softmax", z, target, {}, weight, ignore_index, reduction, label_smoothing)


def sparsemax_loss(
    z: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Return the loss of sparsemax: zero once the target's score leads by 1.

    .. math:: \tfrac12 \lVert y - z \rVert^2 - \tfrac12 \lVert \mathrm{sparsemax}(z) - z \rVert^2

    Args:
        z, target, weight, ignore_index, reduction, label_smoothing: as in :func:`softmax_loss`.

    Returns:
        A scalar, or one loss for each sample without reduction.

        >>> import torch
        >>> z = torch.tensor([[1.0, 0.5, -1.0], [2.0, 1.0, 0.0]])
        >>> sparsemax_loss(z, torch.tensor([0, 0]), reduction="none")
        tensor([0.0625, 0.0000])

    Reference: Martins & Astudillo (ICML 2016).
    """
    return classification_loss("sparsemax", z, target, {}, weight, ignore_index, reduction, label_smoothing)


def entmax15_loss(
    z: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Return the loss of 1.5-entmax: zero once the target's score leads by 2.

    .. math:: \langle p - y, z \rangle + \tfrac43 \textstyle\sum_i y_i^{3/2} - \tfrac43 \sum_i p_i^{3/2},
              \qquad p = \mathrm{entmax}_{1.5}(z)

    Args:
        z, target, weight, ignore_index, reduction, label_smoothing: as in :func:`softmax_loss`.

    Returns:
        A scalar, or one loss for each sample without reduction.

        >>> import torch
        >>> entmax15_loss(torch.tensor([[1.0, 0.0], [3.0, 0.5]]), torch.tensor([0, 0]), reduction="none")
        tensor([0.0617, 0.0000])

    Reference: Peters, Niculae & Martins (ACL 2019).
    """
    return classification_loss("entmax15", z, target, {}, weight, ignore_index, reduction, label_smoothing)


def entmax_loss(
    z: Tensor,
    target: Tensor,
    alpha: float | Tensor = 1.5,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Return the loss of entmax: zero once the target's score leads by ``1 / (alpha - 1)``, if alpha > 1.

    .. math:: \langle p - y, z \rangle + \frac{\sum_i y_i^\alpha - \sum_i p_i^\alpha}{\alpha (\alpha - 1)},
              \qquad p = \mathrm{entmax}_\alpha(z)

    Args:
        alpha: in (0, inf]; a float, or a tensor that broadcasts to ``z`` with size 1 along the class axis. Gradients
            reach it.
        z, target, weight, ignore_index, reduction, label_smoothing: as in :func:`softmax_loss`.

    Returns:
        A scalar, or one loss for each sample without reduction.

        >>> import torch
        >>> entmax_loss(torch.tensor([[1.0, 0.5, -1.0]]), torch.tensor([0]), alpha=1.25)
        tensor(0.3035)

    Reference: Peters, Niculae & Martins (ACL 2019); margins: Blondel, Martins & Niculae (JMLR 2020).
    """
    check_above("entmax_loss", "alpha", alpha, 0.0)
    return classification_loss("entmax", z, target, {"alpha": alpha}, weight, ignore_index, reduction, label_smoothing)


def normmax_loss(
    z: Tensor,
    target: Tensor,
    alpha: float | Tensor = 2.0,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Return the loss of normmax: zero once the target's score leads by 1, for every alpha.

    .. math:: \langle p - y, z \rangle + \lVert y \rVert_\alpha - \lVert p \rVert_\alpha,
              \qquad p = \mathrm{normmax}_\alpha(z)

    Args:
        alpha: in (1, inf]; a float, or a tensor that broadcasts to ``z`` with size 1 along the class axis. Gradients
            reach it.
        z, target, weight, ignore_index, reduction, label_smoothing: as in :func:`softmax_loss`.

    Returns:
        A scalar, or one loss for each sample without reduction.

        >>> import torch
        >>> normmax_loss(torch.tensor([[1.0, 0.5, -1.0], [2.0, 1.0, 0.0]]), torch.tensor([0, 0]), reduction="none")
        tensor([0.0886, 0.0000])

    Reference: Blondel, Martins & Niculae (JMLR 2020).
    """
    check_above("normmax_loss", "alpha", alpha, 1.0)
    return classification_loss("normmax", z, target, {"alpha": alpha}, weight, ignore_index, reduction, label_smoothing)


def k_subsets_loss(
    z: Tensor,
    target: Tensor,
    k: float | Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Return the loss of k-subsets: zero once each of the k scores of the target leads every other by 1.

    .. math:: \langle p - y, z \rangle + \tfrac12 \lVert y \rVert^2 - \tfrac12 \lVert p \rVert^2,
              \qquad p = \mathrm{k\text{-}subsets}(z)

    Args:
        target: k-hot vectors (or anything in their convex hull) shaped like ``z``, as floats; or class indices, k of
            them along the class axis; or, for ``k=1``, one without that axis. ``ignore_index`` among its indices
            takes a sample out.
        k: size of the subset.
        weight: ``[C]``. A sample weighs the mean of its classes' weights.
        z, ignore_index, reduction, label_smoothing: as in :func:`softmax_loss`.

    Returns:
        A scalar, or one loss for each sample without reduction.

        >>> import torch
        >>> z = torch.tensor([[1.0, 0.75, 0.5, 0.25, 0.0]])
        >>> k_subsets_loss(z, torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0]]), k=2)
        tensor(0.1562)
        >>> k_subsets_loss(z, torch.tensor([[0, 1]]), k=2)
        tensor(0.1562)

    Reference: Niculae et al. (ICML 2018), for the loss of SparseMAP.
    """
    return classification_loss("k_subsets", z, target, {"k": k}, weight, ignore_index, reduction, label_smoothing)
