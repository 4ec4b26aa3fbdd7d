"""The game from end to end: explanations that tell are understood, and the command writes what was played."""

import csv
import math

import pytest
import torch
from tests.tasks.text.test_text_data import table_rows, write_table

from omegamax.cli.main import main
from omegamax.data import Vocabulary
from omegamax.models.text import TextConfig, WordsConfig
from omegamax.tasks.text import ReviewsData, SentencePairsData, TableData, TextTask
from omegamax.tasks.text.game import EXPLAINERS, collect_messages, play
from omegamax.tasks.text.game.play import GameTexts, make_score
from omegamax.tasks.weights_file import write_weights

SIZES = {"word_dim": 2, "hidden_dim": 2, "score_dim": 2}


def make_reader(vocabulary, kind="sparsemax"):
    """A network that looks for the words "good" and "bad" alone, and decides by them."""
    torch.manual_seed(0)
    task = TextTask(vocabulary, TextConfig.small(attention=WordsConfig(kind), **SIZES)).eval()
    good, bad = vocabulary.find_words(["good", "bad"])
    state = {name: torch.zeros_like(value) for name, value in task.model.state_dict().items()}
    state["embedding.weight"][good], state["embedding.weight"][bad] = torch.tensor([[5.0, 0.0], [0.0, 5.0]])
    for way in ("onward", "back"):  # unit i has the tanh of feature i, of this word alone
        gates = torch.tensor([9.0, 9.0, -9.0, -9.0, 0.0, 0.0, 9.0, 9.0])
        state[f"encoder.{way}.bias_ih_l0"] = gates
        state[f"encoder.{way}.weight_ih_l0"][4:6] = torch.eye(2)
    state["attention.score.0.weight"][0] = torch.tensor([5.0, 5.0, 5.0, 5.0])
    state["attention.score.2.weight"][0, 0] = 5.0
    state["classify.weight"] = torch.tensor([[-1.0, 1.0, -1.0, 1.0], [1.0, -1.0, 1.0, -1.0]])
    task.model.load_state_dict(state)
    return task


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Texts with one word that tells, and others of which each occurs once."""
    path = write_table(tmp_path_factory.mktemp("table") / "a.csv", table_rows(160))
    return TableData(path, held_out=0.3, batch_size=16)


def test_explainers_that_find_the_word_are_understood_and_chance_is_not(table):
    task = make_reader(table.vocabulary)
    found = {each.explainer: each for each in play(task, table, k=1, epochs=20)}
    assert list(found) == list(EXPLAINERS)
    for name in ("attention", "support", "gradient", "leave_one_out", "erasure", "trained", "scaffold"):
        assert found[name].success == found[name].accuracy == found[name].words == 1.0
    assert found["random"].success < 0.9 and found["random"].words == 1.0
    assert found["all"].success == 1.0 and found["all"].words == 4.0 and found["all"].k is None
    assert found["support"].k is None and found["attention"].k == 1
    assert found["all"].train + found["all"].test == 160


def test_layperson_is_asked_for_the_decision_and_not_for_the_class(table):
    task = make_reader(table.vocabulary)
    with torch.no_grad():
        task.model.classify.weight.neg_()  # now it is always wrong
    (found,) = play(task, table, ("attention",), k=1)
    assert found.success == 1.0 and found.accuracy == 0.0


def test_texts_are_drawn_and_the_same_again(table):
    task = make_reader(table.vocabulary)
    drawn = [[batch["id"] for batch in GameTexts(task, table, 7, seed).batches("train", "x")] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and sum(map(len, drawn[0])) == 7
    one, other = (play(task, table, ("random",), k=2, texts=9, seed=5) for _ in range(2))
    assert one == other and one[0].train == one[0].test == 9


def test_texts_without_a_class_have_success_and_no_accuracy(tmp_path, table):
    new = write_table(tmp_path / "new.csv", [("a good film",), ("bad",)], ("text",))
    data = TableData(table.train, test=new, labelled=False, held_out=0.3)
    (found,) = play(make_reader(data.vocabulary), data, ("support",))
    assert found.success == 1.0 and math.isnan(found.accuracy)


def test_pairs_are_played_with_words_of_the_first_sentence():
    data = SentencePairsData((40, 12, 15), batch_size=8)
    torch.manual_seed(0)
    task = TextTask(data.vocabulary, TextConfig.small(alignment="sparsemax", **SIZES)).eval()
    found = {each.explainer: each for each in play(task, data, k=2, epochs=1)}
    assert list(found) == list(EXPLAINERS) and all(0 <= each.success <= 1 for each in found.values())
    assert found["erasure"].words == found["random"].words == 2.0 and found["all"].test == 15
    # What the layperson hears: told words that the second sentence has, told words that it has not, and that sentence.
    words = task.config.words
    batch = {"words": torch.tensor([[4, 5, 6]]), "second": torch.tensor([[6, 7]]), "label": torch.tensor([0])}
    messages = collect_messages(task.model, [batch], make_score("all", 1))
    numbers = [6, words + 4, words + 5, 2 * words + 6, 2 * words + 7]
    assert messages.words.tolist() == numbers and messages.told.tolist() == [3]


def test_what_makes_no_sense_is_refused(table):
    task = make_reader(table.vocabulary)
    with pytest.raises(ValueError, match="play: names must be one of 'attention', 'support'"):
        play(task, table, ("oracle",))
    with pytest.raises(ValueError, match="play: k must be"):
        play(task, table, k=0)
    with pytest.raises(ValueError, match="play: texts must be"):
        play(task, table, texts=0)


@pytest.fixture
def run_file(tmp_path):
    data = ReviewsData((30, 10, 12), batch_size=8)
    task = TextTask(data.vocabulary, TextConfig.small(attention=WordsConfig("sparsemax"), **SIZES))
    task.data_settings = data.settings
    write_weights(tmp_path / "a.safetensors", "text", task.describe(), task.model.state_dict())
    return tmp_path / "a.safetensors"


def test_command_prints_and_writes_the_table(run_file, tmp_path, capsys):
    out = tmp_path / "new" / "game.csv"
    command = ["text", "game", "--checkpoint", str(run_file), "--k", "3", "--texts", "8", "--out", str(out)]
    assert main([*command, "--explainers", "attention", "erasure", "attention"]) == 0
    shown = capsys.readouterr().out
    task = TextTask.load(run_file)
    wanted = play(task, ReviewsData((30, 10, 12), batch_size=8), ("attention", "erasure"), k=3, texts=8)
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["explainer"] for row in rows] == ["attention", "erasure"] and rows[0]["network"] == "sparsemax"
    for row, each in zip(rows, wanted, strict=True):
        assert float(row["success"]) == each.success and float(row["words"]) == each.words and row["k"] == "3"
        assert f"{100 * each.success:.1f} %" in shown
    assert str(out) in shown


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--explainers", "oracle"], "--explainers must be of attention, support"),
        (["--folder", "x"], "ReviewsData has no folder"),
        (["--device", "moon"], "--device moon is not there"),
        (["--explainers", "trained", "--faithful", "-1"], "faithful must be a finite number >= 0"),
        (["--k", "0"], "must be an integer, at least 1"),
    ],
)
def test_command_refuses_in_a_line(run_file, tmp_path, capsys, more, said):
    try:
        code = main(["text", "game", "--checkpoint", str(run_file), "--out", str(tmp_path / "a.csv"), *more])
    except SystemExit as exit:
        code = exit.code
    shown = capsys.readouterr().err
    assert code == 2 and said in shown and "Traceback" not in shown


def test_command_needs_to_know_the_data(tmp_path, capsys):
    task = TextTask(Vocabulary(["good", "bad"], ["0", "1"]), TextConfig.small(**SIZES))
    write_weights(tmp_path / "a.safetensors", "text", task.describe(), task.model.state_dict())
    assert (
        main(["text", "game", "--checkpoint", str(tmp_path / "a.safetensors"), "--out", str(tmp_path / "g.csv")]) == 2
    )
    assert "does not say which data it was trained on" in capsys.readouterr().err
