"""Files of trained networks: they give the same answers, or a reason why not."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tasks.vqa.runs import fit

from omegamax.data import DataError, Vocabulary
from omegamax.models.mcan import MCANConfig, OutputConfig
from omegamax.tasks.vqa import Record, ScenesData, VQATask, read_checkpoint, write_safetensors
from omegamax.tasks.vqa.checkpoint import check_same

pytestmark = pytest.mark.usefixtures("one_thread")
SIZES = dict.fromkeys(("word_dim", "image_dim", "hidden_dim", "feedforward_dim", "flat_dim", "fused_dim"), 8)
VOCABULARY = Vocabulary(["red", "blue"], ["yes", "no"])


def record(**changes):
    network = MCANConfig(words=4, answers=2, heads=2, layers=1, **SIZES, **changes.pop("network", {}))
    return Record(network, **{"vocabulary": VOCABULARY, **changes})


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A run whose best network is the last: both kinds of file hold the same."""
    return fit(tmp_path_factory.mktemp("run"), "--model.network.output.kind=continuous_sparsemax", max_epochs=1)


def test_both_kinds_of_file_give_the_same_answers(done):
    plain, shared = VQATask.load(done / "checkpoints" / "best.ckpt"), VQATask.load(done / "model.safetensors")
    assert json.dumps(plain.record.to_dict()) == json.dumps(shared.record.to_dict())
    assert not plain.training and not shared.training and plain.network.output.kind == "continuous_sparsemax"
    data = ScenesData.of(shared.data_settings, samples=(1, 1, 4))
    batch = next(iter(data.test_dataloader()))
    with torch.no_grad():
        assert torch.equal(plain(batch).logits, shared(batch).logits)
        assert torch.equal(plain(batch).attention.weights, shared(batch).attention.weights)
    assert plain.predict_step(batch, 0) == shared.predict_step(batch, 0)


def test_record_comes_back_from_plain_data():
    one = record(loss="entmax", loss_options={"alpha": 1.25}, blind=True, data={"class": "ScenesData", "seed": 3})
    again = Record.from_dict(json.loads(json.dumps(one.to_dict())))
    assert (
        not one.differences(again) and again.data == one.data and again.blind and again.loss_options == {"alpha": 1.25}
    )


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"network": {"dropout": 0.5}}, "dropout: 0.1, not 0.5"),
        ({"network": {"output": OutputConfig("tvmax")}}, "output.kind: 'softmax', not 'tvmax'"),
        ({"loss": "softmax"}, "loss: 'bce', not 'softmax'"),
        ({"blind": True}, "blind: False, not True"),
        ({"vocabulary": Vocabulary(["red", "blue"], ["yes", "maybe"])}, "vocabulary: "),
    ],
)
def test_differences_are_named(changes, said):
    assert any(each.startswith(said) for each in record().differences(record(**changes)))
    with pytest.raises(DataError, match=r"the checkpoint is of another configuration\. It has") as error:
        check_same(record().to_dict(), record(**changes))
    assert said in str(error.value)


def test_same_configuration_and_other_data_fit():
    check_same(record().to_dict(), record(data={"class": "ScenesData"}))
    with pytest.raises(DataError, match="was not written by a VQATask"):
        check_same(None, record())


def rewritten(path, source, **changes):
    """The same weights with another record."""
    found, weights = read_checkpoint(source)
    content = {**found.to_dict(), **changes}
    save_file(weights, path, metadata={"omegamax.vqa": json.dumps(content)})
    return path


def test_file_from_before_scores_had_a_scale_is_read(done, tmp_path):
    found, weights = read_checkpoint(done / "model.safetensors")
    del weights["output.score_scale"]
    write_safetensors(tmp_path / "old.safetensors", found, weights)
    assert float(VQATask.load(tmp_path / "old.safetensors").model.output.score_scale) == 1


class Code:
    def __reduce__(self):
        return os.getpid, ()


def test_files_that_cannot_be_used_are_named(done, tmp_path):
    good, ckpt = done / "model.safetensors", done / "checkpoints" / "best.ckpt"
    path = tmp_path / "a.safetensors"
    missing = {name: tensor for name, tensor in list(load_file(good).items())[1:]}

    def cut(name, source):
        place = tmp_path / name
        place.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
        return place

    def saved(name, content):
        torch.save(content, tmp_path / name)
        return tmp_path / name

    def without_record():
        save_file(missing, path)
        return path

    def with_metadata(text):
        save_file(missing, path, metadata={"omegamax.vqa": text})
        return path

    def without_a_tensor():
        write_safetensors(path, read_checkpoint(good)[0], missing)
        return path

    content = torch.load(ckpt, weights_only=True)
    cases = [
        (lambda: tmp_path / "none.ckpt", FileNotFoundError, "none.ckpt does not exist; give a file that"),
        (lambda: tmp_path / "none.safetensors", FileNotFoundError, "none.safetensors does not exist"),
        (lambda: cut("cut.ckpt", ckpt), DataError, "cut.ckpt is damaged"),
        (lambda: cut("cut.safetensors", good), DataError, "cut.safetensors is damaged"),
        (lambda: saved("code.ckpt", {**content, "x": Code()}), DataError, "code.ckpt is damaged, or no checkpoint of"),
        (lambda: saved("list.ckpt", [1, 2]), DataError, "list.ckpt is no checkpoint of `omegamax vqa`"),
        (lambda: saved("other.ckpt", {"state_dict": {}}), DataError, "other.ckpt is no checkpoint of `omegamax vqa`"),
        (lambda: saved("odd.ckpt", {**content, "vqa": 3}), DataError, "odd.ckpt has a record that is no set of"),
        (without_record, DataError, "a.safetensors says nothing of the network"),
        (lambda: with_metadata("{"), DataError, "a.safetensors has a record that cannot be read"),
        (lambda: with_metadata("[]"), DataError, "a.safetensors has a record that is no set of settings"),
        (without_a_tensor, DataError, "a.safetensors has weights that do not fit its own settings"),
        (lambda: rewritten(path, good, format=99), DataError, "a.safetensors has format 99, this version reads 1"),
        (lambda: rewritten(path, good, network={"depth": 3}), DataError, "a record that cannot be read.*depth"),
        (lambda: rewritten(path, good, vocabulary=None), DataError, "a record that cannot be read"),
    ]
    for make, kind, said in cases:
        with pytest.raises(kind, match=said):
            VQATask.load(make())
    with pytest.raises(DataError) as error:
        VQATask.load(tmp_path / "code.ckpt")
    assert "weights_only" not in str(error.value)  # not how to run it all the same
