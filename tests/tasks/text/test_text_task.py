"""The task learns which words tell, measures it rightly, and its files say what it is."""

import lightning as L
import pytest
import torch

from omegamax.data import DataError, Vocabulary
from omegamax.data.text import collate_texts
from omegamax.models.text import TextConfig, WordsConfig
from omegamax.tasks.rate import Rate
from omegamax.tasks.text import ReviewsData, TextTask
from omegamax.tasks.text.explain import draw, explain, find_unknown_words
from omegamax.tasks.weights_file import write_weights

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec.*deprecated")
VOCABULARY = Vocabulary(["the", "film", "was", "good", "bad", "not"], ["negative", "positive"])


def make(kind=None, **settings):
    torch.manual_seed(0)
    sizes = {"word_dim": 16, "hidden_dim": 8, "score_dim": 8}
    network = TextConfig.small(attention=kind or WordsConfig("sparsemax"), **sizes)
    return TextTask(settings.pop("vocabulary", VOCABULARY), network, **settings)


def trainer(tmp_path, **settings):
    quiet = {"enable_progress_bar": False, "enable_checkpointing": False, "enable_model_summary": False}
    return L.Trainer(accelerator="cpu", default_root_dir=tmp_path, logger=False, **quiet, **settings)


@pytest.mark.parametrize("kind", ["sparsemax", "continuous_softmax"])
def test_reviews_are_learnt(tmp_path, kind):
    L.seed_everything(0, verbose=False)
    data = ReviewsData((600, 100, 200), sentences=(1, 2), batch_size=32)
    kind = WordsConfig(kind, functions=16, combined=kind != "sparsemax")
    task = make(kind, vocabulary=data.vocabulary, rate=Rate(1e-2, 0, "constant"))
    runner = trainer(tmp_path, max_epochs=10)
    runner.fit(task, datamodule=data)
    (found,) = runner.test(task, datamodule=data, verbose=False)
    assert found["test_accuracy"] > 0.9
    sparse = found["test_zero"] > 0.3 and found["test_inside"] > 0.3
    assert found["test_zero"] == 0 if kind.combined else sparse


def test_measures_are_those_of_all_texts_at_once(tmp_path):
    data = ReviewsData((20, 10, 37), batch_size=5)
    task = make(vocabulary=data.vocabulary).double()
    (found,) = trainer(tmp_path, precision=64).test(task, datamodule=data, verbose=False)
    test = data.split("test")
    batch = collate_texts([test[i] for i in range(37)])
    with torch.no_grad():
        answer = task.double().eval()(batch)
    right = answer.logits.argmax(-1) == batch["label"]
    assert found["test_accuracy"] == pytest.approx(float(right.double().mean()))
    loss = torch.nn.functional.cross_entropy(answer.logits, batch["label"])
    assert found["test_loss"] == pytest.approx(float(loss), rel=1e-6)
    there, weights = batch["words"] != 0, answer.attention.weights
    assert found["test_zero"] == pytest.approx(float((weights[there] == 0).double().mean()), rel=1e-6)
    assert found["test_inside"] == pytest.approx(float((weights * batch["marks"]).sum(-1).mean()), rel=1e-6)


def test_texts_without_a_class_are_not_measured_on(tmp_path):
    task = make()
    batch = {"words": torch.tensor([[2, 3]]), "label": torch.tensor([-100]), "id": ["a"]}
    assert task.eval().predict_step(batch, 0)[0]["id"] == "a"
    with pytest.raises(DataError, match="without a class"):
        task.training_step(batch, 0)


