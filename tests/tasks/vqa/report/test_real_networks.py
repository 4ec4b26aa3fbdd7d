"""The report of networks with all kinds of attention, as ``omegamax vqa compare`` writes it, in a browser."""

import base64
from functools import partial

import pytest
from browser import read_report
from selenium.webdriver.common.by import By

from omegamax.tasks.vqa.compare import Contender, compare
from omegamax.tasks.vqa.report import write_report
from tasks.vqa.networks import CURVE, KINDS, scenes, trained


@pytest.fixture(scope="module")
def comparison():
    data = scenes()
    tasks = [trained(kind, data, grid=data.grid) for kind in KINDS]
    blind = trained("softmax", data, grid=data.grid, blind=True)
    contenders = {task.label: Contender(task, CURVE) for task in tasks}
    return compare(contenders, data, baseline=Contender(blind), examples=3, themed=0, rounds=1)


@pytest.fixture(scope="module")
def opened(comparison, tmp_path_factory):
    yield from read_report(tmp_path_factory, partial(write_report, comparison))


@pytest.fixture
def page(opened):
    yield from opened.fresh()


def read(panel, selector):
    return panel.find_element(By.CSS_SELECTOR, selector).text


def test_explorer_shows_every_kind_at_every_example(page, comparison):
    for place, example in enumerate(comparison.examples):
        page.pick(place)
        assert page.one("#question").text == example.question and page.one("#answer").text == example.answer
        panels = page.panels()
        assert list(panels) == [kind.replace("_", " ") for kind in KINDS]
        for name, panel in panels.items():
            look = example.looks[name]
            answer, p = look.answers[0]
            assert read(panel, ".verdict").split()[0] == answer
            assert read(panel, ".verdict").split()[-1] == ("right" if look.right else "wrong")
            assert read(panel, ".answers li").split() == [answer, f"{100 * p:.1f}%"]
            source = panel.find_element(By.TAG_NAME, "img").get_attribute("src")
            assert source == "data:image/png;base64," + base64.b64encode(look.picture).decode()
            numbers = read(panel, ".numbers").split()
            assert numbers[:2] == ["JSD", f"{look.divergence:.3f}"]
            assert (numbers[-2:] == ["K*", str(look.components)]) == (name == "multimodal")
    page.check_pictures()


def test_kinds_switch_off_and_on(page):
    page.model(1).click()
    page.model(3).click()
    assert list(page.panels()) == ["softmax", "continuous softmax", "multimodal"]
    page.model(1).click()
    assert list(page.panels()) == ["softmax", "tvmax", "continuous softmax", "multimodal"]


def test_table_curves_and_components_are_there(page, comparison):
    assert page.texts("tbody th") == [*(row.name for row in comparison.rows), "language only"]
    assert len(page.all("#chart polyline")) == 5
    assert page.one("#chart .blind text").text.startswith("language only")
    mean = sum(k * n for k, n in comparison.rows[-1].components.items()) / 20
    assert f"mean {mean:.2f}" in page.one("section[aria-labelledby=components]").text
