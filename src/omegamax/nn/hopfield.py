"""Association as a layer: states that look for what resembles them among stored patterns."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Literal, overload

import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_interval
from omegamax._checks import check_floating
from omegamax.hopfield import Memory, Psi, resolve_psi
from omegamax.hopfield.steps import check_beta, check_steps, settle
from omegamax.maps import Omega
from omegamax.nn.alpha import hold
from omegamax.nn.attention import attention
from omegamax.nn.hopfield_heads import ROLES, join_masks, linear, role_sizes, static_roles
from omegamax.nn.transforms import resolve
from omegamax.structured import Factor, StructuredOmega


class Hopfield(torch.nn.Module):
    r"""Queries retrieve from stored patterns, in a few steps, and take the values of what they found.

    .. math:: q \leftarrow \nabla\Psi^*\bigl(K^\top \hat p_\Omega(\beta K q)\bigr), \qquad
              \text{at last}\quad V^\top \hat p_\Omega(\beta K q)

    With ``embed_dim`` queries, patterns and values are projected, for several heads, as in attention; one step of it
    is attention. Without, nothing is learnt: the layer is an associative memory of the patterns it is called with, and
    returns the states that :class:`omegamax.hopfield.Memory` does, or the values that belong to them.

    Args:
        omega: name of a map, an Omega, a factor of :mod:`omegamax.structured`, or a module such as
            ``Entmax(learnable=True, per=num_heads)``.
        beta: the sharpness, > 0: a number, or ``[H]``; ``1 / sqrt(features of a head)`` by default. ``inf`` takes the
            pattern of the largest score, or the mean of those that share it, for softmax, entmax and normmax.
        steps: how often patterns are looked at, >= 1; values are taken at the last.
        embed_dim: features of the queries.
        num_heads: parts into which features are divided, each with an association of its own.
        hidden_dim: features of all heads together, ``embed_dim`` by default.
        stored_dim, value_dim, out_dim: features of patterns, values and output: by default ``embed_dim``,
            ``stored_dim``, ``embed_dim``.
        static: which of ``"query"``, ``"stored"``, ``"value"``, ``"out"`` are left as they are, unprojected.
        psi: what is done to states: ``"identity"``, ``"l2_norm"``, ``"layer_norm"``, ``"sign"`` or a Psi. Values that
            are not states (given ones, projected ones) are left alone.
        tol: a state that moves by less goes no further; None makes all steps, without a look.
        normalize: layer normalisation of queries, patterns and values before they are projected.
        learn_beta: make beta a parameter, ``exp`` of ``log_beta [H]``.
        dropout: of the last weights, while training.
        bias: of the projections.

    ``forward(query [*, L, D], stored [*, N, D'], values [*, N, D''])`` gives ``[*, L, out_dim]``. Without ``stored``
    queries look among themselves; without ``values`` patterns are their own. ``mask``, bool ``[*, N]``, says which
    patterns are there; ``attn_mask``, broadcastable to ``[*, L, N]``, which of them a query may see (bool, True keeps;
    float, added to the scores). ``return_weights`` adds the last weights, ``[*, H, L, N]``.

        >>> recall = Hopfield("sparsemax", beta=4.0, steps=3)
        >>> patterns = torch.tensor([[1.0, 1.0, -1.0], [-1.0, 1.0, 1.0]])
        >>> recall(torch.tensor([[0.9, 0.0, 0.0]]), patterns)
        tensor([[ 1.,  1., -1.]])
        >>> layer = Hopfield("entmax15", steps=2, embed_dim=16, num_heads=4, stored_dim=10)
        >>> layer(torch.randn(3, 7, 16), torch.randn(3, 5, 10)).shape
        torch.Size([3, 7, 16])

    Reference: Ramsauer et al. (ICLR 2021), for the layers; Santos et al. (ICML 2024), for sparse and structured ones.
    """

    beta: float | Tensor | None
    log_beta: torch.nn.Parameter | None
    out_proj: torch.nn.Module

    def __init__(
        self,
        omega: str | Omega | Factor | torch.nn.Module = "softmax",
        beta: float | Tensor | None = None,
        steps: int = 1,
        *,
        embed_dim: int | None = None,
        num_heads: int = 1,
        hidden_dim: int | None = None,
        stored_dim: int | None = None,
        value_dim: int | None = None,
        out_dim: int | None = None,
        static: Collection[str] = (),
        psi: str | Psi = "identity",
        tol: float | None = None,
        normalize: bool = False,
        learn_beta: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        steps = check_steps("Hopfield", steps, tol, least=1)
        num_heads = check_integer("Hopfield", "num_heads", num_heads, least=1)
        check_interval("Hopfield", "dropout", dropout, "[0, 1)")
        self.omega = resolve("Hopfield", StructuredOmega(omega) if isinstance(omega, Factor) else omega)
        self.steps = steps
        self.num_heads = num_heads
        self.psi = resolve_psi("Hopfield", psi)
        self.tol = tol
        self.dropout = dropout
        self.embed_dim = embed_dim
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        if embed_dim is None:
            given: dict[str, object] = {"hidden_dim": hidden_dim, "stored_dim": stored_dim, "value_dim": value_dim}
            given |= {"out_dim": out_dim, "static": static or None, "normalize": normalize or None}
            extra = [name for name, value in given.items() if value is not None]
            if extra:
                raise ValueError(f"Hopfield: {', '.join(extra)} needs embed_dim: without it nothing is projected")
            sizes, kept = dict.fromkeys(ROLES, (0, 0)), set(ROLES)
        else:
            sizes = role_sizes(embed_dim, num_heads, hidden_dim, stored_dim, value_dim, out_dim)
            kept = static_roles(static, sizes)
        for role in ROLES:
            here, there = sizes[role]
            normed = normalize and role != "out"
            self.add_module(f"{role}_norm", torch.nn.LayerNorm(here, **made) if normed else torch.nn.Identity())
            self.add_module(f"{role}_proj", torch.nn.Identity() if role in kept else linear(here, there, bias, made))
        # Whether patterns without values are taken for what they are: states.
        self.recalls = {"stored", "value"} <= kept and not normalize
        self._hold_beta(beta, learn_beta, sizes["query"][1] // num_heads, made)

    @overload
    def forward(
        self,
        query: Tensor,
        stored: Tensor | None = ...,
        values: Tensor | None = ...,
        mask: Tensor | None = ...,
        attn_mask: Tensor | None = ...,
        *,
        return_weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(
        self,
        query: Tensor,
        stored: Tensor | None = ...,
        values: Tensor | None = ...,
        mask: Tensor | None = ...,
        attn_mask: Tensor | None = ...,
        *,
        return_weights: Literal[False] = ...,
    ) -> Tensor: ...
    def forward(
        self,
        query: Tensor,
        stored: Tensor | None = None,
        values: Tensor | None = None,
        mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        *,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        stored = query if stored is None else stored
        own = values is None and self.recalls
        self._check(query, stored, values)
        q = self._split("query", query)  # [*, H, L, d]
        k = self._split("stored", stored)  # [*, H, N, d]
        v = k if own else self._split("value", stored if values is None else values)
        seen = join_masks(stored, mask, attn_mask)
        omega, beta = (self.omega, self._beta(q)) if self._limit is None else (self._limit, 1.0)

        def retrieve(state: Tensor) -> Tensor:
            return self.psi.argmax(attention(state * beta, k, k, omega, seen, scale=1.0))

        q = settle(retrieve, q, self.steps - 1, self.tol).state
        dropout = self.dropout if self.training else 0.0
        out, weights = attention(q * beta, k, v, omega, seen, scale=1.0, dropout=dropout, return_weights=True)
        out = self.psi.argmax(out) if own else out
        out = self.out_proj(out.transpose(-3, -2).flatten(-2))
        return (out, weights) if return_weights else out

    def memory(self, stored: Tensor, mask: Tensor | None = None) -> Memory:
        """Return what the heads remember of ``stored [*, N, D']``: a memory of ``[*, H, N, d]``, with its energy."""
        if isinstance(self.omega, torch.nn.Module):
            raise TypeError(f"Hopfield.memory: omega must be an Omega, which has an energy, got {self.omega!r}")
        k = self._split("stored", stored)
        present = None if mask is None else mask.unsqueeze(-2)
        return Memory(k, self.omega, self._beta(k), self.psi, present)

    def extra_repr(self) -> str:
        shown = "" if isinstance(self.omega, torch.nn.Module) else f"{self.omega!r}, "
        beta = "learnt" if self.log_beta is not None else self.beta
        tol = "" if self.tol is None else f", tol={self.tol:g}"
        return f"{shown}beta={beta}, steps={self.steps}, num_heads={self.num_heads}, psi={self.psi!r}{tol}"

    def _hold_beta(self, beta: float | Tensor | None, learn: bool, head_dim: int, made: dict[str, Any]) -> None:
        self._limit: Omega | None = None  # what stands for omega where beta is infinite
        if beta is not None:
            chosen = check_beta("Hopfield", beta, self.omega)[1]
            if chosen is not self.omega:
                self._limit = chosen
                if learn:
                    raise ValueError("Hopfield: beta must be finite to be learnt, got inf")
            if isinstance(beta, Tensor) and beta.shape not in ((), (1,), (self.num_heads,)):
                raise ValueError(f"Hopfield: beta must be a number or [{self.num_heads}], got {tuple(beta.shape)}")
        if not learn:
            hold(self, "beta", beta)
            self.register_parameter("log_beta", None)
            return
        if beta is None:
            if not head_dim:
                raise ValueError("Hopfield: learn_beta without embed_dim needs a beta to start from, got None")
            beta = 1 / math.sqrt(head_dim)
        start = torch.as_tensor(beta, dtype=torch.float64).detach().log().expand(self.num_heads)
        self.beta = None
        self.log_beta = torch.nn.Parameter(start.to(made["device"], made["dtype"] or torch.get_default_dtype()).clone())

    def _beta(self, q: Tensor) -> float | Tensor:
        beta = self.beta if self.log_beta is None else self.log_beta.exp()
        if beta is None:
            return 1 / math.sqrt(q.shape[-1])
        return beta.reshape(-1, 1, 1).to(q.dtype) if isinstance(beta, Tensor) else beta

    def _split(self, role: str, x: Tensor) -> Tensor:
        """Normalise and project, ``[*, L, D] -> [*, H, L, d]``."""
        x = getattr(self, f"{role}_proj")(getattr(self, f"{role}_norm")(x))
        if x.shape[-1] % self.num_heads:
            raise ValueError(f"Hopfield: num_heads={self.num_heads} must divide the {x.shape[-1]} features of {role}")
        return x.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)

    def _check(self, query: Tensor, stored: Tensor, values: Tensor | None) -> None:
        for name, x in (("query", query), ("stored", stored), ("values", values)):
            if x is None:
                continue
            check_floating("Hopfield", name, x)
            if x.dim() < 2:
                raise ValueError(f"Hopfield: {name} must have at least two axes, [*, L, D], got {tuple(x.shape)}")
        if values is not None and values.shape[-2] != stored.shape[-2]:
            raise ValueError(
                "Hopfield: stored [*, N, D] and values [*, N, Dv] must be as many, "
                f"got {tuple(stored.shape)} and {tuple(values.shape)}"
            )
