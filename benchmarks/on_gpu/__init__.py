"""The parts of ``benchmarks/gpu.py``: what is promised, what is measured, beside whom, and how it is written down."""

import torch

# Without a GPU only a rehearsal can be run, at the scale "tiny".
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SCALES = ("full", "quick", "tiny")
