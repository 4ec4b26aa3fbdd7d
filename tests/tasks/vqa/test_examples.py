"""Examples for a report: which, and what they say."""

import pytest
import torch

from omegamax.data import DataError, Sample
from omegamax.data.collate import pool
from omegamax.data.pictures import decode
from omegamax.tasks.vqa.examples import choose, draw_examples, picture, save_pictures
from omegamax.tasks.vqa.explain import explain
from omegamax.tasks.vqa.photographs import blank
from tasks.vqa.networks import scenes, trained

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def data():
    return scenes(samples=(32, 12, 60), questions=("exists", "count_colour", "colour_of_both"))


@pytest.fixture(scope="module")
def tasks(data):
    return {kind: trained(kind, data, grid=data.grid) for kind in ("tvmax", "continuous_sparsemax", "multimodal")}


@pytest.fixture(scope="module")
def drawn(tasks, data):
    return draw_examples(tasks, data, "test", 8)


def test_first_of_each_kind_and_region_in_turn(data):
    samples = data.read("test")
    chosen = choose(samples, 60)
    assert sorted(chosen) == list(range(60))
    groups = [(samples.ask(i).region, samples.ask(i).kind) for i in chosen]
    count = len(set(groups))
    assert count > 4 and len(set(groups[:count])) == count
    for group in set(groups):  # as they come within a group
        own = [i for i, each in zip(chosen, groups, strict=True) if each == group]
        assert own == sorted(own)
    assert choose(samples, 5) == chosen[:5]
    assert choose([], 5) == []


def test_example_says_what_its_sample_says(drawn, data):
    samples = {sample.id: sample for sample in (data.read("test")[i] for i in range(60))}
    assert len(drawn) == 8 and len({example.id for example in drawn}) == 8
    for example in drawn:
        sample = samples[example.id]
        assert (example.question, example.answer) == (sample.question, sample.answer)
        assert (example.kind, example.region) == (sample.kind, sample.region)


def test_look_has_the_answers_the_numbers_and_the_verdict_of_its_network(drawn, tasks, data):
    example = drawn[0]
    sample = next(s for s in (data.read("test")[i] for i in range(60)) if s.id == example.id)
    wanted = pool(sample.relevance, (4, 4))
    for kind, task in tasks.items():
        said, look = explain(task, sample), example.looks[kind]
        assert look.answers == said.answers and look.components == said.components
        assert look.right == (said.answers[0][0] == sample.answer)
        if wanted.any():
            assert look.inside == pytest.approx(said.weights[wanted > 0].sum().item(), abs=1e-5)


def test_nothing_is_measured_where_nothing_matters_in_particular(drawn):
    known = {example.region is not None for example in drawn}
    assert known == {True, False}
    for example in drawn:
        for look in example.looks.values():
            assert (look.divergence is None) == (look.inside is None) == (example.region is None)


def test_pictures_are_whole_and_differ(drawn):
    example = next(each for each in drawn if each.region == "several")
    files = [example.picture, example.relevance, *(look.picture for look in example.looks.values())]
    shapes = {decode(file, "look").shape for file in files}
    assert len(set(files)) == len(files) == 5 and shapes == {torch.Size([3, 312, 312])}


def test_examples_know_the_marks_of_their_pictures_and_the_numbers_of_their_colours(drawn):
    for example in drawn:
        places = [place for place, _ in example.ticks]
        assert places[0] == 0 and places == sorted(places) and places[-1] <= 1 and example.ticks[0][1] == "0"
        for name, look in example.looks.items():
            shapes = [shape for shape, _ in look.marks]
            assert ("rings" in shapes or "mean" in shapes) == (name != "tvmax")
            assert "edge" not in shapes or name == "continuous_sparsemax"
            assert "cells" not in shapes or (name == "tvmax" and "hatch" in shapes)


def test_picture_keeps_the_form_of_the_image():
    image = torch.randint(0, 256, (3, 20, 40), dtype=torch.uint8)
    pixels = decode(picture(image), "plain")
    assert pixels.shape == (3, 156, 312)
    # The middle of each pixel has its colour.
    rows, columns = (((torch.arange(n) + 0.5) * 7.8).long() for n in (20, 40))
    assert torch.equal(pixels[:, rows][..., columns], image)


def test_broken_samples_are_passed_over_where_the_data_pass_over_them(tasks, data, monkeypatch):
    whole = data.read("test")

    class Broken(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            if index == 1:
                raise DataError("1.png is damaged; get it again")
            return whole[index]

    one = {"tvmax": tasks["tvmax"]}
    monkeypatch.setattr(data, "read", lambda split: Broken())
    with pytest.raises(DataError, match=r"1\.png is damaged"):
        draw_examples(one, data, "test", 6)
    monkeypatch.setattr(data, "skip_broken", 3)
    with pytest.warns(UserWarning, match="passed over"):
        drawn = draw_examples(one, data, "test", 6)
    assert sorted(each.id for each in drawn) == sorted(whole[i].id for i in (0, 2, 3, 4, 5))


def test_features_without_a_picture_are_drawn_on_grey(data):
    sample = Sample("is it red?", {}, "other", "x", features=torch.randn(3, 5, 8))
    assert blank(sample).shape == (3, 48, 80)
    weights = torch.rand(1, 3, 5)
    assert decode(picture(blank(sample), weights / weights.sum()), "look").shape == (3, 187, 312)


def test_pictures_are_saved_as_they_are(data, tmp_path):
    asked = save_pictures(data.read("test"), tmp_path / "new", 3)
    assert len(asked) == 3
    for index, (name, question) in enumerate(asked.items()):
        sample = data.read("test")[index]
        assert question == sample.question
        pixels = decode((tmp_path / "new" / name).read_bytes(), name)
        assert torch.equal(pixels, sample.image)
