"""The page in which somebody translates with a network, and the server on this machine that it asks."""

from __future__ import annotations

import json
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from omegamax.tasks.report.page import HERE, make_page, read_asset
from omegamax.tasks.translation.task import TranslationTask
from omegamax.tasks.translation.typing.next_words import find_next_words

_HERE = "omegamax.tasks.translation.typing"
_MOST_BYTES = 1 << 16  # of a question
_ABOUT = (
    "Write a sentence, then its translation: beneath it stand the words that the network can say next, and how "
    "probable each is."
)
_BODY = """<section aria-label="Translate">
<label for="source">Sentence</label>
<textarea id="source" rows="2" spellcheck="false"></textarea>
<label for="prefix">Its translation so far</label>
<textarea id="prefix" rows="2" spellcheck="false" role="combobox" aria-controls="words" aria-expanded="true"
 aria-autocomplete="list"></textarea>
<p class="muted">Arrow keys choose a word, Enter takes it; or type its first letters.</p>
<p id="said" role="status"></p>
<p id="wrong" role="alert"></p>
<ol id="words" role="listbox" aria-label="Words that can follow"></ol>
</section>
"""


def make_typing_page(task: TranslationTask, name: str, example: str = "") -> str:
    """Return the HTML of the page.

    Args:
        task: the network, for its label.
        name: of the run.
        example: a sentence to begin with.
    """
    return make_page(
        "Predictive translation",
        _ABOUT,
        _BODY,
        {"source": example, "network": f"{name} ({task.label})", "sparse": task.model.output.sparse},
        [read_asset(HERE, "report.css"), read_asset(_HERE, "typing.css")],
        [read_asset(HERE, "common.js"), read_asset(_HERE, "typing.js")],
        "This page needs JavaScript.",
        served=True,
    )


class TypingServer(ThreadingHTTPServer):
    """A server for this machine alone: it gives the page, and answers what can follow.

    Args:
        task: in evaluation mode.
        name: of the run.
        port: 0: any that is free.
        example: a sentence to begin with.
        most: beginnings of words that are followed at a time, see :func:`find_next_words`.

    ``GET /`` is the page; ``POST /next`` with JSON of ``source`` and ``prefix`` is what
    :meth:`NextWords.to_dict` has. Whoever names another host than this machine is refused: a page of another site
    cannot ask.
    """

    daemon_threads = True

    def __init__(self, task: TranslationTask, name: str, port: int = 0, example: str = "", most: int = 200) -> None:
        super().__init__(("127.0.0.1", port), _TypingHandler)
        self.task, self.most = task, most
        self.page = make_typing_page(task, name, example).encode()
        self.one_at_a_time = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell what went wrong, unless it is that somebody closed the page."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """Return where the page is."""
        return f"http://127.0.0.1:{self.server_port}/"


class _TypingHandler(BaseHTTPRequestHandler):
    server: TypingServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        if not self._is_here():
            self._send(HTTPStatus.FORBIDDEN, {"error": "this page is for this machine alone"})
        elif self.path == "/":
            self._send(HTTPStatus.OK, self.server.page)
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "there is one page alone, /"})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MOST_BYTES:
            self.close_connection = True  # what follows is not read
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"a question has at most {_MOST_BYTES:,} bytes"})
            return
        given = self.rfile.read(int(length))
        if not self._is_here() or self.headers.get_content_type() != "application/json":
            self._send(HTTPStatus.FORBIDDEN, {"error": "this page is for this machine alone"})
        elif self.path != "/next":
            self._send(HTTPStatus.NOT_FOUND, {"error": "questions go to /next"})
        else:
            self._send(*self._answer(given))

    def _answer(self, given: bytes) -> tuple[HTTPStatus, dict[str, Any]]:
        try:
            asked = json.loads(given)
            source, prefix = asked["source"], asked["prefix"]
            if not isinstance(source, str) or not isinstance(prefix, str):
                raise TypeError("source and prefix must be texts")
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            return HTTPStatus.BAD_REQUEST, {"error": f"a question is JSON with source and prefix ({error})"}
        if not source.strip():
            return HTTPStatus.OK, {"empty": True}
        try:
            with self.server.one_at_a_time:
                return HTTPStatus.OK, find_next_words(self.server.task, source, prefix, self.server.most).to_dict()
        except ValueError as error:
            return HTTPStatus.BAD_REQUEST, {"error": str(error).removeprefix("find_next_words: ")}

    def _is_here(self) -> bool:
        """Tell whether the question was put to this machine by its name: another site's page has another."""
        port = self.server.server_port
        return self.headers.get("Host") in (f"127.0.0.1:{port}", f"localhost:{port}")

    def _send(self, status: HTTPStatus, content: bytes | dict[str, Any]) -> None:
        page = isinstance(content, bytes)
        sent = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{'text/html' if page else 'application/json'}; charset=utf-8")
        self.send_header("Content-Length", str(len(sent)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: each letter that is typed would be a line."""
