"""
A caption, a word at a time
===========================

Small networks write captions of pictures with coloured shapes. Before each word they look at the picture: with softmax,
at all of it; with tvmax, at patches and at nothing else. The strip has a map for each word.
"""

import logging
import tempfile
import warnings
from pathlib import Path

import lightning as L
import matplotlib.pyplot as plt
import torch

from omegamax.data.captions import SceneCaptions
from omegamax.models.captioning import CaptionConfig
from omegamax.models.mcan import OutputConfig
from omegamax.tasks.captioning import CaptionTask
from omegamax.tasks.captioning.demo import CaptionRecipe, train_features
from omegamax.tasks.captioning.explain import draw, explain
from omegamax.tasks.rate import Rate
from omegamax.tasks.steps import make_trainer

warnings.filterwarnings("ignore")
logging.getLogger("lightning").setLevel(logging.ERROR)
torch.set_num_threads(1)  # small networks do not gain by more

# %%
# Pictures from a generator, each with five captions, and features of their cells: a network that was taught to name
# what is in a cell.

recipe = CaptionRecipe(samples=(1200, 50, 50), pictures=1200, feature_steps=150)
data = recipe.data(seed=0)
cnn = Path(tempfile.mkdtemp(), "cnn.safetensors")
data.featurise(train_features(recipe, cnn, 0, lambda name, step: None))

# %%
# Two networks that differ in how scores of cells become attention.


def train(attention):
    """Return a network with a kind of attention, trained."""
    L.seed_everything(0, verbose=False)
    config = CaptionConfig.small(attention=attention, grid=recipe.grid)
    rate = Rate(4e-3, warmup=20, fall="cosine", interval="step")
    task = CaptionTask(data.vocabulary, config, rate=rate, cnn=str(cnn), freeze_cnn=True)
    make_trainer(180, []).fit(task, datamodule=data)
    return task.eval()


networks = {"softmax": train(OutputConfig("softmax")), "tvmax": train(OutputConfig("tvmax", strength=0.1))}

# %%
# What they write of a picture that they have not seen. White cells have exactly no attention. After so short a training
# number and colour are mostly right and shapes often wrong; the maps tell what a word was said of.

shapes, colours = recipe.shapes, recipe.colours
image = SceneCaptions(5, 0, "test", image_size=256, shapes=shapes, colours=colours)[0].image
said = {name: explain(task, image) for name, task in networks.items()}
for name, each in said.items():
    print(name, " ".join(each.tokens))
draw(image, said)
plt.show()
