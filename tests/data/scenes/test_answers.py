"""Answers, worked out again from the words of the question and the list of things, and from the picture."""

import re

import numpy as np
import pytest
from scipy import ndimage, spatial

from omegamax.data.scenes import COLOURS, QUESTIONS, SHAPES, Scene, Scenes, Thing

SINGULAR = {**{s: s for s in SHAPES}, **{f"{s}s": s for s in SHAPES}, "crosses": "cross"}
CLEAR = 0.12


def beside(first, second, side):
    """Whether it is there, and whether one can see that it is or is not."""
    shift = {
        "left of": second.x - first.x,
        "right of": first.x - second.x,
        "above": second.y - first.y,
        "below": first.y - second.y,
    }[side]
    return shift > 0, abs(shift) >= CLEAR


def solved(question, things):
    """The answer and the things that it takes to see it; asserts that the question has but one answer."""

    def the(shape=None, colour=None):
        found = those(shape, colour)
        assert len(found) == 1, f"{question}: {found}"
        return found[0]

    def those(shape=None, colour=None):
        return [t for t in things if shape in (None, t.shape) and colour in (None, t.colour)]

    def yes(value):
        return "yes" if value else "no"

    side = "(above|below|left of|right of)"
    if m := re.fullmatch(r"is there an? (\w+) (\w+)\?", question):
        found = those(m[2], m[1])
        return yes(found), found
    if m := re.fullmatch(rf"is the (\w+) (\w+) {side} the (\w+) (\w+)\?", question):
        a, b = the(m[2], m[1]), the(m[5], m[4])
        there, clear = beside(a, b, m[3])
        assert clear
        return yes(there), [a, b]
    if m := re.fullmatch(r"is the (\w+) (\w+)\?", question):
        return yes(the(m[1]).colour == m[2]), [the(m[1])]
    if m := re.fullmatch(r"are there more (\w+) than (\w+)\?", question):
        a, b = those(SINGULAR[m[1]]), those(SINGULAR[m[2]])
        return yes(len(a) > len(b)), a + b
    if m := re.fullmatch(r"do the (\w+) and the (\w+) have the same colour\?", question):
        a, b = the(m[1]), the(m[2])
        return yes(a.colour == b.colour), [a, b]
    if m := re.fullmatch(r"how many (\w+) objects are there\?", question):
        return str(len(those(None, m[1]))), those(None, m[1])
    if m := re.fullmatch(r"how many (\w+) are there\?", question):
        return str(len(those(SINGULAR[m[1]]))), those(SINGULAR[m[1]])
    if m := re.fullmatch(r"how many (\w+) (\w+) are there\?", question):
        return str(len(those(SINGULAR[m[2]], m[1]))), those(SINGULAR[m[2]], m[1])
    if m := re.fullmatch(r"what colour is the (\w+)\?", question):
        return the(m[1]).colour, [the(m[1])]
    if m := re.fullmatch(r"what shape is the (\w+) object\?", question):
        return the(None, m[1]).shape, [the(None, m[1])]
    if m := re.fullmatch(rf"what shape is {side} the (\w+) (\w+)\?", question):
        known = the(m[3], m[2])
        seen = [(t, *beside(t, known, m[1])) for t in things if t is not known]
        assert all(clear for *_, clear in seen)
        (asked,) = [t for t, there, _ in seen if there]
        return asked.shape, [known, asked]
    if m := re.fullmatch(r"what colour are both (\w+)\?", question):
        a, b = those(SINGULAR[m[1]])
        assert a.colour == b.colour
        return a.colour, [a, b]
    if m := re.fullmatch(r"what shape has the same colour as the (\w+)\?", question):
        known = the(m[1])
        (asked,) = [t for t in those(None, known.colour) if t is not known]
        return asked.shape, [known, asked]
    raise AssertionError(f"no one asked: {question}")


@pytest.mark.parametrize("template", QUESTIONS)
def test_answer_follows_from_the_things(template):
    scenes = Scenes(250, seed=11, image_size=32, questions=[template])
    for index in range(len(scenes)):
        asked = scenes.ask(index)
        answer, relevant = solved(asked.question, asked.scene.things)
        assert asked.answer == answer, asked.question
        assert {id(asked.scene.things[i]) for i in asked.relevant} == set(map(id, relevant)), asked.question
        assert asked.kind == QUESTIONS[template][0] and asked.template == template


