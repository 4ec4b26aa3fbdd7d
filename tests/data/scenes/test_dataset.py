"""The embedded set as a dataset: repeatable, balanced, the same in every process."""

from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch.utils.data import DataLoader

from omegamax.data import Collate
from omegamax.data.scenes import BASIC_QUESTIONS, COLOURS, QUESTIONS, SHAPES, Scenes
from omegamax.data.scenes.ground import PATTERNS, ground
from omegamax.data.scenes.shapes import distance


def same(a, b):
    fields = ("question", "answers", "kind", "region", "id")
    equal = all(getattr(a, f) == getattr(b, f) for f in fields)
    return equal and torch.equal(a.image, b.image) and torch.equal(a.relevance, b.relevance)


def facts(scenes, count=100):
    return [(a.question, a.answer, a.scene.things) for a in map(scenes.ask, range(count))]


@pytest.fixture(scope="module")
def many():
    scenes = Scenes(4000, seed=1, image_size=32)
    return [scenes.ask(i) for i in range(len(scenes))]


def test_sample_is_a_function_of_seed_split_and_index():
    scenes, again = Scenes(50, seed=3, image_size=48), Scenes(90, seed=3, image_size=48)
    forwards = [scenes[i] for i in range(50)]
    assert all(same(forwards[i], again[i]) for i in reversed(range(50)))
    assert same(scenes[-1], forwards[49])


def test_global_random_state_is_neither_used_nor_touched():
    scenes = Scenes(5, image_size=48)
    torch.manual_seed(1)
    np.random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    first = scenes[2]
    assert torch.equal(before[0], torch.get_rng_state()) and before[1] == np.random.get_state()[1].tolist()
    torch.manual_seed(2)
    np.random.seed(2)
    assert same(first, scenes[2])


def test_seeds_and_splits_share_nothing():
    streams = [facts(Scenes(100, s, split, image_size=32)) for s in (0, 1) for split in ("train", "val", "test")]
    things = [{fact[2] for fact in stream} for stream in streams]
    assert len(set.union(*things)) == 600


def test_size_of_the_picture_changes_nothing_else():
    assert facts(Scenes(100, image_size=32)) == facts(Scenes(100, image_size=224))
    small, large = (Scenes(20, image_size=side) for side in (64, 192))
    for i in range(20):
        a, b = small[i].relevance, large[i].relevance
        assert a.shape == (64, 64) and b.shape == (192, 192)
        assert a.mean().item() == pytest.approx(b.mean().item(), rel=0.1, abs=1e-3)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes:UserWarning")
def test_worker_processes_give_the_same_samples():
    scenes = Scenes(40, seed=2, image_size=48)
    collate = Collate(scenes.vocabulary, grid=(6, 6))
    here, there = (list(DataLoader(scenes, 8, num_workers=n, collate_fn=collate)) for n in (0, 2))
    assert len(here) == len(there) == 5
    for a, b in zip(here, there, strict=True):
        assert a["id"] == b["id"] and a["region"] == b["region"]
        for name in ("question", "image", "answers", "kind", "relevance"):
            assert torch.equal(a[name], b[name])


def test_batches_hold_what_the_samples_say():
    scenes = Scenes(64, image_size=48)
    batch = Collate(scenes.vocabulary, grid=(7, 7))([scenes[i] for i in range(64)])
    assert (batch["answers"].sum(-1) == 1).all() and (batch["question"] != 1).all()
    assert batch["image"].shape == (64, 3, 48, 48)
    total = batch["relevance"].sum((1, 2))
    for row in range(64):
        assert total[row].item() == pytest.approx(float(scenes[row].region is not None), abs=1e-6)


def test_answers_of_every_question_are_even(many):
    count = defaultdict(Counter)
    for asked in many:
        count[asked.template][asked.answer] += 1
    assert set(count) == set(BASIC_QUESTIONS)
    for template, answers in count.items():
        others = 8 if template.startswith("colour") else 10
        possible = {"yes/no": 2, "number": 5, "other": others}[QUESTIONS[template][0]]
        assert len(answers) == possible
        total = sum(answers.values())
        assert abs(total - len(many) / 12) < 5 * (len(many) / 12) ** 0.5
        statistic = sum((n - total / possible) ** 2 for n in answers.values()) * possible / total
        assert statistic < chi2.isf(1e-3, possible - 1), (template, answers)


def test_words_of_the_question_do_not_tell_the_answer(many):
    guess = defaultdict(Counter)
    for asked in many[:3000]:
        guess[asked.question][asked.answer] += 1
        guess[asked.template][asked.answer] += 1
    right = defaultdict(list)
    for asked in many[3000:]:
        seen = guess[asked.question] or guess[asked.template]
        right[asked.kind].append(seen.most_common(1)[0][0] == asked.answer)
    accuracy = {kind: np.mean(hits) for kind, hits in right.items()}
    assert accuracy["yes/no"] < 0.56 and accuracy["number"] < 0.3 and accuracy["other"] < 0.18


