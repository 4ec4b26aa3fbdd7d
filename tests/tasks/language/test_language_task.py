"""Language models as tasks: measures by hand, training, files, and what they write."""

from __future__ import annotations

import math

import pytest
import torch

from omegamax import entmax15
from omegamax.data import DataError
from omegamax.data.subwords import Subwords
from omegamax.generation import Truncation
from omegamax.metrics import best_epsilon, epsilon_perplexity, jensen_shannon_score, sparsemax_score
from omegamax.models.language import LanguageConfig, MemoryConfig, TokenOutputConfig
from omegamax.tasks.language import (
    EmbeddedReviewsData,
    LanguageScores,
    LanguageTask,
    TextFilesData,
    WriteConfig,
    write,
)
from omegamax.tasks.language.compare import choose_prompts, compare
from omegamax.tasks.language.report import LanguageComparison
from omegamax.tasks.rate import Rate
from omegamax.tasks.report.contenders import Contender
from omegamax.tasks.steps import make_trainer
from omegamax.tasks.weights_file import write_weights

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"dim": 16, "hidden_dim": 16, "layers": 1, "heads": 2}


@pytest.fixture(scope="module")
def data():
    return EmbeddedReviewsData((200, 10, 10), length=16, batch_size=8)


def make(data, output="entmax15", **settings) -> LanguageTask:
    torch.manual_seed(0)
    network = LanguageConfig.tiny(output=TokenOutputConfig(output, label_smoothing=0.0), **{**SMALL, **settings})
    return LanguageTask(data.vocabulary, network, rate=Rate(1e-2, 1, "constant", interval="step"))


def test_measures_are_those_of_the_functions(data):
    task = make(data)
    optimiser = torch.optim.Adam(task.parameters(), 1e-2)
    for batch in [*data.train_dataloader()][:10]:  # untrained, it is worse than guessing
        task.training_loss(batch).backward()
        optimiser.step()
        optimiser.zero_grad()
    scores, tokens, target, p = LanguageScores(), [], [], []
    for batch in data.val_dataloader():
        scores.update(task.model, batch["tokens"])
        kept = batch["tokens"][:, 1:] != 0
        p.append(entmax15(task(batch).detach())[kept])
        target.append(batch["tokens"][:, 1:][kept])
        tokens.append(batch["tokens"])
    p, target = torch.cat(p), torch.cat(target)
    found = scores.compute()
    epsilon = best_epsilon(p, target)
    assert abs(scores.find_epsilon() - epsilon) < 1e-9
    wanted = {
        "epsilon_perplexity": epsilon_perplexity(p, target, epsilon=epsilon),
        "sparsemax_score": sparsemax_score(p, target),
        "jensen_shannon": jensen_shannon_score(p, target),
        "accuracy": (p.argmax(-1) == target).float().mean(),
        "support": (p > 0).sum(-1).float().mean(),
    }
    for name, value in wanted.items():
        assert found[name] == pytest.approx(float(value), rel=1e-5), name
    loss = task.model.loss(torch.cat(tokens)).detach()
    assert found["loss"] == pytest.approx(float(loss), rel=1e-5)
    assert 0 <= found["wrep"] <= found["rep"] <= 1
    again = LanguageScores()
    for batch in data.val_dataloader():
        again.update(task.model, batch["tokens"])
    assert again.compute() == found


def test_greedy_predictions_are_certain(data):
    task = make(data, "softmax")
    scores = LanguageScores(0.1, Truncation(top_k=1))
    scores.update(task.model, next(iter(data.val_dataloader()))["tokens"])
    found = scores.compute()
    assert found["support"] == 1 and found["sparsemax_score"] == pytest.approx(found["accuracy"])
    assert math.isinf(found["perplexity"]) and found["epsilon_perplexity"] > 1
    assert LanguageScores(math.inf).metrics["epsilon_perplexity"].epsilon == math.inf


def test_training_lowers_the_loss_and_the_epsilon_goes_into_the_file(data, tmp_path):
    task = make(data, memory=MemoryConfig(segment=8, size=4))
    before = float(task.training_loss(next(iter(data.val_dataloader()))).detach())
    trainer = make_trainer(40, [], tmp_path, every=20)
    trainer.fit(task, datamodule=data)
    assert float(task.training_loss(next(iter(data.val_dataloader()))).detach()) < 0.8 * before
    path = tmp_path / "model.safetensors"
    write_weights(path, task.kind, task.describe(), task.model.state_dict())
    again = LanguageTask.load(path)
    assert again.config == task.config and again.vocabulary == task.vocabulary and again.data_settings["length"] == 16
    assert float(again.model.epsilon) == float(task.model.epsilon) > 0
    (found,) = make_trainer(1, [], tmp_path).test(again, datamodule=data, verbose=False)
    assert found["test_epsilon_perplexity"] < 80 and 0 < found["test_sparsemax_score"] < 1


