"""Regularisers, and the register of the maps they define."""

import torch

from omegamax import functional
from omegamax._registry import Transform, register
from omegamax.omegas._base import Omega as Omega
from omegamax.omegas._bounded import Bounded as Bounded
from omegamax.omegas._budget import KSubsets as KSubsets
from omegamax.omegas._fused import Fused as Fused
from omegamax.omegas._fused import GraphFused as GraphFused
from omegamax.omegas._grid import TotalVariation2d as TotalVariation2d
from omegamax.omegas._norm import NormEntropy as NormEntropy
from omegamax.omegas._oscar import Oscar as Oscar
from omegamax.omegas._sequential import SequentialKSubsets as SequentialKSubsets
from omegamax.omegas._tsallis import Shannon as Shannon
from omegamax.omegas._tsallis import Tsallis as Tsallis

register(
    Transform(
        "softmax",
        functional.softmax,
        lambda: Shannon(),  # a function, whose signature torch.compile can read
        summary="dense baseline: every entry positive",
        complexity="O(K)",
        cite="bridle1990probabilistic",
    )
)
register(
    Transform(
        "sparsemax",
        functional.sparsemax,
        lambda: Tsallis(2.0),
        summary="Euclidean projection onto the simplex: exact zeros, piecewise linear",
        complexity="O(K) expected",
        cite="martins2016softmax",
    )
)
register(
    Transform(
        "entmax15",
        functional.entmax15,
        lambda: Tsallis(1.5),
        summary="exact zeros and a smooth gradient: the safest first choice",
        complexity="O(K) expected",
        cite="peters2019sparse",
    )
)
register(
    Transform(
        "entmax",
        functional.entmax,
        Tsallis,
        summary="the whole family, alpha learnable: 1 softmax, 2 sparsemax, inf argmax",
        complexity="O(K) a step, 2-6 steps",
        cite="correia2019adaptively",
        example={"alpha": 1.25},
    )
)
register(
    Transform(
        "normmax",
        functional.normmax,
        NormEntropy,
        summary="equal shares on a small support; margin 1 for every alpha",
        complexity="O(K) a step, 2-6 steps",
        cite="santos2024sparse",
        example={"alpha": 3.0},
    )
)
register(
    Transform(
        "k_subsets",
        functional.k_subsets,
        KSubsets,
        summary="exactly (or at most) k chosen, relaxed as little as possible",
        complexity="O(K) expected",
        cite="niculae2018sparsemap",
        example={"k": 2},
    )
)
register(
    Transform(
        "constrained_softmax",
        functional.constrained_softmax,
        lambda upper: Bounded("softmax", upper),
        summary="softmax with a ceiling on each entry (fertility)",
        complexity="O(K log K)",
        cite="martins2017learning",
        example={"upper": 0.6},
    )
)
register(
    Transform(
        "constrained_sparsemax",
        functional.constrained_sparsemax,
        lambda upper, lower=None: Bounded("sparsemax", upper, lower),
        summary="sparsemax with a ceiling and a floor on each entry",
        complexity="O(K log K)",
        cite="malaviya2018sparse",
        example={"upper": 0.6},
    )
)
register(
    Transform(
        "fusedmax",
        functional.fusedmax,
        Fused,
        summary="neighbours in a row get equal weights: attention in runs",
        complexity="O(K)",
        cite="niculae2017regularized",
        example={"strength": 0.25},
    )
)
register(
    Transform(
        "tvmax",
        functional.tvmax,
        TotalVariation2d,
        summary="neighbours in an image get equal weights: attention in patches",
        complexity="a few cuts of the grid",
        cite="martins2021tvmax",
        example={"strength": 0.25},
        image=True,
    )
)
register(
    Transform(
        "graph_fusedmax",
        functional.graph_fusedmax,
        lambda edges, strength=1.0, weights=None, base="sparsemax": GraphFused(base, edges, strength, weights),
        summary="neighbours in any graph get equal weights",
        complexity="a few cuts of the graph",
        cite="martins2021tvmax",
        example={"edges": torch.tensor([[0, 1], [1, 2]]), "strength": 0.25},
    )
)
register(
    Transform(
        "oscarmax",
        functional.oscarmax,
        Oscar,
        summary="clusters of equal weights, wherever they are",
        complexity="O(K log K)",
        cite="niculae2017regularized",
        example={"strength": 0.1},
    )
)
register(
    Transform(
        "sequential_k_subsets",
        functional.sequential_k_subsets,
        SequentialKSubsets,
        summary="k chosen, neighbours together or apart",
        complexity="O(K k) a structure",
        cite="santos2024sparse",
        example={"k": 2, "transition": 0.5},
    )
)
