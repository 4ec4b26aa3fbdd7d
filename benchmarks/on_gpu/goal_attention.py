"""Goals of attention: short texts, flat scores, and cuDNN's softmax attention as the rival."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import omegamax
from on_gpu import DEVICE
from on_gpu.attention import dense_kernels
from on_gpu.clock import Run
from on_gpu.goal import WAYS, Goal, Key

FLASH, CUDNN = ("softmax (FlashAttention)", "torch"), ("softmax (cuDNN)", "torch")
ENTMAX = "attention(entmax15)"
# Rival, shape, causal, factor of the queries, and aim and time before of both ways.
LINES = [
    (FLASH, (16, 12, 512, 64), False, 1.0, {"forward": (1.3, "2.5-10"), "forward+backward": (1.3, "2.4-6")}),
    (FLASH, (32, 12, 197, 64), False, 1.0, {"forward": (1.3, "2.5-10"), "forward+backward": (1.3, "2.4-6")}),
    (FLASH, (4, 16, 4096, 64), True, 0.25, {"forward": (1.7, "2.6-3.0"), "forward+backward": (1.0, "1.5-1.6")}),
    (CUDNN, (2, 16, 8192, 64), True, 1.0, {"forward": (1.3, "2.07"), "forward+backward": (0.8, "1.03")}),
    (CUDNN, (2, 16, 8192, 128), True, 1.0, {"forward": (1.3, "2.18"), "forward+backward": (0.8, "1.14")}),
    (CUDNN, (2, 16, 8192, 64), False, 1.0, {"forward": (1.3, "1.65"), "forward+backward": (0.6, "0.72")}),
    (CUDNN, (1, 8, 32768, 128), True, 1.0, {"forward": (1.3, "1.54"), "forward+backward": (0.45, "0.55")}),
]


def goals(scale: str) -> list[Goal]:
    found = []
    for rival, shape, causal, factor, aims in LINES[:1] if scale == "tiny" else LINES:
        shape = (1, 2, 8, 4) if scale == "tiny" else shape
        for way, (aim, before) in aims.items():
            make = partial(_rivals, rival, shape, causal, factor, way)
            title = f"{'causal' if causal else 'full'}, queries x {factor:g}, {way}"
            found.append(Goal(ENTMAX, "x".join(map(str, shape)), "bfloat16", title, make, rival, aim, before))
    return found


def _rivals(rival: Key, shape: tuple[int, ...], causal: bool, factor: float, way: str) -> dict[Key, Run]:
    generator = torch.Generator(DEVICE).manual_seed(0)
    q, k, v = (torch.randn(*shape, device=DEVICE, generator=generator).bfloat16() for _ in range(3))

    def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        kernels = sdpa_kernel([SDPBackend.CUDNN_ATTENTION]) if rival == CUDNN else dense_kernels(DEVICE)
        with kernels:
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def sparse(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return omegamax.attention(q, k, v, "entmax15", is_causal=causal)

    run = WAYS[way]
    return {rival: run(dense, q * factor, k, v), (ENTMAX, "omegamax"): run(sparse, q * factor, k, v)}
