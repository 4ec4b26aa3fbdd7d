"""
Which words, and which stretch of a text?
=========================================

Networks that tell whether a review is good or bad, and differ in their attention alone: weights of words, which are
never 0 with softmax and mostly 0 with sparsemax, or a density over the text, drawn above its words.
"""

import logging
import warnings

import lightning as L
import matplotlib.pyplot as plt
import torch

from omegamax.models.text import TextConfig, WordsConfig
from omegamax.tasks.rate import Rate
from omegamax.tasks.steps import make_trainer
from omegamax.tasks.text import TextTask
from omegamax.tasks.text.explain import draw, explain
from omegamax.tasks.text.sets import ReviewsData

warnings.filterwarnings("ignore")
logging.getLogger("lightning").setLevel(logging.ERROR)
torch.set_num_threads(1)  # small networks do not gain by more

# %%
# Short reviews from a grammar. Opinions that count stand beside others that do not: of the popcorn, or of an uncle.

data = ReviewsData((1200, 100, 100), sentences=(2, 3), batch_size=32)
kinds = {
    "softmax": WordsConfig("softmax"),
    "sparsemax": WordsConfig("sparsemax"),
    "continuous sparsemax": WordsConfig("continuous_sparsemax", functions=32),
}

# %%
# Three networks with the same number of parameters, each trained for a few seconds.


def train(attention):
    """Return a network with a kind of attention, trained."""
    L.seed_everything(0, verbose=False)
    task = TextTask(data.vocabulary, TextConfig.small(attention=attention), rate=Rate(3e-3, 0, "constant"))
    make_trainer(300, []).fit(task, datamodule=data)
    return task.eval()


networks = {name: train(attention) for name, attention in kinds.items()}

# %%
# A review that none of them has seen. Words in grey have exactly no attention.

review = "we saw it on a friday . the plot was not dull . the popcorn was awful ."
said = {name: explain(task, review) for name, task in networks.items()}
for name, answer in said.items():
    print(name, answer.classes)
draw(said)
plt.show()