def test_answers_hold_with_few_shapes_colours_and_objects():
    few = {"shapes": SHAPES[-3:], "colours": ["red", "blue", "green"], "objects": (1, 9)}
    scenes = Scenes(600, image_size=32, questions=tuple(QUESTIONS), **few)
    for index in range(len(scenes)):
        asked = scenes.ask(index)
        assert asked.answer == solved(asked.question, asked.scene.things)[0]
        assert len(asked.scene.things) <= 9


def test_things_do_not_touch_and_lie_inside():
    scenes = Scenes(500, image_size=32)
    for index in range(len(scenes)):
        things = scenes.ask(index).scene.things
        for i, a in enumerate(things):
            assert a.radius > 0.05 and all(a.radius < p < 1 - a.radius for p in (a.y, a.x))
            assert all(np.hypot(a.y - b.y, a.x - b.x) > a.radius + b.radius + 0.01 for b in things[:i])


def test_pairs_that_are_to_be_far_apart_are():
    scenes = Scenes(200, image_size=32, questions=["beside", "same_colour", "colour_of_both", "shape_of_same_colour"])
    for index in range(len(scenes)):
        first, second = scenes.ask(index).scene.things[:2]
        assert np.hypot(first.y - second.y, first.x - second.x) > 0.4


def hues(picture):
    """Hue in degrees and saturation of every pixel."""
    rgb = picture.astype(float) / 255
    spread = rgb.max(-1) - rgb.min(-1)
    r, g, b = np.moveaxis(rgb, -1, 0)
    angle = np.degrees(np.arctan2(np.sqrt(3) * (g - b), 2 * r - g - b)) % 360
    return angle, spread / np.maximum(rgb.max(-1), 1e-9)


def seen_colours(picture):
    """Index of the nearest colour at each pixel, -1 on the ground."""
    palette = hues(np.array([list(COLOURS.values())], np.uint8))[0][0]
    angle, saturation = hues(picture)
    turn = np.abs((angle[..., None] - palette + 180) % 360 - 180)
    return np.where(saturation > 0.3, turn.argmin(-1), -1)


def test_the_picture_shows_what_the_list_says():
    scenes = Scenes(60, seed=5, image_size=160)
    for index in range(len(scenes)):
        scene = scenes.ask(index).scene
        colours = seen_colours(scene.draw()[0])
        for number, name in enumerate(COLOURS):
            spots, count = ndimage.label(colours == number, structure=np.ones((3, 3)))
            areas = ndimage.sum_labels(np.ones_like(spots), spots, range(1, count + 1))
            large = np.flatnonzero(np.asarray(areas) > 30) + 1
            listed = [t for t in scene.things if t.colour == name]
            assert len(large) == len(listed), (index, name)
            for y, x in (np.mean(np.nonzero(spots == spot), 1) / 160 for spot in large):
                assert sum(np.hypot(t.y - y, t.x - x) < t.radius for t in listed) == 1


def outline(*corners):
    """Whether points are inside a polygon: an odd number of its edges lie to the right of them."""

    def inside(u, v):
        odd = np.zeros(u.shape, bool)
        for (a, b), (c, d) in zip(corners, corners[1:] + corners[:1], strict=True):
            odd ^= ((b > v) != (d > v)) & (u < a + (c - a) * (v - b) / (d - b if d != b else 1))
        return odd

    return inside


def stroke(*points):
    """Whether points are within 0.18 of a line through many points."""
    tree = spatial.cKDTree(np.concatenate(points))
    return lambda u, v: tree.query(np.stack([u, v], -1), distance_upper_bound=0.3)[0] < 0.18


def arc(u, v, radius, start, end):
    turn = np.radians(np.linspace(start, end, 1000))
    return np.stack([u + radius * np.cos(turn), v + radius * np.sin(turn)], -1)


def upright(u, top, bottom):
    return np.stack(np.broadcast_arrays(u, np.linspace(top, bottom, 500)), -1)


def around(*radii):
    """Corners at these distances, the first at the top."""
    turns = 2 * np.pi * np.arange(len(radii)) / len(radii)
    return outline(*[(r * np.sin(t), -r * np.cos(t)) for r, t in zip(radii, turns, strict=True)])


def within(radius, u, v):
    return u**2 + v**2 < radius**2


