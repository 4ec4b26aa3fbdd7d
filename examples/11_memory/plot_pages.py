"""
How much of a cache has to be read?
===================================

Softmax needs every key. Entmax needs those above its threshold, and a cache in pages can prove that it has read them.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import Tsallis, attention, viz
from omegamax.nn import PagedCache

# %%
# Keys of 64 features in 4 heads. **Alike**: 256 neighbours share a direction, and differ from it little, as do the keys
# of a text that stays with its subject. **Related**: they differ from it more. **Unrelated**: they share nothing. Each
# query resembles one of the keys.

torch.manual_seed(0)
features, heads, run = 64, 4, 256
lengths = [2**k for k in range(8, 16)]
alphas = {1.25: "entmax", 1.5: "entmax15", 2.0: "sparsemax"}


def make_keys(count, noise):
    common = torch.randn(heads, count // run, features).repeat_interleave(run, 1)
    return (1 - noise**2) ** 0.5 * common + noise * torch.randn(heads, count, features)


kinds = {"alike": 0.3, "related": 0.6, "unrelated": 1.0}
shares = {}
for kind, noise in kinds.items():
    for count in lengths:
        k, v = make_keys(count, noise), torch.randn(heads, count, features)
        cache = PagedCache(page=16)
        cache.append(k, v)
        asked = torch.randint(count, (heads, 4))
        q = 2 * k.gather(1, asked[..., None].expand(-1, -1, features)) + 2 * torch.randn(heads, 4, features)
        for alpha in alphas:
            out, certificate = attention(q, transform=Tsallis(alpha), cache=cache)
            assert certificate.holds.all()
            shares.setdefault((kind, alpha), []).append(certificate.share.mean().item())
            if count == lengths[-1]:
                full = attention(q.double(), k.double(), v.double(), Tsallis(alpha))
                print(f"{kind}, alpha {alpha}: {shares[kind, alpha][-1]:.3f} of {count // 16} pages,", end=" ")
                print(f"off by {(out - full).abs().max():.0e}")

# %%
# The bound of a page comes from a copy of its keys in bytes, and is near to its scores whether neighbours are alike or
# not. So little more is read than what has weight: the longer the text, the smaller that share is, and the larger alpha
# is. Where it would be more than a quarter of the pages, all are read. The result is that of full attention always.

with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.2, 2.9), share=True)
    for ax, kind in zip(axes, kinds, strict=True):
        for alpha, name in alphas.items():
            ax.plot(lengths, shares[kind, alpha], color=viz.colour(name), linewidth=1.7, label=f"alpha = {alpha:g}")
        ax.set(title=f"neighbours {kind}", xscale="log", xlabel="keys", ylim=(0, 1.03))
    axes[0].set_ylabel("share of pages read")
    axes[1].legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
plt.show()
