"""A survey: orders that depend on the seed alone, names that are hidden, maps whose zeros are exact."""

import base64
import json
import re

import pytest
import torch

from omegamax.tasks.rating import RatedLook, RatedPicture, Survey, find_content_words
from omegamax.tasks.rating.page import page
from omegamax.tasks.rating.survey import Key
from omegamax.tasks.report.maps import encode_map, jpeg_address, list_shades
from tasks.rating.cases import NASTY, NETWORKS, make_maps, make_survey


def test_orders_are_a_function_of_the_seed_and_differ_between_pictures():
    first, again, other = make_survey(40), make_survey(40), make_survey(40, seed=1)
    assert [p.id for p in first.pictures] == [p.id for p in again.pictures] != [p.id for p in other.pictures]
    assert first.order == again.order != other.order
    assert len(set(first.order)) == 6  # every order of three networks occurs
    assert first.key.seal() == again.key.seal() != other.key.seal()
    # Each network is shown first about as often as the others.
    ahead = [sum(order[0] == index for order in first.order) for index in range(3)]
    assert min(ahead) >= 7


def test_page_does_not_show_the_names_of_networks_or_pictures():
    survey = make_survey()
    html = page(survey)
    assert not any(name in html for name in ("softmax", "tvmax", "<b>max", "0.jpg"))
    assert NASTY not in html  # a word cannot end the script that holds it
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
    assert Key.unseal(data["sealed"]) == survey.key
    shown = [look["words"] for look in data["pictures"][0]["looks"]]
    names = [survey.networks[index] for index in survey.order[0]]
    assert shown == [list(survey.pictures[0].looks[name].words) for name in names]
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", html.partition("<body>")[2])


def test_key_can_be_read_back_and_damage_is_named():
    key = make_survey().key
    assert Key.unseal(key.seal()) == key
    for text in ("", "no base64!", base64.b64encode(b"no zlib").decode(), key.seal()[:-40]):
        with pytest.raises(ValueError, match="its key cannot be read"):
            Key.unseal(text)
    wrong = Key(key.kind, key.networks, key.pictures, ((0, 0, 1), *key.order[1:]), key.rated, key.content)
    with pytest.raises(ValueError, match="does not fit together"):
        Key.unseal(wrong.seal())


def test_levels_of_a_map_are_zero_where_it_is_exactly_zero():
    maps = torch.tensor([[0.0, 1e-30, 0.25], [1.0, 0.0, 0.5]])
    levels = list(base64.b64decode(encode_map(maps)))
    assert levels == [0, 1, 128, 255, 0, 180]
    assert list(base64.b64decode(encode_map(maps, vmax=4.0))) == [0, 1, 64, 128, 0, 90]
    assert list(base64.b64decode(encode_map(torch.zeros(2, 2)))) == [0] * 4
    shades = list_shades()
    opaque = [alpha for *_, alpha in shades]
    assert len(shades) == 256 and opaque[0] == 0 and opaque == sorted(opaque)


def test_photographs_are_small_files_of_bytes_or_colours():
    image = torch.zeros(3, 600, 900, dtype=torch.uint8)
    image[0] = 255
    found = [jpeg_address(each, 300) for each in (image, image / 255)]
    assert found[0] == found[1] and found[0].startswith("data:image/jpeg;base64,") and len(found[0]) < 10000


def test_stop_words_are_not_rated():
    assert find_content_words("The dog 's on it , near <unk> two-wheeled Bikes".split()) == [1, 8, 9]
    assert find_content_words([]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda look: Survey([]), "there must be a picture at least"),
        (lambda look: Survey([_picture("a", look)], kind="poems"), "kind must be one of 'captions', 'answers'"),
        (lambda look: Survey([_picture("a", look), _picture("a", look)]), "a name of its own"),
        (
            lambda look: Survey([_picture("a", look), RatedPicture("b", torch.zeros(3, 2, 2), {"other": look})]),
            "picture 'b' must have looks of one, got other",
        ),
        (lambda look: RatedLook(("a",), (0,), torch.zeros(2, 3, 3)), r"maps must be \[1, h, w\]"),
        (lambda look: RatedLook(("a",), (0,), torch.full((1, 3, 3), torch.nan)), "maps must be >= 0"),
    ],
)
def test_what_is_no_survey_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        change(RatedLook(("a",), (0,), make_maps(1)))


def _picture(name, look):
    return RatedPicture(name, torch.zeros(3, 2, 2), {"one": look})


def test_order_of_networks_in_the_table_is_as_given():
    assert make_survey().key.networks == NETWORKS
