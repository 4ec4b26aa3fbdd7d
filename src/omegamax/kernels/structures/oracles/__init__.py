"""Find structures of largest score, in plain torch: what SparseMAP asks for in each step.

Each oracle takes scores ``[B, n]`` and additional scores ``[B, m]`` (``-inf`` forbids a part) and returns the 0/1 parts
of one best structure a row, shaped alike; NaN where every structure is forbidden.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from omegamax.kernels.structures.oracles._arborescence import arborescence as arborescence
from omegamax.kernels.structures.oracles._projective import projective as projective
from omegamax.kernels.structures.oracles._sequence import labels_to_parts as labels_to_parts
from omegamax.kernels.structures.oracles._sequence import sequence_sizes as sequence_sizes
from omegamax.kernels.structures.oracles._sequence import viterbi as viterbi
from omegamax.kernels.structures.oracles._spanning import spanning_tree as spanning_tree
from omegamax.kernels.structures.oracles._subsets import adjacent as adjacent
from omegamax.kernels.structures.oracles._subsets import sequential_subset as sequential_subset
from omegamax.kernels.structures.oracles._subsets import top_subset as top_subset

Oracle = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def oracle(kind: str, sizes: tuple[int, ...], graph: Tensor | None = None) -> Oracle:
    """Return the oracle of a kind of structure.

    ``"k_subsets"`` and ``"sequential_k_subsets"``, sizes ``(n, k, at_most)``; ``"sequence"``, sizes ``(n, s)``;
    ``"arborescence"`` and ``"projective"``, sizes ``(n, single_root)``; ``"spanning_tree"``, sizes ``(nodes,)`` with
    edges ``graph [2, E]``.
    """
    return _KINDS[kind](sizes, graph)


def _k_subsets(sizes: tuple[int, ...], graph: Tensor | None) -> Oracle:
    _, k, at_most = sizes
    return lambda scores, additional: (top_subset(scores, k, bool(at_most)), additional)


def _sequential(sizes: tuple[int, ...], graph: Tensor | None) -> Oracle:
    _, k, at_most = sizes

    def best(scores: Tensor, additional: Tensor) -> tuple[Tensor, Tensor]:
        unary = sequential_subset(scores, additional, k, bool(at_most))
        return unary, adjacent(unary)

    return best


def _sequence(sizes: tuple[int, ...], graph: Tensor | None) -> Oracle:
    length, states = sizes

    def best(scores: Tensor, additional: Tensor) -> tuple[Tensor, Tensor]:
        labels, found = viterbi(scores.unflatten(-1, (length, states)), additional)
        unary, parts = labels_to_parts(labels, states)
        return unary.flatten(-2).where(found[:, None], float("nan")), parts

    return best


def _tree(find: Callable[[Tensor, bool], Tensor]) -> Callable:
    def make(sizes: tuple[int, ...], graph: Tensor | None) -> Oracle:
        size, single_root = sizes

        def best(scores: Tensor, additional: Tensor) -> tuple[Tensor, Tensor]:
            heads = find(scores.unflatten(-1, (size, size)), bool(single_root))
            unary = (heads[..., None] == heads.new_tensor(range(size))).to(scores.dtype).flatten(-2)
            return unary.where((heads >= 0).all(-1, keepdim=True), float("nan")), additional

        return best

    return make


def _spanning_tree(sizes: tuple[int, ...], graph: Tensor | None) -> Oracle:
    assert graph is not None
    (nodes,) = sizes
    return lambda scores, additional: (spanning_tree(scores, graph, nodes), additional)


_KINDS: dict[str, Callable[[tuple[int, ...], Tensor | None], Oracle]] = {
    "k_subsets": _k_subsets,
    "sequential_k_subsets": _sequential,
    "sequence": _sequence,
    "arborescence": _tree(arborescence),
    "projective": _tree(projective),
    "spanning_tree": _spanning_tree,
}
