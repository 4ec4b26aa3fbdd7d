"""
What can a model say?
=====================

A softmax gives every sequence of letters some probability, so nobody can list what a model might produce, and no search
can be sure of its best. With a sparse map both become possible.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.generation import beam_search, best_epsilon, epsilon_perplexity, sample, sparsemax_score

# %%
# The names of some chemical elements, and a model of their letters: the score of the next one is a sum of what the last
# four letters have to say about it. One model for each map, trained with the loss that belongs to it.

names = """hydrogen helium lithium beryllium boron carbon nitrogen oxygen fluorine neon sodium magnesium aluminium
silicon phosphorus sulfur chlorine argon potassium calcium scandium titanium vanadium chromium manganese
iron cobalt nickel copper zinc gallium germanium arsenic selenium bromine krypton rubidium strontium yttrium
zirconium niobium""".split()
letters = "." + "".join(sorted(set("".join(names))))  # the dot begins and ends a name
END, REACH = 0, 4


def encode(text):
    return [letters.index(c) for c in text]


pairs = [
    (encode("." * REACH + name)[i : i + REACH], encode(name + ".")[i]) for name in names for i in range(len(name) + 1)
]
context, following = (torch.tensor(column) for column in zip(*pairs, strict=True))
maps = {"softmax": omegamax.Shannon(), "entmax 1.5": omegamax.Tsallis(1.5), "sparsemax": omegamax.Tsallis(2.0)}
colours = {"softmax": "softmax", "entmax 1.5": "entmax15", "sparsemax": "sparsemax"}


def trained(omega):
    table = torch.zeros(REACH, len(letters), len(letters), dtype=torch.float64, requires_grad=True)
    targets = torch.nn.functional.one_hot(following, len(letters)).double()
    optimizer = torch.optim.Adam([table], lr=0.4)
    for step in range(150):
        optimizer.param_groups[0]["lr"] = 0.4 * (1 - step / 150)
        z = table[torch.arange(REACH), context].sum(1)
        loss = omegamax.fenchel_young_loss(z, targets, omega)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return table.detach()


def model(table):
    return lambda tokens: table[torch.arange(REACH), tokens[:, -REACH:]].sum(1)


steps = {name: model(trained(omega)) for name, omega in maps.items()}
for name, omega in maps.items():
    p = omega.argmax(steps[name](context))
    smooth = epsilon_perplexity(p, following, epsilon=best_epsilon(p, following))
    sizes = (p > 0).sum(-1).double().mean()
    print(f"{name}: {sizes:.1f} letters to choose from, perplexity {smooth:.2f}, "
          f"sparsemax score {sparsemax_score(p, following):.3f}")  # fmt: skip

# %%
# A wide beam follows everything that has any probability. If it dropped nothing, its result is complete: all names that
# the model can produce, up to a length of 12, with all of the probability.

start, limits = torch.zeros(1, REACH, dtype=torch.long), {"eos": END, "max_length": 12}
said = {name: beam_search(steps[name], start, beam=1000, omega=maps[name], **limits) for name in maps}
for name, found in said.items():
    count = len(found.lists()[0])
    claim = f"{count} names, and no more" if found.complete else f"{count} names have {float(found.mass):.3f} of it"
    best = ["".join(letters[t] for t in tokens).rstrip(".") for tokens in found.lists()[0]]
    new = [word for word in best if word not in names]
    print(f"{name}: {claim}. New ones: {', '.join(new[:5])}")

# %%
# How wide must a beam be? What it left aside has a bound. Once the best name is above that, the search has proven it;
# once the bound is zero, nothing is outside.

widths = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
beams = {name: [beam_search(steps[name], start, beam=k, omega=maps[name], **limits) for k in widths] for name in maps}
for name, row in beams.items():
    proven = next((k for k, found in zip(widths, row, strict=True) if found.exact), None)
    print(f"{name}: the best name is proven with a beam of {proven}")

# %%
# Samples stay within the set.

generator = torch.Generator().manual_seed(1)
drawn = sample(steps["sparsemax"], start, samples=200, omega="sparsemax", generator=generator, **limits)
known = {tuple(x) for x in said["sparsemax"].lists()[0]}
print("samples among all there is:", sum(tuple(x) in known for x in drawn.lists()[0]), "of 200")

# %%
# On the left, what softmax cannot do without. In the middle and on the right, squares are sets known to be complete.

with viz.style():
    figure, (letter, mass, bound) = viz.panels(3, 3, size=(4.2, 3.0))
    here = torch.tensor([encode("...c")])
    for shift, name in enumerate(maps):
        p = maps[name].argmax(steps[name](here))[0]
        at = torch.arange(len(letters)) + 0.3 * (shift - 1)
        letter.bar(at.tolist(), p.tolist(), 0.3, color=viz.colour(colours[name]), label=name)
    letter.set_xticks(range(len(letters)), letters)
    letter.set(title="the letter after a first c, and its probability")
    for name, found in said.items():
        rest = (1 - found.log_probs[0].exp().cumsum(0)).clamp(min=1e-12)
        ranks = torch.arange(1, len(rest) + 1)
        mass.plot(ranks, rest, color=viz.colour(colours[name]), label=name)
        if found.complete:
            mass.plot(ranks[-1], rest[-1], "s", color=viz.colour(colours[name]), ms=5)
    mass.set(title="probability of all but the likeliest names", xlabel="likeliest names")
    mass.legend(loc="lower left")
    for name, row in beams.items():
        left = [max(float(found.bound.exp()), 1e-12) for found in row]
        bound.plot(widths, left, color=viz.colour(colours[name]))
        for k, found, height in zip(widths, row, left, strict=True):
            face = viz.colour(colours[name]) if found.exact else "white"
            bound.plot(k, height, "s" if found.complete else "o", color=viz.colour(colours[name]), mfc=face, ms=5)
    bound.set(title="most that a dropped name may have", xlabel="beam (filled: the best is proven)")
    for ax in (letter, mass, bound):
        ax.set(yscale="log", ylim=(2e-13, 3))
        ax.set_yticks([1e-12, 1e-9, 1e-6, 1e-3, 1], ["0", "1e-9", "1e-6", "0.001", "1"])
        ax.minorticks_off()
    for ax in (mass, bound):
        ax.set_xscale("log")
plt.show()
