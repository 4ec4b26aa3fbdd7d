"""``omegamax tour``: pictures, page and table."""

import re

import pytest
import torch

from omegamax.cli._plates import PLATES
from omegamax.cli._tour import tour
from omegamax.maps import records


@pytest.fixture(scope="module")
def trip():
    return tour(seed=0)


def test_tour_writes_its_pictures_and_one_page(folder):
    assert {file.name for file in folder.iterdir()} == {"index.html", *(plate.file for plate in PLATES)}
    assert all((folder / plate.file).read_bytes().startswith(b"\x89PNG") for plate in PLATES)


def test_page_shows_each_picture_and_links_to_files_that_exist(folder):
    page = (folder / "index.html").read_text(encoding="utf-8")
    sections = page.split("<section>")[2:]  # the first is the table
    assert len(sections) == len(PLATES)
    for section in sections:
        samples, panels = (part.count("data:image/png;base64,") for part in section.split('<div class="panels">'))
        assert samples >= 1 and panels >= len(records())
    links = [link for link in re.findall(r'(?:href|src)="([^"]+)"', page) if not link.startswith(("data:", "https:"))]
    assert links and all((folder / link).is_file() for link in links)


def test_page_has_the_key_of_each_picture(folder):
    page = (folder / "index.html").read_text(encoding="utf-8")
    keys = re.findall(r'<ul class="key"[^>]*>(.*?)</ul>', page)
    assert len(keys) == len(PLATES) and all("</li>" in key for key in keys)
    assert "exactly 0" in keys[0] and "edge of the cells above 0" in keys[-1]


def test_page_needs_nothing_from_the_network(folder):
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert not re.search(r'src="http|<script|<link|@import|url\(', page)


def test_page_names_every_map(folder):
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert all(f"{name}</td>" in page for name in records())


def test_tour_reports_progress_and_numbers(printed_and_folder):
    shown, _ = printed_and_folder
    steps = len(PLATES) + 2
    assert all(f"[{i}/{steps}]" in shown for i in range(1, steps + 1))
    assert all(f"\n{name} " in shown for name in records())


def test_tour_is_the_same_for_the_same_seed(trip):
    again, other = tour(seed=0), tour(seed=1)
    for one, two in zip(trip.stops, again.stops, strict=True):
        assert torch.equal(one.vector, two.vector) and torch.equal(one.grid, two.grid)
    assert not torch.equal(trip.image, other.image)


def test_every_registered_map_is_on_the_tour(trip):
    assert [stop.name for stop in trip.stops] == list(records())


def test_losses_are_zero_from_the_margin_on_and_positive_well_before(trip):
    for stop in trip.stops:
        assert (stop.loss >= 0).all()
        assert (stop.loss[trip.gaps < 0] > 0).all()
        # Rounding of the gaps' grid leaves the margin itself to chance.
        torch.testing.assert_close(stop.loss[trip.gaps > stop.margin + 1e-6].abs().sum().item(), 0.0)


def test_low_temperature_is_sharper_than_high(trip):
    for stop in trip.stops:
        assert (stop.path[0] > 0).sum() <= (stop.path[-1] > 0).sum()
        assert stop.path[0].amax() > stop.path[-1].amax()
