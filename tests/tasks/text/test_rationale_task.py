"""Rationales as a task and as a command: trained, measured against marked words, written, read and shown."""

import json

import lightning as L
import pytest
import torch

from omegamax.cli.main import main
from omegamax.data.text import collate_texts
from omegamax.metrics import token_f1
from omegamax.models.text import RationaleClassifier, RationaleConfig, TextConfig
from omegamax.models.text.rationale_config import SELECTORS
from omegamax.tasks.rate import Rate
from omegamax.tasks.text import ReviewsData, TextTask
from omegamax.tasks.text.explain import explain

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec.*deprecated")
SIZES = {"word_dim": 16, "hidden_dim": 8, "score_dim": 8}
REVIEW = "we saw it on a friday with my uncle . i thought the film was simply awful . it runs for two minutes ."


def trainer(tmp_path, **settings):
    quiet = {"enable_progress_bar": False, "enable_checkpointing": False, "enable_model_summary": False}
    return L.Trainer(accelerator="cpu", default_root_dir=tmp_path, logger=False, **quiet, **settings)


def make(data, *settings, **changes):
    network = TextConfig.small(**SIZES, rationale=RationaleConfig(*settings, **changes))
    return TextTask(data.vocabulary, network, rate=Rate(1e-2, 0, "constant"))


def read_all(data):
    packed = data.split("test")
    return collate_texts([packed[index] for index in range(len(packed))])


@pytest.mark.slow
@pytest.mark.parametrize("selector", SELECTORS)
def test_marked_words_are_found_without_marks(tmp_path, selector):
    L.seed_everything(0, verbose=False)
    data = ReviewsData((1000, 100, 200), sentences=(1, 2), batch_size=32)
    task = make(data, selector, k=3)
    # Hard concrete comes down to its length in 500 steps, which are 16 epochs, and learns from it after that.
    epochs = {"k_subsets": 16, "hard_concrete": 32}.get(selector, 8)
    runner = trainer(tmp_path, max_epochs=epochs, limit_val_batches=0)
    runner.fit(task, datamodule=data)
    (found,) = runner.test(task, datamodule=data, verbose=False)
    # As many words of each text, drawn at random.
    batch = read_all(data)
    mask, marked = batch["words"] != 0, batch["marks"] >= 0.5
    with torch.no_grad():
        chosen = task.eval()(batch).rationale != 0
    noise = torch.rand(mask.shape, generator=torch.Generator().manual_seed(0)).masked_fill(~mask, -1)
    chance = noise.argsort(-1, descending=True).argsort(-1) < chosen.sum(-1, keepdim=True)
    assert found["test_accuracy"] > 0.7
    assert found["test_token_f1"] > 1.5 * float(token_f1(chance, marked, mask))


def test_measures_are_those_of_all_texts_at_once(tmp_path):
    data = ReviewsData((20, 10, 37), batch_size=5)
    task = make(data, share=0.2).double()
    (found,) = trainer(tmp_path, precision=64).test(task, datamodule=data, verbose=False)
    batch = read_all(data)
    with torch.no_grad():
        chosen = task.double().eval()(batch).rationale != 0
    mask = batch["words"] != 0
    assert found["test_token_f1"] == pytest.approx(float(token_f1(chosen, batch["marks"] >= 0.5, mask)), rel=1e-6)
    assert found["test_zero"] == pytest.approx(1 - float(chosen.sum() / mask.sum()), rel=1e-6)


def test_the_penalty_is_part_of_what_is_trained():
    data = ReviewsData((8, 4, 4), batch_size=4)
    batch = read_all(data)
    losses = []
    for penalty in (0.0, 3.0):
        torch.manual_seed(0)
        task = make(data, "hard_concrete", penalty=penalty, anneal=0, growth=0.0)
        task.log = lambda *given, **settings: None
        torch.manual_seed(1)
        losses.append(float(task.training_step(batch, 0).detach()))
        torch.manual_seed(1)
        added = float(task(batch).penalty.detach())
    assert added > 0 and losses[1] - losses[0] == pytest.approx(added, rel=1e-4)


def test_command_trains_and_explains(tmp_path, capsys):
    out = tmp_path / "rationale"
    settings = ["selector=sequential_k_subsets", "k=4", "temperature=0.2"]
    given = [f"--model.network.rationale.{each}" for each in settings]
    given += [f"--model.network.{key}={value}" for key, value in SIZES.items()]
    given += ["--data.samples=[48,16,12]", "--data.batch_size=8", f"--out={out}"]
    quiet = ["accelerator=cpu", "enable_progress_bar=false", "enable_model_summary=false", "max_epochs=1"]
    assert main(["text", "fit", *given, *(f"--trainer.{each}" for each in quiet)]) == 0
    assert "val_token_f1" in json.loads((out / "curve.json").read_text())[-1]
    task = TextTask.load(out / "model.safetensors")
    assert isinstance(task.model, RationaleClassifier) and task.label == "rationale by sequential k-subsets"
    assert task.config.rationale == RationaleConfig("sequential_k_subsets", k=4, temperature=0.2)
    assert main(["text", "test", f"--config={out / 'config.yaml'}"]) == 0
    capsys.readouterr()
    assert main(["text", "explain", REVIEW, "--checkpoint", str(out), "--out", str(tmp_path / "words.png")]) == 0
    shown = capsys.readouterr().out
    said = explain(task, REVIEW)
    assert int((~said.empty).sum()) == 4 < len(said.words) and said.kind == "sequential_k_subsets"
    for word, empty in zip(said.words, said.empty.tolist(), strict=True):
        assert empty or f" {word}[" in f" {shown}".replace("\n", " ")
    assert shown.count("[") == int((~said.empty).sum()) and (tmp_path / "words.png").stat().st_size > 0
