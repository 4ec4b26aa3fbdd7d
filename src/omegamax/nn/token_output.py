"""The last layer of a decoder: scores of tokens, the map that makes probabilities of them, and its loss."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax import losses
from omegamax._arguments import check_choice, check_integer, check_number
from omegamax.maps import Omega, get
from omegamax.nn.alpha import Alpha

# Alpha of the maps that are members of entmax; the loss of all of them never holds the scores of all tokens at once.
_MEMBERS = {"softmax": 1.0, "entmax15": 1.5, "sparsemax": 2.0}
OUTPUTS = (*_MEMBERS, "entmax", "normmax")


class TokenOutput(torch.nn.Module):
    r"""Scores of V tokens from a state h, trained by the Fenchel-Young loss of the map that reads them.

    .. math:: z = W h + b, \qquad p = \hat p_\Omega(z), \qquad
              L = \Omega(y) + \Omega^*(z) - \langle y, z \rangle, \qquad y = (1 - \epsilon) e_x + \epsilon / V

    Smoothing moves the target of the loss, whatever the map, so that the gradient stays p - y: the label smoothing of
    this family. Of entmax and its members the loss is :func:`~omegamax.losses.linear_entmax_loss`, whose memory does
    not grow with tokens times vocabulary.

    Args:
        dim: features of a state.
        size: V.
        transform: ``"softmax"``, ``"entmax15"``, ``"sparsemax"``, ``"entmax"`` or ``"normmax"``.
        alpha: of entmax (1.5 by default) or normmax (2).
        learnable: learn alpha of entmax, within ``bounds``. At equal scores the loss of an index is the smaller the
            larger alpha is, so that alone it drives alpha to the upper bound; smoothing holds against it.
        bounds: of a learnt alpha.
        label_smoothing: epsilon, in [0, 1].
        bias: whether there is b.
        weight: W to share with an embedding, ``[V, dim]``; None: its own.
        chunk: tokens whose scores the loss holds at a time; None: few. Many take more memory, and less time on a GPU.

    ``forward(hidden [*, dim])`` returns the scores ``[*, V]``; :meth:`loss` the loss; :attr:`omega` is the map for
    :mod:`omegamax.generation`.

        >>> output = TokenOutput(4, 10, "sparsemax", label_smoothing=0.1)
        >>> hidden = torch.randn(2, 3, 4)
        >>> output(hidden).shape, output.loss(hidden, torch.tensor([[1, 2, 0], [3, 0, 0]]), ignore_index=0).shape
        (torch.Size([2, 3, 10]), torch.Size([]))

    References: Peters, Niculae & Martins, "Sparse sequence-to-sequence models" (ACL 2019); smoothing of these losses,
    Peters & Martins, "Smoothing and shrinking the sparse seq2seq search space" (NAACL 2021); sharing W, Press & Wolf
    (EACL 2017).
    """

    alpha: float | Alpha | None

    def __init__(
        self,
        dim: int,
        size: int,
        transform: str = "softmax",
        *,
        alpha: float | None = None,
        learnable: bool = False,
        bounds: tuple[float, float] = (1.0, 2.0),
        label_smoothing: float = 0.0,
        bias: bool = True,
        weight: torch.nn.Parameter | None = None,
        chunk: int | None = None,
    ):
        super().__init__()
        name = "TokenOutput"
        check_choice(name, "transform", transform, OUTPUTS)
        check_integer(name, "dim", dim, least=1)
        check_integer(name, "size", size, least=1)
        losses.check_smoothing(name, label_smoothing)
        if alpha is not None and transform in _MEMBERS:
            raise ValueError(f"{name}: alpha goes with entmax or normmax, got alpha={alpha} for {transform!r}")
        if learnable and transform != "entmax":
            raise ValueError(f"{name}: learnable goes with entmax, got {transform!r}")
        if weight is not None and tuple(weight.shape) != (size, dim):
            raise ValueError(f"{name}: weight must have shape ({size}, {dim}), got {tuple(weight.shape)}")
        self.dim, self.size, self.transform, self.label_smoothing = dim, size, transform, float(label_smoothing)
        self.chunk = None if chunk is None else check_integer(name, "chunk", chunk, least=1)
        if transform == "normmax":
            self.alpha = check_number(name, "alpha", 2.0 if alpha is None else alpha, above=1)
        else:
            start = check_number(name, "alpha", _MEMBERS.get(transform, 1.5) if alpha is None else alpha, above=0)
            self.alpha = Alpha(start, bounds) if learnable else start
        if weight is None:
            weight = torch.nn.Parameter(torch.empty(size, dim))
            torch.nn.init.normal_(weight, std=dim**-0.5)
        self.weight = weight
        self.bias = torch.nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the scores of the tokens."""
        return F.linear(hidden, self.weight, self.bias)

    def loss(self, hidden: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
        """Return the loss of states ``[*, dim]`` against tokens ``[*]``; without reduction ``[*]``."""
        settings = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": self.label_smoothing}
        if self.transform != "normmax":
            alpha = self.alpha.value if isinstance(self.alpha, Alpha) else self.alpha
            return losses.linear_entmax_loss(hidden, self.weight, target, alpha, self.chunk, bias=self.bias, **settings)  # type: ignore[arg-type]
        z = self(hidden).reshape(-1, self.size)
        found = losses.normmax_loss(z, target.reshape(-1), self.alpha, **settings)  # type: ignore[arg-type]
        return found.reshape(target.shape) if reduction == "none" else found

    @property
    def omega(self) -> Omega:
        """Return the map, with alpha as it is now."""
        if self.transform in _MEMBERS:
            return get(self.transform)
        alpha = float(self.alpha.value.detach()) if isinstance(self.alpha, Alpha) else self.alpha
        return get(self.transform, alpha=alpha)

    @property
    def sparse(self) -> bool:
        """Tell whether the map can leave tokens without any probability."""
        alpha = float(self.alpha.value.detach()) if isinstance(self.alpha, Alpha) else self.alpha
        return alpha is not None and 1 < alpha <= math.inf

    def extra_repr(self) -> str:
        smoothing = f", label_smoothing={self.label_smoothing:g}" if self.label_smoothing else ""
        return f"dim={self.dim}, size={self.size}, transform={self.transform!r}{smoothing}"
