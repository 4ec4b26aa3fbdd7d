"""Networks of one make as one network, whose batch holds the examples of all, one network after the other."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from omegamax.nn import Alpha

_WIDTH = 64  # numbers to a multiple of which the weights of a network are filled up: rows then begin aligned


class Folded(torch.nn.Module):
    """Networks that differ in what they learn, each with its part of the batch: ``[M B, *] -> [M B, *]``.

    :class:`~omegamax.tasks.stacked.Stacked` maps a network over its copies; here only the layers with weights know of
    copies, and what has none sees one large batch. So it may be anything: kernels, draws, solvers, layers of torch that
    cannot be mapped. Linear maps, layer norms, embeddings and LSTMs are known, and a learnt
    :class:`~omegamax.nn.Alpha` of scores ``[M B, L]``.

    Args:
        networks: M of them, of the same make. What they learn is copied, into the rows of one parameter ``weights [M,
            P]``; :meth:`hand_back` returns it. What else they hold must be the same in all.
        each: names of parameters and buffers of which the network takes one for each example, ``[M B, *]``.

        >>> make = lambda: torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        >>> both = Folded([make(), make()])
        >>> both(torch.randn(10, 3)).shape, both.weights.shape
        (torch.Size([10, 2]), torch.Size([2, 64]))
    """

    def __init__(self, networks: Sequence[torch.nn.Module], each: Sequence[str] = ()) -> None:
        super().__init__()
        self.size = len(networks)
        held: list[dict[str, Tensor]] = [{**dict(n.named_parameters()), **dict(n.named_buffers())} for n in networks]
        learnt = [name for name, value in networks[0].named_parameters() if value.requires_grad]
        _check_same(held, [name for name in held[0] if name not in learnt and name not in each])
        # Rows of numbers that begin aligned come first, and the single ones after them.
        self.names = sorted(learnt, key=lambda name: held[0][name].numel() % 4 > 0)
        self.shapes = [held[0][name].shape for name in self.names]
        rows = torch.stack([torch.cat([own[name].detach().flatten() for name in self.names]) for own in held])
        self.weights = torch.nn.Parameter(F.pad(rows, (0, -rows.shape[1] % _WIDTH)))
        for name in each:
            if name not in learnt and name in held[0]:
                self.register_buffer(_key(name), torch.stack([own[name] for own in held]))
        make = copy.deepcopy(networks[0])
        self._each = {name for name in each if name in held[0]} | _fold_layers(make, self.size, set(each))
        # In a list, so that it is no part of this module: it has the make of the networks, not their weights.
        self._make = [make.train(networks[0].training)]

    @property
    def make(self) -> torch.nn.Module:
        """Return the network that computes; its weights are not used."""
        return self._make[0]

    def train(self, mode: bool = True) -> Folded:
        self.make.train(mode)
        return super().train(mode)

    def forward(self, batch: Any) -> Any:
        """Return what the network makes of a tensor ``[M B, *]``, or of a mapping that holds such tensors."""
        count = len(batch if isinstance(batch, Tensor) else next(v for v in batch.values() if isinstance(v, Tensor)))
        given = self._cut(self.weights)
        for name in self._each:
            own = given[name] if name in given else self.get_buffer(_key(name))
            given[name] = own.unsqueeze(1).expand(-1, count // self.size, *own.shape[1:]).flatten(0, 1)
        return functional_call(self.make, given, (batch,))

    @torch.no_grad()
    def hand_back(self, networks: Sequence[torch.nn.Module], weights: Tensor | None = None) -> None:
        """Copy weights ``[M, P]``, by default the present ones, back into M networks of this make."""
        given = self._cut(self.weights if weights is None else weights)
        for number, network in enumerate(networks):
            own = dict(network.named_parameters())
            for name, value in given.items():
                own[name].copy_(value[number])

    def _cut(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the parameters ``[M, *]`` in the rows ``[M, P]``, by their names."""
        sizes = [shape.numel() for shape in self.shapes]
        rows = weights.split([*sizes, weights.shape[1] - sum(sizes)], 1)[:-1]
        return {name: row.view(-1, *s) for name, row, s in zip(self.names, rows, self.shapes, strict=True)}


class _FoldedLayer(torch.nn.Module):
    """A layer of M networks: its parameters have an axis more, and come with each call of the whole."""

    def __init__(self, layer: torch.nn.Module, size: int) -> None:
        super().__init__()
        self.size = size
        for name, value in layer.named_parameters(recurse=False):
            self.register_parameter(name, torch.nn.Parameter(torch.empty(size, *value.shape, device="meta")))


