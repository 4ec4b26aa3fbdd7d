"""
Can a picture be recalled from a half of it?
============================================

Ninety pictures of digits, of which the lower half is hidden. A memory fills it in: a dense map with a mixture of all
that fits, a sparse one with the very picture that was stored.
"""

import gzip
import os
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

import omegamax
from omegamax import viz
from omegamax.hopfield import Memory, retrieved_exactly

# %%
# With the variable ``OMEGAMAX_DATA`` set to a folder that has ``mnist`` in it, the digits are handwritten. Otherwise
# they are printed: ten digits of a small font, each in nine places, so that many resemble each other.

FONT = """0E11131519110E 040C040404040E 0E11010204081F 1F02040201110E 02060A121F0202
          1F101E0101110E 0608101E11110E 1F010204080808 0E11110E11110E 0E11110F01020C"""


def printed():
    rows = torch.tensor([list(bytes.fromhex(digit)) for digit in FONT.split()])  # [10, 7]
    bits = (rows[..., None] >> torch.arange(4, -1, -1) & 1).double()  # [10, 7, 5]
    return torch.stack([F.pad(bits, (left, 8 - left, 1, 2)) for left in range(9)], 1).flatten(0, 1)


def handwritten(folder):
    with (
        gzip.open(folder / "train-images-idx3-ubyte.gz") as images,
        gzip.open(folder / "train-labels-idx1-ubyte.gz") as labels,
    ):
        pixels = torch.tensor(list(images.read(16 + 2000 * 784)[16:])).reshape(2000, 28, 28).double() / 255
        digits = torch.tensor(list(labels.read(8 + 2000)[8:]))
    return torch.cat([pixels[digits == d][:9] for d in range(10)])


folder = Path(os.environ.get("OMEGAMAX_DATA", "")) / "mnist"
pictures = handwritten(folder) if "OMEGAMAX_DATA" in os.environ and folder.is_dir() else printed()  # [90, H, W]

# %%
# Patterns are the pictures without their mean, on a sphere. A query has zeros where nothing is known.

mean = pictures.mean(0)
patterns = (pictures - mean).flatten(1)
length = patterns.norm(dim=-1, keepdim=True)
patterns = patterns / length
queries = patterns.unflatten(-1, mean.shape).clone()
queries[:, mean.shape[0] // 2 :] = 0
queries = queries.flatten(1)

# %%
# The same beta for all. Whether one step is exact, theory tells beforehand.

beta = 9.0
omegas = {
    "softmax": omegamax.Shannon(),
    "1.5-entmax": omegamax.Tsallis(1.5),
    "sparsemax": omegamax.Tsallis(2.0),
    "2-normmax": omegamax.NormEntropy(2.0),
}
own = torch.eye(len(patterns)).bool()
states = {}
for name, omega in omegas.items():
    found = Memory(patterns, omega, beta).retrieve(queries, steps=300, tol=1e-9)
    states[name] = found.state
    told = retrieved_exactly(queries, patterns, omega, beta)[own]
    exact = (found.state == patterns).all(-1)
    assert exact[told].all()
    error = (found.state - patterns).norm(dim=-1).mean()
    print(f"{name}: {int(exact.sum())} of 90 exact ({int(told.sum())} as told), error {error:.1e} on average")

# %%
# One picture of each digit: as it was stored, what the memory was shown, and what came back. Below each, how far that
# is from the stored picture, whose length is 1; nothing is written where it is the same to the last bit.

shown = torch.arange(10) * 9 + torch.tensor([4, 0, 8, 2, 6, 1, 3, 5, 7, 4])
rows = {"stored": patterns, "shown": queries} | states
with viz.style():
    figure, axes = viz.panels(len(rows) * 10, 10, size=(0.95, 1.12))
    panels = iter(axes)
    for name, row in rows.items():
        for i in shown.tolist():
            ax = next(panels)
            picture = (row[i] * length[i]).unflatten(-1, mean.shape) + mean
            if name == "shown":
                picture[mean.shape[0] // 2 :] = torch.nan
            ax.imshow(picture.numpy(), cmap="Greys", vmin=-0.1, vmax=1)
            ax.set_facecolor("#eef1f4")
            ax.set(xticks=[], yticks=[])
            error = float((row[i] - patterns[i]).norm())
            if name in states and error > 0:
                ax.set_xlabel(f"{error:.0e}", fontsize=7, labelpad=1)
            if i == shown[0]:
                ax.set_ylabel(name, fontsize=8, fontweight="bold")
plt.show()