def test_number_of_things_does_not_tell_the_answer(many):
    for answer in ("yes", "no"):
        counts = [len(a.scene.things) for a in many if a.answer == answer]
        assert np.mean(counts) == pytest.approx(5.5, abs=0.15)


def test_regions_of_all_sorts_occur(many):
    count = Counter(asked.region for asked in many)
    assert set(count) == {"one", "several", "odd", None}
    assert min(count.values()) > 0.05 * len(many) and count["several"] > 0.4 * len(many)
    assert {a.answer for a in many if a.region is None} == {"no", "0"}


def test_vocabulary_is_what_occurs(many):
    vocabulary = Scenes(1).vocabulary
    assert set(" ".join(a.question for a in many).replace("?", "").split()) == set(vocabulary.words)
    assert {a.answer for a in many} == set(vocabulary.answers)
    assert Scenes(9, seed=4, split="test", image_size=64).vocabulary == vocabulary


def test_only_what_was_asked_for_occurs():
    shapes, colours = ("ring", "bar", "star"), ("pink", "green", "cyan")
    asked = ["exists", "shape_of"]
    scenes = Scenes(100, image_size=32, shapes=shapes, colours=colours, objects=(2, 3), questions=asked)
    for index in range(100):
        here = scenes.ask(index)
        assert here.template in asked
        assert 2 <= len(here.scene.things) <= 3
        assert all(t.shape in shapes and t.colour in colours for t in here.scene.things)
    assert scenes.vocabulary.num_answers == 2 + 5 + 3 + 3


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_fills_its_disc_and_no_more(shape):
    v, u = np.meshgrid(*[np.linspace(-1.5, 1.5, 301, dtype=np.float32)] * 2, indexing="ij")
    gap = distance(shape, u, v)
    inside = gap < 0
    assert gap.dtype == np.float32
    assert np.hypot(u, v)[inside].max() == pytest.approx(0.95, abs=0.06)
    # A distance: nowhere does it change faster than one goes, by more than rounding.
    assert all(np.abs(np.diff(gap, axis=axis)).max() < 0.01 + 1e-5 for axis in (0, 1))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("side", [32, 65])
def test_patterns_mix_from_nought_to_one(pattern, side):
    field = PATTERNS[pattern](np.random.default_rng(0), side)
    assert field.shape == (side, side) and field.dtype == np.float32
    assert 0 <= field.min() < 0.3 and 0.7 < field.max() <= 1


def test_ground_is_grey_beside_the_colours():
    for seed in range(50):
        texture = ground(np.random.default_rng(seed), 48)
        saturation = (texture.max(-1) - texture.min(-1)) / texture.max(-1)
        assert saturation.max() < 0.25
    for rgb in COLOURS.values():
        assert 1 - min(rgb) / max(rgb) > 0.45


@pytest.mark.parametrize(
    "change, words",
    [
        ({"size": 0}, "size must be an integer from 1"),
        ({"seed": -1}, "seed must be an integer from 0"),
        ({"seed": 0.5}, "seed must be an integer from 0"),
        ({"image_size": 16}, "image_size must be an integer from 32"),
        ({"split": "dev"}, "split must be one of 'train', 'val', 'test', got 'dev'"),
        ({"objects": (5, 3)}, r"objects must be two integers, 1 <= fewest <= most <= 24, got \(5, 3\)"),
        ({"objects": (3, 40)}, "objects must be two integers"),
        ({"scale": 0.0}, "scale must"),
        ({"scale": 1.5}, "scale must"),
        ({"objects": (3, 4.5)}, "objects must be two integers"),
        ({"shapes": ["star", "blob", "ring"]}, "each of shapes must be one of 'circle', .*, got 'blob'"),
        ({"colours": ["red", "blue"]}, "colours must be at least 3 different names"),
        ({"colours": ["red", "blue", "red"]}, "colours must be at least 3 different names"),
        ({"questions": []}, "questions must be at least 1 different names"),
    ],
)
def test_errors_name_the_argument(change, words):
    with pytest.raises(ValueError, match=f"Scenes: {words}"):
        Scenes(**{"size": 10} | change)


def test_index_out_of_range():
    scenes = Scenes(3, image_size=32)
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"index {index} is out of range for 3 samples"):
            scenes[index]
    assert len(list(scenes)) == 3
    assert same(scenes[torch.tensor(1)], scenes[1]) and same(scenes[np.int64(1)], scenes[1])
    with pytest.raises(TypeError):
        scenes[0.5]