def test_file_of_another_kind_is_refused(tmp_path, data):
    task = make(data)
    record = {**task.describe(), "network": {"vocabulary": 3, "network": {}}}
    write_weights(tmp_path / "bad.safetensors", task.kind, record, task.model.state_dict())
    with pytest.raises(DataError, match="cannot be read"):
        LanguageTask.load(tmp_path / "bad.safetensors")


def test_texts_are_written_the_same_with_pages(data):
    task = make(data, "sparsemax", attention="entmax15").eval()
    one, two = (
        write(
            task, "the film was", WriteConfig(2, max_length=12, page=page), generator=torch.Generator().manual_seed(3)
        )
        for page in (None, 4)
    )
    assert [each.tokens for each in one] == [each.tokens for each in two]
    assert one[0].share is None and 0 < two[0].share <= 1
    assert write(task, "", WriteConfig(max_length=1))[0].prompt == ""


def test_comparison_has_rows_and_texts_with_how_many_were_possible(data, tmp_path):
    contenders = {name: Contender(make(data, name).eval()) for name in ("softmax", "sparsemax")}
    found = compare(contenders, data, examples=3, prompt=4, config=WriteConfig(2, max_length=6), rounds=1)
    soft, sparse = found.rows
    assert soft.scores["support"] == len(data.vocabulary) > sparse.scores["support"]
    assert sparse.scores["perplexity"] is None and soft.scores["perplexity"] > 1 and soft.step_ms > 0
    assert 0 < soft.scores["distinct_1"] <= 1
    assert [example.prompt == "" for example in found.examples] == [False, False, True]
    # Three tokens are never written: padding, the beginning, and what is not known.
    assert {size for text in found.examples[0].looks["softmax"] for size in text.sizes} == {len(data.vocabulary) - 3}
    cold = compare(contenders, data, examples=2, config=WriteConfig(1, max_length=6, temperature=1e-4), rounds=0)
    assert set(cold.examples[0].looks["sparsemax"][0].sizes) == {1}
    for text in found.examples[0].looks["sparsemax"]:
        assert len(text.pieces) == len(text.sizes) and all(1 <= size <= len(data.vocabulary) for size in text.sizes)
    found.save(tmp_path / "comparison.json")
    assert LanguageComparison.load(tmp_path / "comparison.json") == found
    other = EmbeddedReviewsData((50, 4, 4), review_seed=7, length=16)
    with pytest.raises(DataError, match="knows other words"):
        compare(contenders, other)


def test_prompts_begin_documents(data):
    prompts = choose_prompts(data, "test", 4, 5)
    texts = list(data.read("test"))
    for text, truth in prompts[:-1]:
        assert len(text.split()) == 5 and any(each.startswith(text) and each.endswith(truth) for each in texts)
    assert prompts[-1] == ("", "") and choose_prompts(data, "test", 0, 5) == []


def test_prompts_of_bytes_end_with_a_whole_letter(tmp_path):
    (tmp_path / "a.txt").write_text("日本語を読む\n" * 60, encoding="utf-8")
    data = TextFilesData([str(tmp_path / "a.txt")], unit="file", held_out=0.1, size=260, length=32)
    for size in range(3, 9):
        (text, truth), _ = choose_prompts(data, "test", 2, size)
        assert len(text) == size // 3 and "\ufffd" not in text and text + truth in next(iter(data.read("test")))


def test_files_of_ones_own_and_their_tokens(tmp_path):
    (tmp_path / "a.txt").write_text("Ein kurzer Text, der sich wiederholt.\n" * 40)
    data = TextFilesData([str(tmp_path / "a.txt")], unit="file", held_out=0.1, size=300, length=32)
    assert data.vocabulary.of_bytes and len(data.vocabulary) <= 300
    batch = next(iter(data.train_dataloader()))
    assert batch["tokens"].shape[1] == 33
    kept = TextFilesData.of(data.settings)
    assert kept.vocabulary == data.vocabulary
    import json

    (tmp_path / "v.json").write_text(json.dumps(data.vocabulary.to_dict()))
    given = TextFilesData([str(tmp_path / "a.txt")], vocabulary_file=str(tmp_path / "v.json"))
    assert given.vocabulary == data.vocabulary
    (tmp_path / "v.json").write_text("[]")
    with pytest.raises(DataError, match="no file of tokens"):
        _ = TextFilesData([str(tmp_path / "a.txt")], vocabulary_file=str(tmp_path / "v.json")).vocabulary


def test_words_that_are_no_tokens_are_told_apart():
    assert Subwords.learn(["a"], kind="words") != Subwords.learn(["b"], kind="words")
