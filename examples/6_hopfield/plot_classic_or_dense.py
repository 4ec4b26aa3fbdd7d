"""
How many pictures before a memory mixes them up?
================================================

Hopfield's memory of 1982 keeps a picture or two, and mixes up more that resemble each other. A steeper energy, a
polynomial or an exponential, keeps them apart, at the price of storing them one by one.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from omegamax import viz
from omegamax.hopfield import Memory

# %%
# Ten printed digits, each in nine places: 90 pictures of 27 by 21 pixels of 1 and -1, many of them alike in most.

FONT = """0E11131519110E 040C040404040E 0E11010204081F 1F02040201110E 02060A121F0202
          1F101E0101110E 0608101E11110E 1F010204080808 0E11110E11110E 0E11110F01020C"""
rows = torch.tensor([list(bytes.fromhex(digit)) for digit in FONT.split()])
dots = (rows[..., None] >> torch.arange(4, -1, -1)) & 1  # [10, 7, 5]
placed = torch.stack([F.pad(dots, (c, 2 - c, r, 2 - r)) for r in range(3) for c in range(3)], 1)  # [10, 9, 9, 7]
pictures = (2.0 * placed.double() - 1).repeat_interleave(3, -2).repeat_interleave(3, -1).reshape(90, -1)

# %%
# The query is a 3 of which a quarter of the pixels, drawn at random, are turned over. Beside it others are stored. A
# classic memory sums over all of them, :math:`X^T X q`, and what they have in common wins; a dense one raises each
# match to a power before it sums, and with a large power, or an exponential, the best match is all that counts.

target, counts = 31, (1, 2, 5, 20, 90)
generator = torch.Generator().manual_seed(0)
others = [i for i in torch.randperm(90, generator=generator).tolist() if i != target]
truth, stored = pictures[target], pictures[[target, *others]]
query = torch.where(torch.rand(567, generator=generator) < 0.25, -truth, truth)
kinds = {
    "classic": Memory.classic,
    "power 3": Memory.dense,
    "power 10": lambda patterns: Memory.dense(patterns, 10.0),
    "exponential": Memory.exponential,
}

with viz.style():
    figure, axes = viz.panels(len(kinds) * (len(counts) + 1), len(counts) + 1, size=(1.3, 1.75))
    panels = iter(axes)
    for name, kind in kinds.items():
        found = [kind(stored[:count]).retrieve(query, steps=50).state for count in counts]
        wrong = [int((state != truth).sum()) for state in found]
        print(f"{name}: {wrong} of 567 pixels wrong with {list(counts)} pictures stored")
        for title, state in zip(["query", *(f"{count} stored" for count in counts)], [query, *found], strict=True):
            ax = next(panels)
            ax.imshow(state.reshape(27, 21).numpy(), cmap="Greys", vmin=-1, vmax=1)
            ax.set(xticks=[], yticks=[], title=title if name == "classic" else "")
            if title == "query":
                ax.set_ylabel(name, fontweight="bold")
            colour = "#d9dee4" if title == "query" else "#2a9d8f" if bool((state == truth).all()) else "#d1495b"
            for edge in ax.spines.values():
                edge.set(visible=True, color=colour, linewidth=2.5)
plt.show()
