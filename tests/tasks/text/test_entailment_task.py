"""The task learns from pairs of sentences, measures alignments rightly, and shows them."""

import lightning as L
import numpy as np
import pytest
import torch
from tests.tasks.text.test_text_task import trainer

from omegamax.data import Vocabulary
from omegamax.data.text import collate_texts
from omegamax.models.text import TextConfig
from omegamax.tasks.rate import Rate
from omegamax.tasks.text import SentencePairsData, SICKData, TextTask
from omegamax.tasks.text.explain import explain
from omegamax.tasks.text.explain_pair import draw_pairs, explain_pair
from omegamax.tasks.weights_file import write_weights

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec.*deprecated")
VOCABULARY = Vocabulary(["the", "dog", "cat", "is", "running"], ["contradiction", "neutral", "entailment"])


def make(kind, vocabulary=VOCABULARY, **settings):
    torch.manual_seed(0)
    network = TextConfig.small(alignment=kind, word_dim=16, hidden_dim=16, score_dim=16)
    return TextTask(vocabulary, network, **settings)


@pytest.mark.parametrize("kind", ["softmax", "matching"])
def test_pairs_are_learnt(tmp_path, kind):
    L.seed_everything(0, verbose=False)
    data = SentencePairsData((480, 30, 200), batch_size=32)
    task = make(kind, data.vocabulary, rate=Rate(1e-2, 0, "constant"))
    runner = trainer(tmp_path, max_epochs=4)
    runner.fit(task, datamodule=data)
    (found,) = runner.test(task, datamodule=data, verbose=False)
    assert found["test_accuracy"] > 0.6  # by chance, a third
    assert found["test_zero"] == 0 if kind == "softmax" else found["test_zero"] > 0.5


def test_measures_are_those_of_all_pairs_at_once(tmp_path):
    data = SentencePairsData((20, 10, 37), batch_size=5)
    task = make("sparsemax", data.vocabulary).double()
    (found,) = trainer(tmp_path, precision=64).test(task, datamodule=data, verbose=False)
    batch = collate_texts([data.split("test")[i] for i in range(37)])
    with torch.no_grad():
        answer = task.double().eval()(batch)
    right = answer.logits.argmax(-1) == batch["label"]
    assert found["test_accuracy"] == pytest.approx(float(right.double().mean()))
    there = (batch["words"] != 0)[:, :, None] & (batch["second"] != 0)[:, None]
    zero = (answer.attention.onward == 0) & (answer.attention.back.mT == 0)
    assert found["test_zero"] == pytest.approx(float(zero[there].double().mean()), rel=1e-6)
    assert "test_inside" not in found


@pytest.mark.parametrize("kind", ["sequence", "matching"])
def test_file_gives_the_same_network(tmp_path, kind):
    task = make(kind)
    task.data_settings = SentencePairsData((4, 2, 2)).settings
    write_weights(tmp_path / "a.safetensors", "text", task.describe(), task.model.state_dict())
    again = TextTask.load(tmp_path / "a.safetensors")
    assert again.network == task.network and again.label == f"{kind} alignment"
    pair = {"words": torch.tensor([[2, 3, 5]]), "second": torch.tensor([[4, 6]])}
    assert torch.equal(again(pair).logits, task.eval()(pair).logits)


def test_a_pair_is_explained():
    task = make("sparsemax").eval()
    said = explain_pair(task, "The DOG is running.", "The cat")
    assert (said.words, said.second) == (("The", "DOG", "is", "running", "."), ("The", "cat"))
    assert said.onward.shape == (5, 2) and said.back.shape == (2, 5) and not said.mutual
    assert sum(p for _, p in said.classes) == pytest.approx(1) and len(said.classes) == 3
    task.data_settings = {"length": 3}
    assert len(explain_pair(task, "The dog is running", "").words) == 3
    assert explain_pair(task, "dog", "").second == ("<empty>",)
    with pytest.raises(ValueError, match="ask explain_pair"):
        explain(task, "the dog")
    with pytest.raises(ValueError, match="must have an alignment"):
        explain_pair(TextTask(VOCABULARY).eval(), "the dog", "the cat")


def test_picture_leaves_exact_zeros_blank():
    sentences = "the dog is running", "is the cat running"
    said = {kind: explain_pair(make(kind).eval(), *sentences) for kind in ("sparsemax", "matching")}
    assert said["matching"].mutual
    figure = draw_pairs(said)
    drawn = [ax for ax in figure.axes if ax.images]
    wanted = [said["sparsemax"].onward, said["sparsemax"].back.mT, said["matching"].onward]
    assert len(drawn) == 3
    for ax, weights in zip(drawn, wanted, strict=True):
        shown = np.ma.filled(ax.images[0].get_array(), np.nan)
        assert (np.isnan(shown) == (weights == 0).numpy()).all() and np.nanmax(shown) == float(weights.max())
        assert [text.get_text() for text in ax.get_yticklabels()] == sentences[0].split()
        assert [text.get_text() for text in ax.get_xticklabels()] == sentences[1].split()
    with pytest.raises(ValueError, match="at most 80 words, got 81"):
        draw_pairs({"a": explain_pair(make("softmax").eval(), "dog " * 81, "dog")})


def test_sick_is_read_as_pairs(tmp_path):
    head = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    for name in ("train", "trial", "test_annotated"):
        kinds = enumerate(("NEUTRAL", "ENTAILMENT"))
        rows = [f"{i}\tA dog runs\tA brown animal runs\t4.5\t{kind}\n" for i, kind in kinds]
        (tmp_path / f"SICK_{name}.txt").write_text(head + "".join(rows))
    data = SICKData(str(tmp_path), batch_size=2)
    assert data.vocabulary.answers == ("contradiction", "neutral", "entailment")
    (batch,) = data.test_dataloader()
    assert batch["words"].shape == (2, 3) and batch["second"].shape == (2, 4)
    assert sorted(batch["label"].tolist()) == [1, 2]