@pytest.mark.parametrize(
    "kind",
    [
        WordsConfig("continuous_entmax", alpha=1.3, learnable=True),
        WordsConfig("continuous_sparsemax", source="cnn", filters=4),
        WordsConfig("fusedmax", learnable=True),
        WordsConfig("multimodal", max_components=2),
    ],
    ids=lambda kind: kind.kind,
)
def test_file_gives_the_same_network(tmp_path, kind):
    task = make(kind, loss="entmax", loss_options={"alpha": 1.2})
    task.data_settings = ReviewsData((4, 2, 2)).settings
    write_weights(tmp_path / "a.safetensors", "text", task.describe(), task.model.state_dict())
    again = TextTask.load(tmp_path / "a.safetensors")
    assert again.network == task.network and again.data_settings["class"] == "ReviewsData" and not again.training
    words = {"words": torch.tensor([[2, 3, 4, 5]])}
    assert torch.equal(again(words).logits, task.eval()(words).logits)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vocabulary": {"words": ["a", "a"], "answers": ["0", "1"]}}, "must be distinct"),
        ({"vocabulary": None}, "cannot be read"),
        ({"loss": "median"}, "describes a network that cannot be"),
        ({"network": {"colour": 1}}, "cannot be read"),
        ({"network": {"attention": {"kind": "multimodal", "max_components": 10**9}}}, "max_components must be at most"),
        ({"network": {"attention": {"functions": 10**9}}}, "functions must be at most"),
        ({"network": {"layers": 10**9, "encoder": "transformer"}}, "layers must be at most"),
        ({"network": {"hidden_dim": 10**9, "word_dim": 16}}, "describes a network that cannot be"),
        ({"network": {"hidden_dim": 9, "word_dim": 16}}, r"must be \(9, 16\)|must be \(36, 16\)"),
    ],
)
def test_files_that_ask_for_too_much_or_make_no_sense_are_refused(tmp_path, change, said):
    task = make()
    record = task.describe()
    record["network"] |= change
    write_weights(tmp_path / "a.safetensors", "text", record, task.model.state_dict())
    with pytest.raises(DataError, match=said):
        TextTask.load(tmp_path / "a.safetensors")


@pytest.mark.parametrize("kind", ["softmax", "sparsemax", "continuous_sparsemax", "multimodal"])
def test_a_text_is_explained(kind):
    task = make(WordsConfig(kind, functions=8, max_components=2)).eval()
    said = explain(task, "The film was NOT good, was it?")
    assert said.words == ("The", "film", "was", "NOT", "good", ",", "was", "it", "?")
    assert [name for name, _ in said.classes] in (["negative", "positive"], ["positive", "negative"])
    assert sum(p for _, p in said.classes) == pytest.approx(1) and float(said.weights.sum()) == pytest.approx(1)
    assert (said.density is None) == (kind in ("softmax", "sparsemax"))
    assert not said.weights[said.empty].any()
    assert find_unknown_words(task, "The film, was it?") == [",", "it", "?"]
    task.data_settings = {"length": 4}
    assert len(explain(task, "The film was NOT good").words) == 4
    assert explain(task, "").words == ("<empty>",)


def test_picture_has_every_word_once_for_each_network():
    said = {kind: explain(make(WordsConfig(kind)).eval(), "the film " * 30) for kind in ("sparsemax", "softmax")}
    figure = draw(said)
    assert len(figure.axes) == 2
    assert all([text.get_text() for text in ax.texts] == list(said["softmax"].words) for ax in figure.axes)


def test_words_start_from_vectors_of_others(tmp_path):
    lines = ["good " + " ".join(["1.0"] * 16), "bad " + " ".join(["-1.0"] * 16)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    task = make(word_vectors=str(tmp_path / "vectors.txt"), freeze_words=True)
    weight = task.model.embedding.weight
    assert weight[5].tolist() == [1.0] * 16 and weight[6].tolist() == [-1.0] * 16 and not weight.requires_grad
    assert not weight[0].any() and task.model.classify.weight.requires_grad
    (tmp_path / "short.txt").write_text("good 1.0 2.0")
    with pytest.raises(DataError, match="vectors of size 2, wanted 16"):
        make(word_vectors=str(tmp_path / "short.txt"))
