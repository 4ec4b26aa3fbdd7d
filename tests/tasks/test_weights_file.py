"""Files of networks that lie about their sizes: refused before a network of these sizes is made."""

import json
import struct

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from omegamax.data import DataError, Vocabulary
from omegamax.models.grid_cnn import GridCNN
from omegamax.models.grid_cnn_file import load_grid_cnn, save_grid_cnn
from omegamax.models.mcan import MCANConfig, OutputConfig
from omegamax.tasks.mil import MILTask
from omegamax.tasks.vqa import VQATask
from omegamax.tasks.weights_file import write_weights

HUGE = 10**9


def vqa():
    return VQATask(Vocabulary(["red"], ["yes", "no"]), MCANConfig.small(grid=(2, 2)))


def written(tmp_path, task, ending, change):
    """A file of the task whose record was changed."""
    record = json.loads(json.dumps(task.describe()))
    change(record)
    path = tmp_path / f"model{ending}"
    if ending == ".safetensors":
        write_weights(path, task.kind, record, task.model.state_dict())
    else:
        state = {f"model.{name}": weight for name, weight in task.model.state_dict().items()}
        torch.save({"state_dict": state, task.kind: record}, path)
    return path


def network(**changes):
    return lambda record: record["network"].update(changes)


def output(**changes):
    return lambda record: record["network"]["output"].update(kind="continuous_softmax", **changes)


def data(**changes):
    return lambda record: record["data"].update(**{"class": "ScenesData", **changes})


def bags(**changes):
    return data(**{"class": "MNISTBagsData", "folder": "digits", **changes})


def nested(record):
    for _ in range(100):
        record["data"] = {"a": [record["data"]]}
    record["format"] = 2


VQA = {
    "layers": network(layers=100_000),
    "few more layers": network(layers=3),
    "hidden": network(hidden_dim=HUGE * 4),
    "words": network(word_dim=HUGE),
    "image": network(image_dim=HUGE),
    "feedforward": network(feedforward_dim=HUGE),
    "grid": network(grid=[HUGE, HUGE]),
    "functions": output(functions=100_000),
    "components": output(max_components=HUGE),
    "iterations": output(iterations=[HUGE, HUGE]),
    "restarts": output(restarts=HUGE),
    "vocabulary": lambda record: record["vocabulary"].update(words=[f"w{i}" for i in range(100)]),
    "loss": lambda record: record.update(loss="other"),
    "options": lambda record: record.update(loss_options=[1]),
    "data": lambda record: record.update(data="folder"),
    "nested": nested,
    "kind of layers": network(layers="many"),
    "part of a layer": network(layers=1.5),
    "workers": data(workers=HUGE),
    "batches": data(batch_size=HUGE),
    "pictures": data(image_size=HUGE),
    "kind of pictures": data(image_size="large"),
    "part of a pixel": data(image_size=64.0),
    "no pixels": data(image_size=0),
    "samples": data(samples=[8, 4, HUGE]),
    "cells of the data": data(grid=[14, HUGE]),
    "pictures of a folder": data(**{"class": "EasyVQAData", "size": [HUGE, 64]}),
    "workers of an unknown class": data(**{"class": "OtherData", "workers": HUGE}),
    "pictures of an unknown class": data(**{"class": ["list"], "size": [64, HUGE]}),
    "pictures of no class": data(**{"class": None, "image_size": HUGE}),
}
MIL = {
    "dim": network(dim=HUGE),
    "features": network(features=HUGE),
    "hidden": network(hidden_dim=HUGE),
    "heads": network(heads=HUGE),
    "k": network(omega="k_subsets", options={"k": HUGE}),
    "kind": network(features="five"),
    "negative": network(dim=-8),
    "data": lambda record: record.update(data="folder"),
    "workers": bags(workers=HUGE),
    "batches": bags(batch_size=HUGE),
    "bags": bags(bags=[1, 1, HUGE]),
    "digits": bags(mean=1e12),
    "no digits": bags(mean=float("inf")),
    "spread": bags(deviation=1e12),
    "positives": bags(positives=HUGE),
    "workers of a benchmark": bags(**{"class": "MILBenchmarkData", "workers": HUGE}),
}


