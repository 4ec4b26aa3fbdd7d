"""The page in which somebody types: in a browser without a screen, and its server asked by others."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
import torch

pytest.importorskip("tokenizers")

from omegamax.tasks.translation.typing import TypingServer, find_next_words
from tasks.translation.typing.test_next_words import make_task

SOURCE = "der hund"


@pytest.fixture(scope="module")
def server() -> Iterator[TypingServer]:
    task = make_task("sparsemax", "words", sharp=0.3)
    with torch.no_grad():
        task.model.output.bias[4:60] += torch.linspace(0, 2, 56)  # some words more than others
    with TypingServer(task, "<b>mine</b>", example=SOURCE) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server, body: bytes, path: str = "/next", **headers: str):
    sent = {"Content-Type": "application/json", "Host": urlsplit(server.address).netloc, **headers}
    with closing(HTTPConnection("127.0.0.1", server.server_port, timeout=20)) as connection:
        connection.request("POST", path, body, sent)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_answers_are_those_of_the_network(server):
    status, found = ask(server, json.dumps({"source": SOURCE, "prefix": ""}).encode())
    assert status == 200 and found == json.loads(json.dumps(find_next_words(server.task, SOURCE).to_dict()))
    assert ask(server, json.dumps({"source": " ", "prefix": ""}).encode()) == (200, {"empty": True})


@pytest.mark.parametrize(
    "body", [b"", b"\xff\x00", b"[]", b"{}", b'{"source": 1, "prefix": ""}', b"[" * 60_000, b"null", b'"a"']
)
def test_other_questions_are_refused(server, body):
    status, found = ask(server, body)
    assert status == 400 and "a question is JSON" in found["error"]


def test_long_texts_are_refused_and_the_server_lives(server):
    status, found = ask(server, json.dumps({"source": "wort " * 1000, "prefix": ""}).encode())
    assert status == 400 and "at most 256 subwords" in found["error"]
    assert ask(server, b" " * (1 << 17))[0] == 413
    assert ask(server, b"{}", "/other")[0] == 404


def test_only_this_machine_may_ask(server):
    body = json.dumps({"source": SOURCE, "prefix": ""}).encode()
    assert server.server_address[0] == "127.0.0.1"
    assert ask(server, body, Host="evil.example")[0] == 403
    assert ask(server, body, **{"Content-Type": "text/plain"})[0] == 403  # what a form of another site can send
    with closing(HTTPConnection("127.0.0.1", server.server_port, timeout=20)) as connection:
        connection.request("GET", "/", headers={"Host": "evil.example"})
        answer = connection.getresponse()
        assert answer.status == 403 and answer.read()


@pytest.fixture(scope="module")
def page(server, tmp_path_factory):
    from browser import Page, browser

    folder = tmp_path_factory.mktemp("typing")
    with browser(folder) as driver:
        yield Page(driver, server.address, folder / "saved")


def shown(page) -> list[str]:
    """Return the words listed, once the answer is there."""
    from browser import wait_until

    wait_until(lambda: page.one("#words").get_attribute("aria-busy") is None)
    return [each.text for each in page.all("#words .word")]


def prefix_of(page) -> str:
    return page.driver.execute_script("return document.getElementById('prefix').value")


def test_words_are_seen_and_taken_by_key(page, server):
    from selenium.webdriver.common.keys import Keys

    page.open()
    found = find_next_words(server.task, SOURCE)
    assert shown(page)[: len(found.words)] and set(shown(page)) - {"the end"} == {each.word for each in found.words}
    assert "can follow, and no other" in page.one("#said").text
    assert page.driver.switch_to.active_element.get_attribute("id") == "prefix"
    words = shown(page)
    page.press(Keys.ARROW_DOWN)
    assert page.one("#words [aria-selected=true] .word").text == words[1]
    page.press(Keys.ARROW_UP)
    page.press(Keys.ENTER)
    assert prefix_of(page) == f"{words[0]} "
    after = find_next_words(server.task, SOURCE, f"{words[0]} ")
    assert set(shown(page)) - {"the end"} == {each.word for each in after.words}
    one = after.words[-1].word
    page.one("#prefix").send_keys(one[0])
    wanted = {each.word for each in after.words if each.word.startswith(one[0])}
    assert set(shown(page)) == wanted and "begin" in page.one("#said").text
    page.one("#prefix").send_keys("zzz ")
    assert shown(page) is not None and "would never say" in page.one("#wrong").text
    # Nothing but the server was asked, and nothing was complained of.
    assert page.driver.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")]
    asked = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    assert {address for address in asked if not address.startswith(("about:", "data:", "chrome:"))} <= {
        server.address,
        f"{server.address}next",
    }
    assert page.driver.execute_script("return document.querySelector('.lead b')") is None


def test_refusals_and_silence_are_told(page, server):
    page.open()
    shown(page)
    fill = "at('source').value = arguments[0]; at('source').dispatchEvent(new Event('input'))"
    page.driver.execute_script(fill, "wort " * 300)
    shown(page)
    assert "at most 256 subwords" in page.one("#wrong").text and page.all("#words li") == []
    page.driver.execute_script(fill, "日本 \u202e語 <b>\0")
    assert shown(page) and page.one("#wrong").text == ""
    page.driver.execute_script("fetch = () => Promise.reject(new TypeError())")  # as where nobody listens
    page.driver.execute_script(fill, SOURCE)
    assert shown(page) == [] and "does not answer" in page.one("#wrong").text
