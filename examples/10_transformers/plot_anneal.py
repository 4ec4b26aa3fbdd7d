"""
Can a softmax model become sparse?
==================================

A model that was trained with softmax need not be trained again. Entmax with alpha = 1 is softmax; from there alpha can
be raised little by little during fine-tuning, and the weights follow.
"""

import copy
import gzip
import os
import random
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from transformers import GPT2Config, GPT2LMHeadModel, logging

from omegamax import viz
from omegamax.integrations.transformers import register

# %%
# With the variable ``OMEGAMAX_DATA`` set to a folder that has ``multi30k`` in it, the text is captions of photographs.
# Otherwise a few rules write sentences of that kind.


def captions(folder, part):
    with gzip.open(folder / f"{part}.en.gz", "rt", encoding="utf-8") as file:
        return [line.lower().replace(".", " .").replace(",", " ,").split() for line in file]


def made_up(count, seed):
    draw = random.Random(seed).choice
    people, colours = ("man", "woman", "child", "dog"), ("red", "blue", "green", "white")
    things, places = ("ball", "bike", "hat", "book"), ("park", "street", "field", "house")

    def sentence():
        who, colour = draw(people), draw(colours)
        text = f"a {who} with a {colour} {draw(things)} is in the {draw(places)} , and the {who} likes {colour} ."
        return text.split()

    return [sentence() for _ in range(count)]


folder = Path(os.environ.get("OMEGAMAX_DATA", "")) / "multi30k"
real = "OMEGAMAX_DATA" in os.environ and folder.is_dir()
print("captions of photographs" if real else "no multi30k in OMEGAMAX_DATA: made-up sentences")
train, held_out = (captions(folder, p) for p in ("train", "val")) if real else (made_up(4000, 0), made_up(400, 1))

LENGTH, BATCH = 32, 16
words = [word for word, _ in Counter(w for line in train for w in line).most_common(1200)]
number = {word: i for i, word in enumerate(["?", *words])}


def blocks(lines):
    """All words in a row, cut into texts of equal length."""
    tokens = torch.tensor([number.get(w, 0) for line in lines for w in line])
    return tokens[: len(tokens) // LENGTH * LENGTH].view(-1, LENGTH)


train, held_out = blocks(train), blocks(held_out)[:64]

# %%
# A small GPT-2 of two layers with four heads each, trained with softmax as usual.

register()
logging.set_verbosity_error()
torch.manual_seed(0)
config = GPT2Config(
    vocab_size=len(number), n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)  # fmt: skip
dense = GPT2LMHeadModel(config)
seen = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()


@torch.no_grad()
def measured(model):
    """Loss on the held-out text, and the share of zeros among the words that may be seen."""
    model.eval()
    out = model(held_out, labels=held_out, output_attentions=True)
    model.train()
    return out.loss.item(), torch.stack(out.attentions)[..., seen].eq(0).double().mean().item()


def fit(model, steps, alpha, rate, every=10):
    """Train with ``alpha(step)``; rows of step, alpha, loss, zeros."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    rows = []
    for step in range(steps + 1):
        # One name for each alpha with two decimals: annealing is a change of name.
        model.set_attn_implementation(f"omegamax:entmax:{alpha(step):.2f}")
        if step % every == 0:
            rows.append((step, alpha(step), *measured(model)))
        batch = train[torch.randint(len(train), (BATCH,), generator=generator)]
        loss = model(batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.tensor(rows)


before = fit(dense, 300, lambda step: 1.0, rate=3e-3, every=100)
print(f"softmax model: held-out loss {before[-1, 2]:.3f}")

# %%
# Three ways on from there, with the same batches: stay with softmax, raise alpha to 1.5 over the first 60 steps, or
# switch to 1.5 at once.

STEPS, RAMP = 100, 60
ways = {
    "softmax": lambda step: 1.0,
    "annealed": lambda step: 1 + 0.5 * min(step / RAMP, 1),
    "at once": lambda step: 1.5,
}
courses = {name: fit(copy.deepcopy(dense), STEPS, alpha, rate=1e-3) for name, alpha in ways.items()}
for name, rows in courses.items():
    print(f"{name}: held-out loss {rows[-1, 2]:.3f}, at worst {rows[:, 2].max():.3f}, zeros {rows[-1, 3]:.0%}")

# %%
# The annealed model keeps to the loss of its softmax twin all the way, and ends with most of its weights at zero. The
# sudden switch costs something at first, and then comes near.

colours = {"softmax": viz.colour("softmax"), "annealed": viz.colour("entmax15"), "at once": viz.colour("sparsemax")}
with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.6, 2.8))
    titles = ("alpha", "loss on held-out text", "zeros among the words it may see")
    for column, (ax, title) in enumerate(zip(axes, titles, strict=True), start=1):
        for name, rows in courses.items():
            wide = {"lw": 4, "alpha": 0.5} if name == "softmax" else {}  # it lies below the others
            ax.plot(rows[:, 0], rows[:, column], color=colours[name], label=name, **wide)
        ax.set(title=title, xlabel="step of fine-tuning")
    axes[0].legend(loc="center right")
    axes[2].set(ylim=(-0.02, 1))
plt.show()
