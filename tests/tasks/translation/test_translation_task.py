"""The task learns to translate, measures it rightly, and its files say what it is."""

import json

import lightning as L
import pytest
import torch
from matplotlib.text import Text

from omegamax.data import DataError
from omegamax.data.translation import PairVocabulary, PairWarning, TextForm, TinyPairs
from omegamax.models.translation import FertilityConfig, TokenOutputConfig, TranslatorConfig
from omegamax.tasks.quiet import quiet
from omegamax.tasks.rate import Rate
from omegamax.tasks.translation import (
    PairFilesData,
    SearchConfig,
    TinyPairsData,
    TranslationTask,
    compare_bleu,
    measure_bleu,
    translate,
)
from omegamax.tasks.translation.explain import draw, explain
from omegamax.tasks.translation.search import search_tokens
from omegamax.tasks.weights_file import write_weights

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec.*deprecated")
VOCABULARY = PairVocabulary.learn(TinyPairs(60), kind="words", joint=False)
SMALL = {"dim": 16, "hidden_dim": 16, "layers": 1, "heads": 2, "dropout": 0.0}


def make(seed=0, vocabulary=VOCABULARY, output="sparsemax", **settings):
    torch.manual_seed(seed)
    network = TranslatorConfig(attention="entmax15", output=TokenOutputConfig(output, label_smoothing=0.0), **SMALL)
    return TranslationTask(vocabulary, network, **settings)


def trainer(tmp_path, **settings):
    quiet = {"enable_progress_bar": False, "enable_checkpointing": False, "enable_model_summary": False}
    return L.Trainer(accelerator="cpu", default_root_dir=tmp_path, logger=False, **quiet, **settings)


@pytest.mark.slow
def test_embedded_pair_is_learnt(tmp_path):
    L.seed_everything(0, verbose=False)
    data = TinyPairsData((3000, 50, 100), batch_size=64)
    network = TranslatorConfig.tiny(attention="entmax15", output=TokenOutputConfig("entmax15", label_smoothing=0.0))
    task = TranslationTask(data.vocabulary, network, Rate(3e-3, 20, "constant", interval="step"))
    runner = trainer(tmp_path, max_epochs=8, gradient_clip_val=1.0)
    runner.fit(task, datamodule=data)
    (found,) = runner.test(task, datamodule=data, verbose=False)
    assert found["test_bleu"] > 95 and found["test_support"] < 3 and found["test_exact"] > 0.9


def test_measures_and_files_are_those_of_all_sentences(tmp_path, capsys):
    data = TinyPairsData((60, 10, 23), batch_tokens=60)
    task = make(vocabulary=data.vocabulary, search=SearchConfig(2, max_length=12)).double()
    (found,) = trainer(tmp_path, precision=64).test(task, datamodule=data, verbose=False)
    pairs = data.read("test")
    every = translate(task.eval(), [pair.source for pair in pairs])
    lines = (tmp_path / "test.hyp").read_text().splitlines()
    assert lines == [each.text for each in every] and len(lines) == 23
    assert (tmp_path / "test.ref").read_text().splitlines() == [pair.target for pair in pairs]
    again = measure_bleu(lines, [pair.target for pair in pairs])
    saved = json.loads((tmp_path / "test_bleu.json").read_text())
    assert found["test_bleu"] == pytest.approx(again.score) and saved["signature"] == again.signature
    assert "case:mixed" in again.signature and saved["form"] == "cased, NFC" and str(again) in capsys.readouterr().out
    assert found["test_exact"] == pytest.approx(sum(each.exact for each in every) / 23)
    lengths = [len(each.hypotheses[0].tokens) for each in every]
    assert found["test_length"] == pytest.approx(sum(lengths) / 23)


def test_score_says_that_it_is_lower_cased():
    report = measure_bleu(["Ein Hund läuft im Wald ."], ["ein hund läuft im wald ."], TextForm(lowercase=True))
    assert report.score == pytest.approx(100) and "case:lc" in report.signature and "lower-cased" in str(report)
    with pytest.raises(ValueError, match="as many"):
        measure_bleu(["a"], [])


@torch.no_grad()
def test_lines_are_translated_as_each_would_be_alone():
    task = make().double().eval()
    lines = [pair.source for pair in TinyPairs(9, "val")] + ["", "   ", "日本語 \x00 ?", "hund " * 10_000]
    search = SearchConfig(3, max_length=15)
    together = translate(task, lines, search, returned=2)
    assert [each.text for each in together] == [translate(task, [line], search, 2)[0].text for line in lines]
    assert together[9].hypotheses == () == together[10].hypotheses and together[11].hypotheses
    assert together[-1].cut == 10_001 - 256 and all(each.cut == 0 for each in together[:-1])
    assert all("\n" not in each.text for each in together)


