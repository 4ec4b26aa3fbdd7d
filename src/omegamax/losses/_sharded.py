"""The entmax loss of scores of which every process holds a slice of the classes."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from omegamax._arguments import check_choice
from omegamax._checks import check_above, check_scores
from omegamax.kernels.rows import MAX_STEPS, deformed_exp
from omegamax.losses._fenchel_young import REDUCTIONS, clip_negative, full_precision, returned_precision
from omegamax.losses._targets import check_smoothing
from omegamax.maps import Tsallis


def sharded_entmax_loss(
    z: Tensor,
    target: Tensor,
    alpha: float | Tensor = 1.5,
    group: ProcessGroup | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Entmax loss of scores ``[N, C]`` whose classes are shared out among processes.

    .. math:: L_\alpha(z; y) = \Omega_\alpha^*(z) + \Omega_\alpha(y) - \langle y, z \rangle

    No process sees all scores: they find the threshold together, exchanging two numbers for each sample in each step of
    Newton's method, 3 to 8 of them. The backward pass exchanges nothing.

    Args:
        z: ``[N, C_r]``, the scores of this process's classes, which follow those of the processes before it; or a
            ``DTensor`` ``[N, C]`` sharded along its last axis.
        target: class indices ``[N]`` among all C classes, the same in all processes.
        alpha: in (0, 2], a float or a tensor of one number, the same in all processes. Gradients reach it.
        group: the processes; all by default, or those of the ``DTensor``.
        ignore_index, reduction, label_smoothing: as in :func:`~omegamax.entmax_loss`.

    Returns:
        The same in all processes: a scalar, or ``[N]`` without reduction.

    Reference: Peters, Niculae & Martins (ACL 2019) for the loss.
    """
    name = "sharded_entmax_loss"
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(f"{name}: torch.distributed must be initialised")
    z, group = _local(name, z, group)
    check_scores(name, z, -1)
    check_choice(name, "reduction", reduction, REDUCTIONS)
    check_smoothing(name, label_smoothing)
    check_above(name, "alpha", alpha, 0.0)
    if z.dim() != 2 or not isinstance(target, Tensor) or target.is_floating_point() or target.shape != z.shape[:1]:
        given = tuple(target.shape) if isinstance(target, Tensor) else type(target).__name__
        raise ValueError(
            f"{name}: z must have shape [N, C] and target hold N class indices, got {tuple(z.shape)} and {given}"
        )
    if alpha.numel() != 1 if isinstance(alpha, Tensor) else alpha > 2:
        raise ValueError(f"{name}: alpha must be one number in (0, 2], got {alpha}")
    start, classes = _place(z, group)
    ignored = target == ignore_index
    index = torch.where(ignored, 0, target.long())
    if bool(((index < 0) | (index >= classes)).any()):
        raise IndexError(f"{name}: target must hold class indices in [0, {classes}) or ignore_index={ignore_index}")

    scores = full_precision(z)
    a = alpha.to(scores.dtype).reshape(()) if isinstance(alpha, Tensor) else float(alpha)
    loss = _Sharded.apply(scores, a, index, start, classes, label_smoothing, group)
    if label_smoothing:
        high = 1 - label_smoothing + label_smoothing / classes
        y = scores.new_full((classes,), label_smoothing / classes)
        loss = loss + Tsallis(a)(torch.cat([y.new_tensor([high]), y[1:]]))
    loss = torch.where(ignored, 0.0, clip_negative(loss))
    if reduction == "sum":
        loss = loss.sum()
    elif reduction == "mean":
        loss = loss.sum() / (~ignored).sum()
    return returned_precision(loss, z)


def _local(name: str, z: Tensor, group: ProcessGroup | None) -> tuple[Tensor, ProcessGroup | None]:
    """Return the slice of this process, and who has the others."""
    from torch.distributed.tensor import DTensor, Shard

    if not isinstance(z, DTensor):
        return z, group
    axes = [i for i, place in enumerate(z.placements) if place in (Shard(z.dim() - 1), Shard(-1))]
    if len(axes) != 1:
        raise ValueError(f"{name}: z must be sharded along its last axis and one of the mesh, got {z.placements}")
    return z.to_local(), z.device_mesh.get_group(axes[0])


def _place(z: Tensor, group: ProcessGroup | None) -> tuple[int, int]:
    """Count the classes before those of this process, and all of them."""
    mine = torch.tensor([z.shape[-1]], device=z.device)
    sizes = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, mine, group=group)
    counts = [int(size) for size in sizes]
    return sum(counts[: dist.get_rank(group)]), sum(counts)


class _Sharded(torch.autograd.Function):
    """``Omega*(z) - <y, z>`` of each row, from the slices of all processes."""

    @staticmethod
    def forward(ctx, z, alpha, index, start, classes, smoothing, group):
        def total(x: Tensor) -> Tensor:
            dist.all_reduce(x, group=group)
            return x

        top = z.amax(-1, keepdim=True)
        dist.all_reduce(top, dist.ReduceOp.MAX, group=group)
        sound = top.isfinite()
        u = torch.where(sound, z - top, 0.0)
        e = (alpha - 1) * torch.ones_like(top)
        inverse = torch.where(e == 0, 0.0, 1 / torch.where(e == 0, 1.0, e))
        level = torch.zeros_like(top)
        for _ in range(MAX_STEPS):
            p, base = deformed_exp(u - level, e, inverse)
            s, r = total(torch.stack([p.sum(-1), torch.where(p > 0, p / base, 0.0).sum(-1)])).unsqueeze(-1)
            log_s = s.log()
            # Newton on (s^e - 1) / e, which is convex and falls: it comes from the left and stays there.
            moved = level + s / r * torch.where(e == 0, log_s, -(-e * log_s).expm1() * inverse)
            if bool((moved <= level).all()):
                break
            level = torch.maximum(moved, level)
        p, _ = deformed_exp(u - level, e, inverse)

        own = (index >= start) & (index < start + z.shape[-1])
        at = torch.where(own, index - start, 0).unsqueeze(-1)
        own = own.unsqueeze(-1)
        met = torch.where(own, u.gather(-1, at), 0.0)
        met = (1 - smoothing) * met
        if smoothing:
            met = met + smoothing / classes * u.sum(-1, keepdim=True)
        omega = Tsallis(alpha)
        slope = omega.parameter_gradients(u, p)[0]
        mass, power, met, slope = total(torch.stack([p.sum(-1, True), p.pow(alpha).sum(-1, True), met, slope]))
        # On the support u = level + (p^e - 1) / e, so that <p, u> - Omega(p) is this.
        value = level + (power - 1) / alpha - met
        value = torch.where(met == -math.inf, math.inf, value)
        value = torch.where(sound, value, torch.where(top == -math.inf, math.inf, math.nan))

        ctx.save_for_backward(p / mass, at, own, slope)
        ctx.smoothing, ctx.classes = smoothing, classes
        return value.squeeze(-1)

    @staticmethod
    def backward(ctx, g):
        if torch.is_grad_enabled():
            raise RuntimeError("sharded_entmax_loss: can be differentiated once, got create_graph=True")
        p, at, own, slope = ctx.saved_tensors
        g = g.unsqueeze(-1)
        move = p.scatter_add(-1, at, (ctx.smoothing - 1) * own.to(p.dtype))
        move = move - ctx.smoothing / ctx.classes
        d_alpha = (g * slope).sum() if ctx.needs_input_grad[1] else None
        return g * move, d_alpha, None, None, None, None, None
