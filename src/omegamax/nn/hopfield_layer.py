"""A table that is looked up by resemblance."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import is_integer
from omegamax.maps import Omega
from omegamax.nn.hopfield import Hopfield
from omegamax.structured import Factor


class HopfieldLayer(torch.nn.Module):
    """Stored patterns that belong to the layer, learnt or given, looked up by what is fed to it.

    Args:
        omega, beta, steps: as in :class:`Hopfield`.
        patterns: how many to learn; or those to start from, ``[N, D]``.
        embed_dim: features of the queries; may be left out where ``patterns`` are given that have as many.
        values: what is returned for a pattern: None, the pattern itself; features of values to learn; or values to
            start from, ``[N, Dv]``.
        trainable: False keeps given patterns and values as they are. They are part of the state-dict all the same.
        project: False looks up the patterns as they are, without projections: a table.
        options: of :class:`Hopfield`, such as ``num_heads``, ``hidden_dim``, ``out_dim``, ``psi``.

    ``forward(query [*, L, D])`` gives ``[*, L, out_dim]``, or the values' features if nothing is projected.

        >>> digits = torch.tensor([[1.0, 1.0, -1.0], [-1.0, 1.0, 1.0]])
        >>> table = HopfieldLayer("sparsemax", beta=4.0, patterns=digits, values=torch.eye(2), trainable=False,
        ...     project=False)
        >>> table(torch.tensor([[0.9, 0.0, 0.0]]))
        tensor([[1., 0.]])

    Reference: Ramsauer et al. (ICLR 2021).
    """

    patterns: Tensor
    values: Tensor | None

    def __init__(
        self,
        omega: str | Omega | Factor | torch.nn.Module = "softmax",
        beta: float | Tensor | None = None,
        steps: int = 1,
        *,
        patterns: int | Tensor,
        embed_dim: int | None = None,
        values: int | Tensor | None = None,
        trainable: bool = True,
        project: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ):
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        if isinstance(patterns, Tensor):
            count, features = _table("patterns", patterns)
            embed_dim = features if embed_dim is None else embed_dim
        elif is_integer(patterns) and patterns >= 1:
            if embed_dim is None:
                raise ValueError("HopfieldLayer: embed_dim is needed for patterns that are to be learnt, got None")
            count, features = int(patterns), embed_dim
        else:
            raise ValueError(f"HopfieldLayer: patterns must be a number of them or a tensor [N, D], got {patterns!r}")
        if isinstance(values, Tensor):
            given, value_dim = _table("values", values)
            if given != count:
                raise ValueError(f"HopfieldLayer: values must be one for each of {count} patterns, got {given}")
        elif values is None or (is_integer(values) and values >= 1):
            value_dim = features if values is None else int(values)
        else:
            raise ValueError(f"HopfieldLayer: values must be None, a number or a tensor [N, Dv], got {values!r}")
        if not trainable and (not isinstance(patterns, Tensor) or isinstance(values, int)):
            raise ValueError("HopfieldLayer: trainable=False needs patterns, and values if any, given as tensors")
        sizes: dict[str, Any] = {"stored_dim": features, "value_dim": value_dim} if project else {}
        self.association = Hopfield(
            omega, beta, steps, embed_dim=embed_dim if project else None, **sizes, **options, **made
        )
        self._hold("patterns", patterns, (count, features), trainable, made)
        self._hold("values", values, (count, value_dim), trainable, made)

    def forward(
        self,
        query: Tensor,
        mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        *,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return what queries retrieve from the patterns that ``mask [N]`` leaves in use, as :class:`Hopfield` does."""
        out, weights = self.association(query, self.patterns, self.values, mask, attn_mask, return_weights=True)
        return (out, weights) if return_weights else out

    def extra_repr(self) -> str:
        return f"patterns={list(self.patterns.shape)}"

    def _hold(
        self, name: str, table: int | Tensor | None, shape: tuple[int, int], trainable: bool, made: dict[str, Any]
    ) -> None:
        if table is None:
            self.register_parameter(name, None)
        elif isinstance(table, Tensor):
            start = table.detach().to(made["device"], made["dtype"] or table.dtype).clone()
            if trainable:
                self.register_parameter(name, torch.nn.Parameter(start))
            else:
                self.register_buffer(name, start)
        else:
            parameter = torch.nn.Parameter(torch.empty(shape, **made))
            torch.nn.init.normal_(parameter, std=1 / math.sqrt(shape[1]))
            self.register_parameter(name, parameter)


def _table(argument: str, given: Tensor) -> tuple[int, int]:
    if given.dim() != 2 or 0 in given.shape or not given.is_floating_point():
        raise ValueError(
            f"HopfieldLayer: {argument} must be floating [N, D] with N, D > 0, got {given.dtype} {tuple(given.shape)}"
        )
    return given.shape[0], given.shape[1]