def test_empty_source_has_an_empty_translation_and_no_search(tmp_path, monkeypatch):
    (tmp_path / "text.de").write_text("der hund\n\nein ball\n")
    (tmp_path / "text.en").write_text("the dog\na cat\na ball\n")
    data = PairFilesData(str(tmp_path / "text"), str(tmp_path / "text"), subwords="words", least=1)
    task = make(vocabulary=data.vocabulary, search=SearchConfig(2, max_length=5)).eval()
    found, looked = [], "omegamax.tasks.translation.search.search_tokens"
    monkeypatch.setattr(looked, lambda *given: found.append(given[1].tolist()) or search_tokens(*given))
    with pytest.warns(PairWarning, match="1 pairs have a sentence without words"):
        (measured,) = trainer(tmp_path).test(task, datamodule=data, verbose=False)
    assert [len(rows) for rows in found] == [2] and (tmp_path / "test.hyp").read_text().splitlines()[1] == ""
    assert [each.text for each in translate(task, ["", " "])] == ["", ""] and len(found) == 1
    assert measured["test_empty"] == pytest.approx(1 / 3)


@torch.no_grad()
def test_wide_beams_take_fewer_lines_at_a_time(monkeypatch):
    task = make().double().eval()
    lines, search = [pair.source for pair in TinyPairs(5, "val")], SearchConfig(70, max_length=5)
    together = translate(task, lines, search, returned=70)
    sizes, encode = [], task.model.encode
    monkeypatch.setattr(task.model, "encode", lambda source: sizes.append(len(source)) or encode(source))
    monkeypatch.setattr("omegamax.tasks.translation.search._MOST_SCORES", 2 * 70 * len(VOCABULARY.target))
    again = translate(task, lines, search, returned=70)
    assert sorted(sizes) == [1, 2, 2]
    for one, other in zip(together, again, strict=True):
        assert [each.tokens for each in one.hypotheses] == [each.tokens for each in other.hypotheses]


