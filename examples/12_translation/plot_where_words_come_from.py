"""
Where do the words of a translation come from?
==============================================

A recurrent network translates a sentence of a small piece of German, whose words have to move: the participle stands
last, the place before the object. Its attention is discrete, or has a density beside it with the same mean and
variance, a Gaussian or a truncated parabola; the density is fitted to the weights and adds no parameter.
"""

import logging
import warnings

import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.data.translation import PackedPairs, PairVocabulary, TinyPairs, collate_pairs
from omegamax.models.translation import TokenOutputConfig, TranslatorConfig
from omegamax.tasks.token_batches import TokenOrder
from omegamax.tasks.translation import TranslationTask, translate
from omegamax.tasks.translation.explain import explain

warnings.filterwarnings("ignore")
logging.getLogger("lightning").setLevel(logging.ERROR)
STEPS = 200
torch.set_num_threads(1)  # small networks do not gain by more

# %%
# The sentences are made on the spot; each word is a token.

pairs = TinyPairs(4000)
vocabulary = PairVocabulary.learn(pairs, kind="words", joint=False)
data = PackedPairs(pairs, vocabulary)
print(pairs[2].source, "|", pairs[2].target)

# %%
# Three networks, trained for as long: a minute of one processor in all.


def train(density):
    """Return a network with a kind of density beside its weights, trained."""
    torch.manual_seed(0)
    output = TokenOutputConfig("entmax15", label_smoothing=0.0)
    sizes = {"architecture": "recurrent", "layers": 1, "attention": "softmax", "density": density, "output": output}
    task = TranslationTask(vocabulary, TranslatorConfig.tiny(**sizes))
    optimiser, order = torch.optim.Adam(task.parameters(), 4e-3), TokenOrder(data.lengths, 1200, seed=0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, STEPS)
    done = 0
    while done < STEPS:
        order.set_epoch(done)
        for batch in list(order)[: STEPS - done]:
            loss = task.model.loss(collate_pairs([data[index] for index in batch]))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(task.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            done += 1
    return task.eval()


kinds = {"discrete": None, "continuous softmax": "continuous_softmax", "continuous sparsemax": "continuous_sparsemax"}
networks = {name: train(density) for name, density in kinds.items()}
test = list(TinyPairs(100, "test"))
for name, task in networks.items():
    found = translate(task, [pair.source for pair in test])
    print(f"{name}: {sum(a.text == b.target for a, b in zip(found, test, strict=True))} of {len(test)} sentences right")

# %%
# The weights of the first, and the densities of the others, for one sentence and its translation. White is exactly 0:
# the parabola leaves out all words but a stretch, the Gaussian none.

sentence = "heute hat der alte mann im garten den roten ball gefunden ."
translation = "today the old man has found the red ball in the garden ."
with viz.style():
    figure, axes = plt.subplots(1, 3, figsize=(15, 5.2), layout="constrained")
    for ax, (name, task) in zip(axes, networks.items(), strict=True):
        said = explain(task, sentence, translation)
        if said.densities is None:
            viz.alignment(said.weights, said.target, said.source, numbers=False, title=name, ax=ax, key=False)
            ax.set_aspect("auto")
        else:
            viz.density_rows(said.densities, said.target, said.source, title=name, ax=ax, key=ax is axes[-1])
    plt.show()