class _FoldedLinear(_FoldedLayer):
    """``[M B, *, D] -> [M B, *, out]``."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, layer: torch.nn.Linear, size: int) -> None:
        super().__init__(layer, size)
        if layer.bias is None:
            self.bias = None

    def forward(self, x: Tensor) -> Tensor:
        rows, maps = x.reshape(self.size, -1, x.shape[-1]), self.weight.mT
        y = torch.bmm(rows, maps) if self.bias is None else torch.baddbmm(self.bias.unsqueeze(1), rows, maps)
        return y.view(*x.shape[:-1], -1)


class _FoldedNorm(_FoldedLayer):
    """``[M B, *, D] -> [M B, *, D]``."""

    weight: Tensor
    bias: Tensor

    def __init__(self, layer: torch.nn.LayerNorm, size: int) -> None:
        super().__init__(layer, size)
        self.shape, self.eps = layer.normalized_shape, layer.eps

    def forward(self, x: Tensor) -> Tensor:
        rows = F.layer_norm(x, self.shape, eps=self.eps).view(self.size, -1, *self.shape)
        return torch.addcmul(self.bias.unsqueeze(1), rows, self.weight.unsqueeze(1)).view(x.shape)


class _FoldedEmbedding(_FoldedLayer):
    """``[M B, *] -> [M B, *, D]``."""

    weight: Tensor

    def __init__(self, layer: torch.nn.Embedding, size: int) -> None:
        super().__init__(layer, size)
        self.num_embeddings, self.embedding_dim = layer.num_embeddings, layer.embedding_dim

    def forward(self, index: Tensor) -> Tensor:
        first = torch.arange(self.size, device=index.device) * self.num_embeddings
        own = index.view(self.size, -1) + first.unsqueeze(1)
        return F.embedding(own.view(index.shape), self.weight.flatten(0, 1))


class _FoldedLSTM(_FoldedLayer):
    """``[M B, T, D] -> [M B, T, H]``, and the last states ``[1, M B, H]``; from states of 0."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def __init__(self, layer: torch.nn.LSTM, size: int) -> None:
        super().__init__(layer, size)
        self.hidden_size = layer.hidden_size

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        rows = x.unflatten(0, (self.size, -1))
        bias = (self.bias_ih_l0 + self.bias_hh_l0).unsqueeze(1)
        gates = torch.baddbmm(bias, rows.flatten(1, 2), self.weight_ih_l0.mT).unflatten(1, rows.shape[1:3])
        maps, k = self.weight_hh_l0.mT, self.hidden_size
        h = c = x.new_zeros(*rows.shape[:2], k)
        said = []
        for inputs in gates.unbind(2):
            both, g, o = torch.baddbmm(inputs, h, maps).split([2 * k, k, k], -1)
            i, f = both.sigmoid().chunk(2, -1)
            c = f * c + i * g.tanh()
            h = o.sigmoid() * c.tanh()
            said.append(h)
        return torch.stack(said, 2).flatten(0, 1), (h.flatten(0, 1)[None], c.flatten(0, 1)[None])


_LAYERS: dict[type[torch.nn.Module], type[Any]] = {
    torch.nn.Linear: _FoldedLinear,
    torch.nn.LayerNorm: _FoldedNorm,
    torch.nn.Embedding: _FoldedEmbedding,
    torch.nn.LSTM: _FoldedLSTM,
}


def _fold_layers(module: torch.nn.Module, size: int, each: set[str], prefix: str = "") -> set[str]:
    """Put layers of all networks in place of those that learn; return what else is taken for each example."""
    found: set[str] = set()
    for name, value in module.named_parameters(recurse=False):
        if value.requires_grad and prefix + name not in each:
            raise TypeError(
                f"Folded: {type(module).__name__} has a parameter that copies cannot share: {prefix + name}"
            )
    for name, child in list(module.named_children()):
        own = [value for value in child.parameters(recurse=False) if value.requires_grad]
        if isinstance(child, Alpha) and child.axis is None and own:
            child.axis = 0  # of scores [M B, L]
            found.add(f"{prefix}{name}.raw")
        elif type(child) in _LAYERS and own:
            _check_plain(child)
            setattr(module, name, _LAYERS[type(child)](child, size))
        else:
            found |= _fold_layers(child, size, each, f"{prefix}{name}.")
    return found


def _check_plain(layer: torch.nn.Module) -> None:
    """Refuse settings of a layer that its copies do not have."""
    lstm = isinstance(layer, torch.nn.LSTM) and (
        layer.num_layers > 1 or layer.bidirectional or layer.proj_size or not layer.bias or not layer.batch_first
    )
    sparse = isinstance(layer, torch.nn.Embedding) and (
        layer.padding_idx is not None or layer.max_norm is not None or layer.sparse or layer.scale_grad_by_freq
    )
    unscaled = isinstance(layer, torch.nn.LayerNorm) and (layer.weight is None or layer.bias is None)
    if lstm or sparse or unscaled:
        raise TypeError(f"Folded: copies of {layer} are not known")


def _check_same(held: Sequence[Mapping[str, Tensor]], names: Sequence[str]) -> None:
    """Refuse networks that differ in what is not learnt."""
    for other in held[1:]:
        if set(other) != set(held[0]):
            raise ValueError(f"Folded: networks must be of one make, got {sorted(set(other) ^ set(held[0]))} in some")
        for name in names:
            if not torch.equal(other[name], held[0][name]):
                raise ValueError(f"Folded: networks must have the same {name}, or name it in each")


def _key(name: str) -> str:
    return name.replace(".", "__")