def test_samples_follow_their_seed():
    task = make().double().eval()
    search = SearchConfig(samples=4, max_length=10)
    lines = ["der hund hat den ball gesehen ."]
    one, other, third = (
        translate(task, lines, search, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
    )
    assert one == other and len(one[0].hypotheses) == 4 and not one[0].exact
    assert third != one


@pytest.mark.parametrize("joint", [False, True])
def test_file_says_what_the_network_is(tmp_path, joint):
    task = make(vocabulary=PairVocabulary.learn(TinyPairs(60), size=120, joint=joint)).eval()
    write_weights(tmp_path / "model.safetensors", task.kind, task.describe(), task.model.state_dict())
    again = TranslationTask.load(tmp_path / "model.safetensors")
    assert again.vocabulary == task.vocabulary and again.config == task.config
    line = ["der hund hat den ball gesehen ."]
    search = SearchConfig(2, max_length=10)
    assert translate(again, line, search) == translate(task, line, search)
    assert again.model.output.weight is again.model.embedding.weight


@pytest.mark.parametrize(
    "change",
    [
        lambda network: network["network"].update(layers=10**7),
        lambda network: network["network"].update(dim=10**7, heads=1),
        lambda network: network["vocabulary"]["source"].update(tokens=["a"]),
        lambda network: network.pop("vocabulary"),
    ],
)
def test_file_that_was_tampered_with_is_refused(tmp_path, change):
    task = make()
    record = json.loads(json.dumps(task.describe()))
    change(record["network"])
    write_weights(tmp_path / "model.safetensors", task.kind, record, task.model.state_dict())
    with pytest.raises(DataError):
        TranslationTask.load(tmp_path / "model.safetensors")


def test_mean_of_weights_stands_in_for_them(tmp_path):
    data = TinyPairsData((100, 10, 10))
    task = make(vocabulary=data.vocabulary, average=0.5, rate=Rate(1e-2, 0, "constant"))
    start = task.model.embedding.weight.detach().clone()
    seen = []
    task.model.output.register_forward_hook(lambda *unused: seen.append(task.model.embedding.weight.detach().clone()))
    runner = trainer(tmp_path, max_steps=1, limit_val_batches=1, num_sanity_val_steps=0)
    runner.fit(task, datamodule=data)
    assert seen and not torch.equal(seen[-1], start)


@pytest.mark.parametrize("kind", ["constant", "table", "predicted"])
def test_fertility_is_trained_with(tmp_path, kind):
    data = TinyPairsData((100, 10, 10))
    sizes = {"dim": 16, "layers": 1, "dropout": 0.0, "architecture": "recurrent"}
    network = TranslatorConfig(attention="constrained_sparsemax", fertility=FertilityConfig(kind, 1.0), **sizes)
    task = TranslationTask(data.vocabulary, network, search=SearchConfig(2, max_length=12))
    runner = trainer(tmp_path, max_steps=2, limit_val_batches=0)
    runner.fit(task, datamodule=data)
    (found,) = runner.test(task, datamodule=data, verbose=False)
    assert found["test_rep"] >= 0
    if kind == "table":
        assert task.model.look.fertility.table.max() > 1 and task.model.look.fertility.table.min() == 1
    write_weights(tmp_path / "model.safetensors", task.kind, task.describe(), task.model.state_dict())
    again = TranslationTask.load(tmp_path / "model.safetensors")
    line = ["der hund hat den ball gesehen ."]
    assert translate(again, line, task.search) == translate(task.eval(), line, task.search)


def test_densities_are_drawn_beneath_the_weights():
    torch.manual_seed(0)
    network = TranslatorConfig.tiny(architecture="recurrent", density="continuous_sparsemax", attention="softmax")
    task = TranslationTask(VOCABULARY, network).eval()
    said = explain(task, "der hund hat den ball gesehen .", "the dog has seen the ball .")
    assert len(said.densities) == len(said.target) == 8
    long = "softmax + continuous sparsemax attention, sparsemax output, recurrent, of a name that is longer still"
    figure = draw({long: said})
    assert len(figure.axes) == 2
    figure.draw_without_rendering()
    (title,) = (each for each in figure.findobj(Text) if each.get_text().replace("\n", " ") == long)
    assert title.get_window_extent().x0 >= 0 and title.get_window_extent().x1 <= figure.bbox.width


def test_explanation_looks_where_the_network_does():
    task = make().eval()
    said = explain(task, "der hund hat den ball gesehen .", search=SearchConfig(2, max_length=8))
    assert said.source == ("der", "hund", "hat", "den", "ball", "gesehen", ".", "</s>")
    assert said.weights.shape == (len(said.target), 8) and said.support.shape == (len(said.target),)
    given = explain(task, "der hund", "the dog")
    assert given.translation is None and given.target == ("the", "dog", "</s>")
    figure = draw({"one": said, "two": said})
    assert len(figure.axes) == 2
    with pytest.raises(ValueError, match="must have words"):
        explain(task, " ")


@pytest.mark.filterwarnings("error:.*Averag")
@pytest.mark.parametrize("mean", [{"average": 0.5}, {"average_epochs": 2}])
def test_checkpoint_with_a_mean_is_tested_without_a_word_of_averaging(tmp_path, mean):
    data = TinyPairsData((40, 10, 10))
    task = make(vocabulary=data.vocabulary, search=SearchConfig(1, max_length=4), aligned=0, **mean)
    runner = trainer(tmp_path, max_steps=2, limit_val_batches=0)
    runner.fit(task, datamodule=data)
    runner.save_checkpoint(tmp_path / "last.ckpt", weights_only=False)
    again = make(seed=1, vocabulary=data.vocabulary, search=SearchConfig(1, max_length=4), aligned=0, **mean)
    with quiet():  # as the command does
        saved = {"ckpt_path": tmp_path / "last.ckpt", "weights_only": False}
        trainer(tmp_path).test(again, datamodule=data, verbose=False, **saved)
    assert again.model.embedding.weight.equal(task.model.embedding.weight)


def test_two_means_of_the_weights_are_refused():
    with pytest.raises(ValueError, match=r"average 0\.5 and average_epochs 2; give one of the two"):
        make(average=0.5, average_epochs=2)


def test_translations_that_are_the_same_do_not_differ_significantly():
    lines = [("the dog runs", "the dog runs fast today"), ("a cat is here", "a cat was here"), ("", "no words at all")]
    first = {str(i): lines[i % 3] for i in range(30)}
    assert compare_bleu(first, first, TextForm()) == (0.0, 1.0)
    better = {id: (reference, reference) for id, (_, reference) in first.items()}
    gain, p = compare_bleu(first, better, TextForm())
    assert gain > 20 and p < 0.01
