"""Proximal operators of total variation on chains, grids and graphs, and their derivatives."""

from omegamax.kernels.variation.reference import chain_pull as chain_pull
from omegamax.kernels.variation.reference import drop as drop
from omegamax.kernels.variation.reference import grid_pull as grid_pull

_ALL = tuple(f"tv_{graph}{suffix}" for graph in ("chain", "grid", "graph") for suffix in ("", "_vjp", "_slope"))
OPS = {"reference": _ALL, "cpu": _ALL, "triton": tuple(op for op in _ALL if not op.startswith("tv_graph"))}
