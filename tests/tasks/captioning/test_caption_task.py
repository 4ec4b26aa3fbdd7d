"""Sets, measures, files of networks and explanations of captioning."""

import lzma

import numpy as np
import pytest
import torch
from PIL import Image

from omegamax.data import DataError
from omegamax.data.captions import CaptionVocabulary
from omegamax.metrics import jensen_shannon
from omegamax.models import GridCNN
from omegamax.models.captioning import CaptionConfig
from omegamax.models.grid_cnn_file import save_grid_cnn
from omegamax.models.mcan import OutputConfig
from omegamax.tasks.captioning import CaptionData, CaptionTask, CocoCaptionsData, Flickr8kData, SceneCaptionsData
from omegamax.tasks.captioning.explain import draw, explain
from omegamax.tasks.captioning.measures import CaptionMeasures
from omegamax.tasks.weights_file import write_weights

SIZES = {"word_dim": 8, "hidden_dim": 8, "image_dim": 8, "feature_dim": 8, "score_dim": 8, "grid": (4, 4)}


def make_task(kind="sparsemax", **changes):
    torch.manual_seed(0)
    network = CaptionConfig.small(attention=OutputConfig(kind), **{**SIZES, **changes})
    return CaptionTask(CaptionVocabulary(["a", "red", "star"]), network, max_length=5).eval()


def test_every_caption_is_learnt_from_and_every_picture_measured():
    data = SceneCaptionsData(samples=(6, 3, 2), image_size=32, grid=(4, 4), batch_size=4)
    assert len(data.split("train")) == 30 and len(data.split("val")) == 3
    batch = next(iter(data.train_dataloader()))
    assert batch["caption"].shape[0] == 4 and batch["regions"].shape[2:] == (4, 4)
    again = CaptionData.of(data.settings)
    assert next(iter(again.train_dataloader()))["caption"].equal(batch["caption"])
    assert data.counts("train") == [len(some) for some in data.captions("train")]


def test_kept_pictures_become_features_of_a_frozen_cnn():
    data = SceneCaptionsData(samples=(6, 3, 2), image_size=32, grid=(4, 4), batch_size=3)
    plain = next(iter(data.val_dataloader()))
    cnn = GridCNN(8, (4, 4)).eval()
    data.featurise(cnn)
    batch = next(iter(data.val_dataloader()))
    torch.testing.assert_close(batch["features"], cnn(plain["image"]), rtol=1e-5, atol=1e-5)
    assert batch["regions"].equal(plain["regions"]) and batch["grid"] == (4, 4)


def test_flickr8k_from_its_folder(tmp_path):
    with lzma.open(tmp_path / "Flickr8k.token.txt.xz", "wt") as file:
        file.write("a.jpg#0\tA dog runs .\na.jpg#1\tA dog\nb.jpg#0\tTwo men run\n")
    for part in ("train", "dev", "test"):
        (tmp_path / f"Flickr_8k.{part}Images.txt").write_text("a.jpg\n" if part == "train" else "b.jpg\n")
    data = Flickr8kData(str(tmp_path), least=2, size=(8, 8), grid=(2, 2), batch_size=2)
    assert data.vocabulary.words == ("a", "dog")
    with pytest.raises(FileNotFoundError, match="has no pictures"):
        data.split("train")
    (tmp_path / "images").mkdir()
    Image.fromarray(np.zeros((10, 20, 3), np.uint8)).save(tmp_path / "images" / "a.jpg")
    batch = next(iter(data.train_dataloader()))
    assert sorted(map(tuple, batch["caption"].tolist())) == [(2, 4, 5, 1, 3), (2, 4, 5, 3, 0)]
    assert batch["image"].shape == (2, 3, 8, 8) and batch["references"][0] == ["A dog runs .", "A dog"]
    with pytest.raises(FileNotFoundError, match=r"no picture b\.jpg"):
        data.split("test")


def test_settings_beyond_limits_are_refused():
    with pytest.raises(ValueError, match="length must be"):
        SceneCaptionsData(length=0)
    with pytest.raises(ValueError, match="least must be"):
        SceneCaptionsData(least=0)
    with pytest.raises(FileNotFoundError, match="vocabulary_file"):
        _ = CocoCaptionsData("no.json", "no.json", vocabulary_file="no.json").vocabulary


def test_references_as_people_wrote_them_are_compared_by_words():
    measures = CaptionMeasures()
    measures.add_captions([("a", "dog", "runs", "a", "dog")], [["A Dog runs , a dog ."]], [[]])
    found = measures.compute()
    assert found["bleu4"] == pytest.approx(1) and found["rep"] == 0


def test_measures_are_those_of_their_definitions():
    measures = CaptionMeasures()
    maps = torch.tensor([[[1.0, 0.0]], [[0.5, 0.5]], [[0.0, 1.0]]])
    measures.add_captions([("a", "dog"), ("two", "two")], [["a dog"], ["two men"]], [["dog"], []])
    measures.add_maps([maps, maps[:1], maps[:0]])
    regions = torch.tensor([[[[0.5, 0.0]], [[0.0, 0.0]], [[0.2, 0.0]]]])
    measures.add_regions(maps.unsqueeze(0), regions)
    found = measures.compute()
    assert found["bleu1"] == pytest.approx(3 / 4) and found["words"] == 2 and found["objects"] == 1
    assert found["zero"] == pytest.approx((0.5 + 0 + 0.5 + 0.5) / 4)
    wanted = jensen_shannon(maps[:2].flatten(1), maps[1:].flatten(1)).mean()
    assert found["js"] == pytest.approx(float(wanted))
    assert found["inside"] == pytest.approx((1 + 0) / 2) and "loss" not in found
    measures.reset()
    assert "zero" not in measures.compute()


