"""The page of a survey: one file that people fill in without a server, and that saves their answers as another."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from omegamax.tasks.rating.survey import Survey, name_survey
from omegamax.tasks.report.maps import jpeg_address
from omegamax.tasks.report.page import HERE, make_page, read_asset
from omegamax.tasks.whole import whole_file

_HERE = "omegamax.tasks.rating"
ANSWERS_FORMAT = "omegamax ratings 1"
_PIXELS = 512  # of a photograph, along its longer side
# One hue that photographs seldom have, the more opaque the more attention: the photograph is not made pale beneath it,
# so that where there is none nothing is drawn, and several hues would be taken for several things.
_HUE, _OPAQUE = (75, 31, 209), 0.8
# What is asked, and what the ends of the scale mean; for a caption and for an answer.
_ASKED = {
    "captions": {
        "title": "Rating captions",
        "about": "What computers write about photographs, and where they look for each word: please rate both.",
        "text": "Caption",
        "first": ["How well does the caption describe the photograph?", "not at all", "perfectly"],
        "second": ["Is it looking at what matters for this word?", "not at all", "exactly"],
    },
    "answers": {
        "title": "Rating answers",
        "about": "What computers answer to questions about pictures, and where they look: please rate both.",
        "text": "Answer",
        "first": ["How good is the answer?", "wrong", "right"],
        "second": ["Is it looking at what matters for the question?", "not at all", "exactly"],
    },
}


def write_survey(survey: Survey, path: str | PathLike[str]) -> Path:
    """Write the page of ``survey`` to ``path``, an HTML file that opens without a server; return the path."""
    path = Path(path)
    with whole_file(path) as place:
        place.write_text(page(survey), encoding="utf-8")
    return path


def page(survey: Survey) -> str:
    """Return the HTML of the page. It does not have the names of the networks in it, except sealed."""
    asked = _ASKED[survey.kind]
    return make_page(
        str(asked["title"]),
        str(asked["about"]),
        _BODY,
        describe(survey),
        [read_asset(HERE, "report.css"), read_asset(_HERE, "rating.css")],
        [read_asset(HERE, "common.js"), read_asset(HERE, "maps.js"), *(read_asset(_HERE, name) for name in _SCRIPTS)],
        "This page needs JavaScript.",
    )


def describe(survey: Survey) -> dict[str, Any]:
    """Return the data of the page: numbers, words, lists and dicts."""
    sealed = survey.key.seal()
    pictures = [
        {"source": jpeg_address(picture.image, _PIXELS), "question": picture.question, "looks": looks}
        for picture, looks in zip(survey.pictures, survey.shown, strict=True)
    ]
    return {
        "format": ANSWERS_FORMAT,
        "survey": name_survey(sealed),
        "sealed": sealed,
        "asked": _ASKED[survey.kind],
        "shades": [[*_HUE, round(_OPAQUE * level)] for level in range(256)],
        "pictures": pictures,
    }


_SCRIPTS = ("answers.js", "rating.js")
_BODY = """<section id="begin" aria-labelledby="welcome">
<h2 id="welcome">Before you begin</h2>
<p id="task"></p>
<p>Rate with a click, or with the keys 1 to 5; Enter goes on, Shift + Enter back. You can stop at any time: what you
have rated stays in this browser. At the end, save your answers as a file and send it to whoever gave you this page.</p>
<form id="who"><label for="rater">Your name</label>
<input id="rater" type="text" maxlength="80" autocomplete="name" required>
<button type="submit" class="main">Begin</button></form>
<p class="muted">Begun on another computer? <label class="file">Go on from a file of answers:
<input id="file" type="file" accept=".json,application/json"></label></p>
<p id="trouble" role="alert" hidden></p>
<p id="differ" role="alert" hidden><span id="differing"></span> Take there those of
<button id="take-kept" type="button">this browser</button> <button id="take-file" type="button">the file</button></p>
</section>
<section id="rate" aria-labelledby="place" hidden>
<div id="bar"><h2 id="place"></h2><progress id="progress" max="1" value="0" aria-label="Answers given"></progress>
<span id="count" class="muted" aria-live="polite"></span></div>
<p id="unkept" role="alert" hidden>This browser keeps nothing. Save your answers as a file before you leave it.</p>
<div id="picture"><figure id="photograph"></figure><div id="looks"></div></div>
<div id="steps"><button id="previous" type="button">&larr; Back</button>
<button id="missing" type="button">First without an answer</button>
<button id="next" type="button" class="main">Next &rarr;</button></div>
<p id="end" role="status" hidden></p>
<p class="links"><button id="save" type="button">Save answers (JSON)</button>
<button id="other" type="button">Somebody else rates</button></p>
<p class="muted hint">Colour: the darker, the more attention for the word; where the photograph shows as it is, there is
none. Each map has its own scale. Keys: 1 to 5 rate, Enter next, Shift + Enter back.</p>
</section>
"""