# The shapes once more, in other words than those they are drawn by.
INSIDE = {
    "circle": lambda u, v: within(0.95, u, v),
    "square": outline((-0.7, -0.7), (0.7, -0.7), (0.7, 0.7), (-0.7, 0.7)),
    "triangle": around(1, 1, 1),
    "star": around(*[1, 0.45] * 5),
    "cross": outline(
        *[(-0.32, -0.92), (0.32, -0.92), (0.32, -0.32), (0.92, -0.32), (0.92, 0.32), (0.32, 0.32)],
        *[(0.32, 0.92), (-0.32, 0.92), (-0.32, 0.32), (-0.92, 0.32), (-0.92, -0.32), (-0.32, -0.32)],
    ),
    "ring": lambda u, v: within(0.96, u, v) & ~within(0.44, u, v),
    "crescent": lambda u, v: within(0.95, u, v) & ~within(0.78, u - 0.45, v),
    "bar": outline((-0.96, -0.17), (0.96, -0.17), (0.96, 0.17), (-0.96, 0.17)),
    "snake": stroke(
        arc(0.38, 0, 0.38, 0, 180), arc(-0.38, 0, 0.38, 180, 360), upright(0.76, -0.12, 0), upright(-0.76, 0, 0.12)
    ),
    "hook": stroke(arc(0, 0.2, 0.5, 0, 180), upright(0.5, -0.6, 0.2)),
}


def covered(thing, side, shift=0.0):
    """The points of a grid that are inside a thing, which may be shifted by a complex number of radii."""
    v, u = (np.indices((side, side)) + 0.5) / side - np.array([thing.y, thing.x])[:, None, None]
    place = (u + 1j * v) / thing.radius * np.exp(-1j * thing.angle) - shift
    mask = np.abs(place) < 1.1
    mask[mask] = INSIDE[thing.shape](place[mask].real, place[mask].imag)
    return mask


def test_relevance_is_the_pixels_of_the_things():
    side = 160
    scenes = Scenes(80, seed=6, image_size=side)
    for index in range(len(scenes)):
        asked, sample = scenes.ask(index), scenes[index]
        colours = seen_colours(sample.image.permute(1, 2, 0).numpy())
        wanted, unsure = np.zeros((2, side, side), bool)
        for thing in solved(asked.question, asked.scene.things)[1]:
            inside = covered(thing, side)
            edge = sum(covered(thing, side, shift) != inside for shift in (1e-5, -1e-5, 1e-5j, -1e-5j)) > 0
            assert inside.sum() > 20 and edge.sum() <= 4  # pixels whose middle is on the edge, but for rounding
            assert (colours[ndimage.binary_erosion(inside)] == list(COLOURS).index(thing.colour)).all()
            wanted, unsure = wanted | inside, unsure | edge
        assert np.array_equal(sample.relevance.numpy()[~unsure], wanted[~unsure])
        assert set(np.unique(sample.relevance)) <= {0, 1}


@pytest.mark.parametrize("shape", SHAPES)
def test_paint_fills_a_thing_and_ends_at_its_edge(shape):
    side, fine = 96, 4
    for angle in np.linspace(0, 6, 4):
        thing = Thing(shape, "red", 0.5, 0.47, 0.15 + angle / 60, angle)
        picture, (mask,) = Scene((thing,), np.full((side, side, 3), 0.5, np.float32)).draw()
        painted = hues(picture)[1] > 0.02  # the ground, and the shadow on it, is grey
        inside = covered(thing, side * fine)
        share = inside.reshape(side, fine, side, fine).mean((1, 3))
        assert painted[mask].all() and painted[share > 0.5].all()
        # Across an edge paint ends half a pixel outside. Beyond a tip it goes on while the edges that meet there are
        # that near; the sharpest, of the crescent, has them at 28 degrees.
        gap = ndimage.distance_transform_edt(~inside)[fine // 2 :: fine, fine // 2 :: fine] / fine
        assert gap[painted].max() < 0.5 / np.sin(np.radians(14)) + 1 / fine


def test_answers_hold_among_many_small_things():
    asked_for = tuple(name for name in QUESTIONS if name != "shape_beside")  # whose others need half of the picture
    scenes = Scenes(400, image_size=32, objects=(16, 24), scale=0.4, questions=asked_for)
    for index in range(len(scenes)):
        asked = scenes.ask(index)
        things = asked.scene.things
        assert asked.answer == solved(asked.question, things)[0] and len(things) >= 16
        assert max(thing.radius for thing in things) <= 0.4 * 0.17
