"""
How many words are possible?
============================

Three language models learn the same reviews and differ in the map at the output alone. Softmax gives every word some
probability at every step, however little. Sparse maps give none to most: where the text leaves one way to go on, one
word is left; where it is open, as many as there are opinions of a film. Training knew of these zeros, so nothing is cut
when such a model writes. Now and then a true word is among those that were ruled out.
"""

import logging
import warnings

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.models.language import LanguageConfig, TokenOutputConfig
from omegamax.tasks.language import EmbeddedReviewsData, LanguageTask

warnings.filterwarnings("ignore")
logging.getLogger("lightning").setLevel(logging.ERROR)
STEPS = 150
torch.set_num_threads(1)  # small networks do not gain by more

# %%
# Reviews are made on the spot; each word is a token.

data = EmbeddedReviewsData((3000, 10, 100), length=64, batch_size=16)
batches = [batch["tokens"] for batch in data.train_dataloader()]
print(next(iter(data.read("test")))[:70], "...")

# %%
# Three networks, trained for as long: half a minute of one processor in all.


def train(output):
    """Return a network with a map at its output, trained."""
    torch.manual_seed(0)
    network = LanguageConfig.tiny(sink=True, output=TokenOutputConfig(output, label_smoothing=0.0))
    task = LanguageTask(data.vocabulary, network)
    optimiser = torch.optim.Adam(task.parameters(), 4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, STEPS)
    for step in range(STEPS):
        loss = task.model.loss(batches[step % len(batches)])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(task.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return task.eval()


tasks = {name: train(name) for name in ("softmax", "entmax15", "sparsemax")}

# %%
# One sentence word by word: how many words could have stood in the place of each, and how often the true one had a
# chance in the reviews of the test.

sentence = "i thought the plot was really good . we saw it on a friday with my brother ."
tokens = torch.tensor([[2, *data.vocabulary.encode(sentence)]])
with viz.style():
    figure, (ax, shares) = plt.subplots(1, 2, figsize=(11, 3.6), width_ratios=(3.2, 1), layout="constrained")
    words = sentence.split()
    for name, task in tasks.items():
        with torch.no_grad():
            p = task.model.omega.argmax(task.model(tokens[:, :-1]))[0]
        ax.step(range(len(words)), (p > 0).sum(-1), where="mid", color=viz.colour(name), label=name)
    ax.set_yscale("log")
    ax.set_xticks(range(len(words)), words, rotation=60, ha="right")
    ax.set(ylabel="possible words", title="words with any probability, given those before")
    ax.set_ylim(bottom=0.35)
    ax.legend(loc="lower left", ncols=3)
    missed = {}
    for name, task in tasks.items():
        lost = seen = 0
        for batch in data.test_dataloader():
            with torch.no_grad():
                p = task.model.omega.argmax(task.model(batch["tokens"][:, :-1]))
            target = batch["tokens"][:, 1:]
            true = p.gather(-1, target.unsqueeze(-1)).squeeze(-1)[target != 0]
            lost, seen = lost + int((true == 0).sum()), seen + true.numel()
        missed[name] = 100 * lost / seen
    shares.bar(list(missed), list(missed.values()), color=[viz.colour(name) for name in missed])
    shares.set(ylabel="percent", title="true words ruled out")
print({name: round(value, 2) for name, value in missed.items()})
plt.show()

# %%
# Of the same scores sparsemax always keeps fewer words than 1.5-entmax. Yet here the network that was trained with it
# may hold more of them for possible: the number tells how sure a network is of its scores, too, and after so few steps
# the two have not come equally far. With three times the steps the order is that of the maps.

batch = next(iter(data.test_dataloader()))["tokens"]
target = batch[:, 1:]
for name in ("entmax15", "sparsemax"):
    with torch.no_grad():
        z = tasks[name].model(batch[:, :-1])[target != 0]
    kept = {each: (getattr(omegamax, each)(z) > 0).sum(-1).float().mean().item() for each in ("entmax15", "sparsemax")}
    p = tasks[name].model.omega.argmax(z).gather(-1, target[target != 0].unsqueeze(-1))
    words = ", ".join(f"{count:.1f} by {each}" for each, count in kept.items())
    print(f"scores of the network with {name}: possible words {words}; the true word has {p.mean():.2f}")