def test_network_is_saved_and_loaded(tmp_path):
    task, path = make_task("tvmax"), tmp_path / "model.safetensors"
    task.data_settings = SceneCaptionsData(samples=(6, 3, 2), image_size=32, grid=(4, 4)).settings
    write_weights(path, task.kind, task.describe(), task.model.state_dict())
    read = CaptionTask.load(path)
    image = torch.randint(0, 256, (3, 50, 70), dtype=torch.uint8)
    one, other = explain(task, image), explain(read, image)
    assert one.tokens == other.tokens and torch.equal(one.maps, other.maps) and read.label == "tvmax"
    assert one.log_probability == other.log_probability <= 0
    assert (read.beam, read.max_length, read.length_penalty) == (5, 5, 0.0)


def test_how_captions_are_written_is_in_the_file_and_no_part_of_the_network(tmp_path):
    task, path = make_task(), tmp_path / "model.safetensors"
    task.beam, task.max_length, task.length_penalty = 2, 3, 0.5
    record = task.describe()
    write_weights(path, task.kind, record, task.model.state_dict())
    read = CaptionTask.load(path)
    assert (read.beam, read.max_length, read.length_penalty) == (2, 3, 0.5)
    make_task().on_load_checkpoint({"caption": record})  # goes on from it with another beam
    del record["writing"]
    write_weights(path, task.kind, record, task.model.state_dict())
    assert CaptionTask.load(path).beam == 5  # as files say that were written before
    for wrong in ({"beam": 10**9}, {"beam": "five"}, {"max_length": 0}, {"length_penalty": -1}, {"width": 1}, [1]):
        write_weights(path, task.kind, {**record, "writing": wrong}, task.model.state_dict())
        with pytest.raises(DataError):
            CaptionTask.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"layers": 10**9},
        {"grid": [10**6, 4]},
        {"attention": {"kind": "sharpmax"}},
        {"hidden_dim": 10**9},
        {"words": 7, "unknown": 1},
        {"attention": {"kind": "multimodal", "max_components": 10**8}},
    ],
)
def test_file_with_another_record_is_refused(tmp_path, change):
    task, path = make_task(), tmp_path / "model.safetensors"
    record = task.describe()
    record["network"]["network"] |= change
    write_weights(path, task.kind, record, task.model.state_dict())
    with pytest.raises(DataError):
        CaptionTask.load(path)


def test_cnn_of_a_file_is_taken_over(tmp_path):
    cnn = GridCNN(8, (4, 4))
    save_grid_cnn(cnn, tmp_path / "cnn.safetensors")
    network = CaptionConfig.small(**SIZES)
    task = CaptionTask(CaptionVocabulary(["a"]), network, cnn=str(tmp_path / "cnn.safetensors"), freeze_cnn=True)
    assert torch.equal(task.model.encoder.cnn.project.weight, cnn.project.weight)
    assert not task.model.encoder.cnn.project.weight.requires_grad
    with pytest.raises(ValueError, match="pixels=True"):
        CaptionTask(CaptionVocabulary(["a"]), network.replace(pixels=False), freeze_cnn=True)


def test_captions_end_at_the_longest_length_and_have_a_map_for_each_word():
    task = make_task("continuous_sparsemax")
    with torch.no_grad():
        task.model.output.bias[3] = -1e4  # never an end
    (written,) = task.write({"image": torch.rand(1, 3, 32, 32)}, beam=3)
    assert len(written.tokens) == 5 and written.maps.shape == (5, 4, 4)
    with torch.no_grad():
        task.model.output.bias[3] = 1e4
    (written,) = task.write({"image": torch.rand(1, 3, 32, 32)})
    assert written.tokens == () and written.maps.shape == (0, 4, 4) and written.exact


def test_wrong_input_of_explain_is_refused():
    task = make_task(pixels=False)
    with pytest.raises(DataError, match="takes features"):
        explain(task, torch.zeros(3, 8, 8, dtype=torch.uint8))
    with pytest.raises(DataError, match=r"features must be \[h, w, 8\]"):
        explain(task, features=torch.zeros(2, 2, 5))
    assert explain(task, features=torch.zeros(2, 3, 8)).maps.shape[1:] == (2, 3)


def test_strip_is_drawn_with_captions_of_any_length():
    from matplotlib import pyplot as plt

    maps = torch.rand(3, 2, 2)
    words = ("ein", "grüner", "$x$")
    some = {"softmax": (words, maps), "none": ((), maps[:0])}
    from omegamax import viz

    figure = viz.strip(torch.rand(3, 20, 30), some, columns=3)
    titles = [ax.get_title("left") for ax in figure.axes if ax.get_title("left")]
    assert titles == ["softmax", "ein", "grüner", "$x$", "none"]
    plt.close(figure)
    with pytest.raises(ValueError, match=r"maps \[2, h, w\]"):
        viz.strip(torch.rand(3, 20, 30), {"a": (("a", "b"), maps)})
    with pytest.raises(ValueError, match="at least one name"):
        viz.strip(torch.rand(3, 20, 30), {})
    written = explain(make_task(), torch.zeros(3, 32, 32, dtype=torch.uint8))
    plt.close(draw(torch.rand(3, 20, 30), {"sparsemax": written}, zeros=None))
