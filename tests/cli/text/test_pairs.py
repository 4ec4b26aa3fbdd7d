"""``omegamax text`` with pairs of sentences: a run, a test, and the picture of an alignment."""

import pytest
from small_runs import trainer
from tests.cli.refusals import refused
from tests.cli.text.test_text import SMALL

from omegamax.cli.main import main
from omegamax.data import Vocabulary
from omegamax.tasks.text import TextTask
from omegamax.tasks.weights_file import write_weights

pytestmark = pytest.mark.usefixtures("one_thread")
FIRST, SECOND = "the old dog is running in the forest", "in the forest the animal is moving quickly"


def fit_pairs(out, *more):
    data = ["--data=SentencePairsData", "--data.samples=[48,16,12]", "--data.batch_size=8"]
    return main(["text", "fit", *data, *SMALL, *trainer(2), f"--out={out}", *more])


def test_pairs_from_fit_to_explain(tmp_path, capsys):
    runs = {kind: tmp_path / kind for kind in ("softmax", "matching")}
    for kind, out in runs.items():
        assert fit_pairs(out, f"--model.network.alignment={kind}") == 0
    assert main(["text", "test", f"--config={runs['matching'] / 'config.yaml'}"]) == 0
    assert "test_accuracy" in capsys.readouterr().out
    trained, picture = [str(out) for out in runs.values()], tmp_path / "pair.png"
    assert main(["text", "explain", FIRST, SECOND, "--checkpoint", *trained, "--out", str(picture)]) == 0
    shown = capsys.readouterr()
    assert "softmax alignment" in shown.out and "matching alignment" in shown.out and "contradiction" in shown.out
    assert "words it was not trained with: quickly" in shown.err and picture.read_bytes()[:4] == b"\x89PNG"
    task, single = TextTask(Vocabulary(["good"], ["0", "1"])), tmp_path / "single.safetensors"
    write_weights(single, task.kind, task.describe(), task.model.state_dict())
    more = ["--out", str(picture), "--checkpoint"]
    assert "reads two sentences, got 1" in refused(capsys, "text", "explain", FIRST, *more, trained[0])
    assert "reads one text, got 2" in refused(capsys, "text", "explain", FIRST, SECOND, *more, str(single))
    assert "has no words" in refused(capsys, "text", "explain", FIRST, " ", *more, trained[0])


def test_data_and_network_must_both_be_of_pairs_or_of_texts(tmp_path, capsys):
    assert fit_pairs(tmp_path / "a") == 2
    assert "for these the network must have an alignment" in capsys.readouterr().err
    single = ["fit", "--data=ReviewsData", "--model.network.alignment=matching", "--data.samples=[8,4,4]"]
    said = refused(capsys, "text", *single, *SMALL, *trainer(2), f"--out={tmp_path / 'b'}")
    assert "reads pairs, got single texts; for these, set no alignment" in said
