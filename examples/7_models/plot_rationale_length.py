"""
How few words are enough?
=========================

A generator chooses k words of a review by k-subsets, and a reader that sees no others tells its class. With how many
words is the reader right, and are they the words that matter?
"""

import logging
import warnings

import lightning as L
import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.metrics import token_f1
from omegamax.models.text import RationaleConfig, TextConfig
from omegamax.tasks.rate import Rate
from omegamax.tasks.steps import make_trainer
from omegamax.tasks.text import TextTask
from omegamax.tasks.text.sets import ReviewsData

warnings.filterwarnings("ignore")
logging.getLogger("lightning").setLevel(logging.ERROR)
torch.set_num_threads(1)  # small networks do not gain by more

# %%
# Reviews of one or two sentences from a grammar that marks the words its class hangs on, two in the mean: an opinion of
# the film, and what denies it.

data = ReviewsData((800, 100, 400), sentences=(1, 2), batch_size=32)
data.prepare_data()
data.setup("fit")
data.setup("test")


def train(rationale):
    """Return a network that reads the words its generator chooses, trained; without a rationale it reads all."""
    L.seed_everything(0, verbose=False)
    task = TextTask(data.vocabulary, TextConfig.small(rationale=rationale), rate=Rate(3e-3, 0, "constant"))
    make_trainer(450, []).fit(task, datamodule=data)
    return task.eval()


@torch.no_grad()
def measure(task):
    """Return the share of reviews that are told right, and the F1 of the chosen words against the marked ones."""
    right, agreement, count = 0, 0.0, 0
    for batch in data.test_dataloader():
        answer, size = task(batch), len(batch["label"])
        right += int((answer.logits.argmax(-1) == batch["label"]).sum())
        if answer.rationale is not None:
            mask = batch["words"] != 0
            agreement += size * float(token_f1(answer.rationale > 0, batch["marks"] > 0, mask))
        count += size
    return right / count, agreement / count


# %%
# One network for each number of words, and one that reads everything.

lengths = (1, 2, 4, 8)
whole, _ = measure(train(None))
found = [measure(train(RationaleConfig("k_subsets", k=k))) for k in lengths]
for k, (accuracy, f1) in zip(lengths, found, strict=True):
    print(f"k = {k}: {accuracy:.3f} right, F1 {f1:.2f}; the whole review {whole:.3f}")

# %%
# Right answers against the length of the rationale, and its agreement with the marks.

with viz.style():
    figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for number, name in enumerate(("right answers", "F1 against the words that matter")):
        values = [each[number] for each in found]
        ax.plot(lengths, values, marker="o", color=viz.colour(("k_subsets", "softmax")[number]), label=name)
    ax.axhline(whole, color="0.5", linestyle="--", label="right answers with the whole review")
    ax.set(xlabel="words read", xscale="log", xticks=lengths, xticklabels=lengths, ylim=(0, 1.02))
    ax.minorticks_off()
    ax.legend(loc="lower right")
    plt.show()
