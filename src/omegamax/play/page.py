"""The page of the playground: one HTML file with its style and scripts inside."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from importlib import resources
from typing import Any

from omegamax.maps import records

# In this order: what a script uses when it is read stands before it.
SCRIPTS = (
    *("numbers.js", "entmax.js", "bounds.js", "flow.js", "variation.js", "clusters.js", "sequences.js"),
    *("threshold.js", "densities.js", "mixtures.js", "maps.js", "kinds.js"),
    *("dom.js", "controls.js", "state.js", "python.js"),
    *("bars.js", "charts.js", "simplex.js", "isolines.js", "curve.js", "picture.js", "cards.js", "app.js"),
)
TITLE = "omegamax playground"


def make_playground() -> str:
    """Return the HTML of the playground, which loads nothing: its policy forbids every host.

    The mathematics are in its scripts. Of the library it has the colour and the summary of each map.

        >>> page = make_playground()
        >>> len(page) < 1_000_000, "connect-src" in page, page.count("<script")
        (True, False, 2)
    """
    from omegamax import __version__

    script = "\n(() => {\n" + "\n".join(map(_read, SCRIPTS)) + "})();\n"
    maps = {record.name: {"summary": record.summary, "colour": record.colour} for record in records().values()}
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{make_policy(script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="Softmax and its sparse, structured and continuous alternatives, to try by hand.">
<title>{TITLE}</title>
<style>{_read("play.css")}</style>
</head>
<body>
{_read("play.html")}<footer>Written by omegamax {__version__}. Every number is computed in this page.</footer>
</main>
<script type="application/json" id="data">{embed({"maps": maps})}</script>
<script>{script}</script>
</body>
</html>
"""


def make_policy(script: str) -> str:
    """Return the content policy of a page that may load nothing: it forbids every host, and every script but this."""
    digest = b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def embed(data: Any) -> str:
    r"""Return JSON that is safe inside a ``<script>`` element: no text in it can end the element or open a comment.

    >>> embed(["</script>", "<!--"])
    '["\\u003c/script\\u003e", "\\u003c!--"]'
    """
    text = json.dumps(data, allow_nan=False)  # ASCII, so that U+2028 and its like are escaped too
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _read(name: str) -> str:
    return resources.files("omegamax.play").joinpath("assets", name).read_text(encoding="utf-8")