@pytest.mark.parametrize("ending", [".safetensors", ".ckpt"])
@pytest.mark.parametrize("case", VQA)
def test_record_of_a_network_for_questions_is_compared_with_its_weights(tmp_path, case, ending):
    path = written(tmp_path, vqa(), ending, VQA[case])
    with pytest.raises(DataError) as caught:
        VQATask.load(path)
    assert str(path) in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("ending", [".safetensors", ".ckpt"])
@pytest.mark.parametrize("case", MIL)
def test_record_of_a_network_for_bags_is_compared_with_its_weights(tmp_path, case, ending):
    path = written(tmp_path, MILTask(features=5, dim=8), ending, MIL[case])
    with pytest.raises(DataError) as caught:
        MILTask.load(path)
    assert str(path) in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("kind", ["entmax", "tvmax", "continuous_entmax", "multimodal", "sparsemax"])
@pytest.mark.parametrize("ending", [".safetensors", ".ckpt"])
def test_files_of_every_attention_are_read(tmp_path, kind, ending):
    config = MCANConfig.small(grid=(2, 2), output=OutputConfig(kind, learnable=kind != "sparsemax"))
    task = VQATask(Vocabulary(["red"], ["yes", "no"]), config)
    found = VQATask.load(written(tmp_path, task, ending, lambda record: None))
    assert all(torch.equal(a, b) for a, b in zip(found.model.parameters(), task.model.parameters(), strict=True))


CNN = {
    "dim": {"dim": HUGE},
    "grid": {"grid": [HUGE, HUGE]},
    "widths": {"widths": [8] * 1_000_000},
    "width": {"widths": [HUGE * 8]},
    "kind": {"grid": "many"},
}


@pytest.mark.parametrize("case", [*CNN, "deep"])
def test_settings_of_a_cnn_are_compared_with_its_weights(tmp_path, case):
    path = tmp_path / "cnn.safetensors"
    save_grid_cnn(GridCNN(8, (2, 2)), path)
    with safe_open(path, "pt") as file:
        metadata, state = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    changed = {"grid": "[" * 100_000} if case == "deep" else {k: json.dumps(v) for k, v in CNN[case].items()}
    save_file(state, path, {**metadata, **changed})
    with pytest.raises(ValueError, match=r"cnn\.safetensors"):
        load_grid_cnn(path)


HEADERS = {
    "length": struct.pack("<Q", 2**62) + b"{}",
    "offsets": json.dumps({"a": {"dtype": "F32", "shape": [HUGE, HUGE], "data_offsets": [0, 4]}}).encode(),
    "beyond": json.dumps({"a": {"dtype": "F32", "shape": [HUGE], "data_offsets": [0, 4 * HUGE]}}).encode(),
    "deep": b'{"a": ' + b"[" * 10_000,
    "empty": b"",
}


@pytest.mark.parametrize("case", HEADERS)
def test_header_that_lies_is_refused(tmp_path, case):
    path = tmp_path / "model.safetensors"
    content = HEADERS[case]
    path.write_bytes(content if case in ("length", "empty") else struct.pack("<Q", len(content)) + content + b"\0" * 4)
    for load in (VQATask.load, MILTask.load):
        with pytest.raises(DataError, match=r"model\.safetensors"):
            load(path)


@pytest.mark.parametrize("where", ["state", "record"])
def test_expanded_tensor_or_list_is_refused(tmp_path, where):
    task, path = vqa(), tmp_path / "model.ckpt"
    state = {f"model.{name}": weight for name, weight in task.model.state_dict().items()}
    record = task.describe()
    if where == "state":
        state["model.extra"] = torch.zeros(1).expand(10**6, 10**6)
    else:
        many: list = ["a"] * 10
        for _ in range(12):
            many = [many] * 10
        record["data"] = {"a": many}
    torch.save({"state_dict": state, "vqa": record}, path)
    with pytest.raises(DataError, match=r"model\.ckpt"):
        VQATask.load(path)
