"""The site without a browser: it builds without a warning, nothing is missing, links lead somewhere, none is loaded."""

import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import omegamax

pytest.importorskip("sphinx", reason="needs sphinx: pip install -c constraints.txt '.[docs]'")
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


class Links(HTMLParser):
    """The addresses of a page: what it leads to, what it loads, and the anchors it has."""

    def __init__(self, page: Path):
        super().__init__()
        self.leads, self.loads, self.anchors = [], [], {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {value for key, value in attributes if key == "id" or (tag == "a" and key == "name")}
        if tag == "a":
            self.leads += [given["href"]] if "href" in given else []
        elif tag == "link":
            self.loads += [given["href"]] if given.get("rel") not in ("canonical", "search", "author") else []
        else:
            self.loads += [given[key] for key in ("src", "data", "poster") if key in given]
            self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Links(path) for path in sorted(site.rglob("*.html"))}


def test_links_and_anchors_are_there(site, pages):
    broken = []
    for name, page in pages.items():
        for address in page.leads + page.loads:
            parts = urlsplit(address)
            if parts.scheme or name == "playground.html":
                continue
            target = (site / name).parent.joinpath(unquote(parts.path)).resolve() if parts.path else site / name
            found = pages.get(target.relative_to(site.resolve()).as_posix() if parts.path else name)
            if not target.is_file() or (found and unquote(parts.fragment) not in found.anchors):
                broken.append(f"{name}: {address}")
    assert broken == []


def test_nothing_is_loaded_from_another_host(site, pages):
    loaded = {
        f"{name}: {address}" for name, page in pages.items() for address in page.loads if urlsplit(address).netloc
    }
    styles = [*site.rglob("*.css"), *(site / name for name in pages)]
    for style in styles:
        text = style.read_text(encoding="utf-8")
        loaded |= {f"{style.name}: {found}" for found in re.findall(r"url\(\s*[\"']?(?:https?:)?//[^)]*\)", text)}
        loaded |= {f"{style.name}: {found}" for found in re.findall(r"@import\s+[\"'](?:https?:)?//[^\"']*", text)}
    for script in site.rglob("*.js"):
        asks = re.findall(r"(?:fetch|import|open)\(\s*[\"'`]https?://[^\"'`]*", script.read_text(encoding="utf-8"))
        loaded |= {f"{script.name}: {found}" for found in asks}
    assert loaded == set()


def inventory(site: Path) -> set[str]:
    """The names of Python that the site describes."""
    _, _, _, _, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)
    lines = zlib.decompress(packed).decode().splitlines()
    return {line.split()[0] for line in lines if " py:" in line}


def public_names() -> set[str]:
    """Every ``from ... import name as name`` of a package, with the package, and what integrations define."""
    source, names = Path(omegamax.__file__).parent, set()
    for file in source.rglob("*.py"):
        module = ".".join(file.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__")
        if "._" in module:
            continue
        text = file.read_text(encoding="utf-8")
        if file.name == "__init__.py" or module == "omegamax.functional":
            names |= {f"{module}.{name}" for name in re.findall(r"^ *from .* import (\w+) as \1\b", text, re.M)}
        elif module.startswith("omegamax.integrations."):
            names |= {f"{module}.{name}" for name in re.findall(r"^(?:def|class) ([a-zA-Z]\w*)", text, re.M)}
    return {name for name in names if not name.rpartition(".")[2].startswith("_")}


def test_every_public_name_is_described(site):
    wanted = public_names()
    assert len(wanted) > 700 and {"omegamax.entmax", "omegamax.nn.Entmax", "omegamax.metrics.TokenF1"} <= wanted
    assert wanted - inventory(site) == set()


def test_every_page_of_the_repository_is_on_the_site(site):
    written = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/*/*.md"), *ROOT.glob("benchmarks/results/*.md")]
    wanted = {
        path.relative_to(ROOT).with_suffix(".html") for path in [*written, ROOT / "README.md", ROOT / "CHANGELOG.md"]
    }
    assert {path.as_posix() for path in wanted if not (site / path).is_file()} == {"docs/index.html"}  # at the root
    assert (site / "index.html").is_file()


def test_every_example_is_in_the_gallery(site):
    scripts = [path.relative_to(ROOT / "examples") for path in ROOT.glob("examples/*/plot_*.py")]
    assert scripts
    assert [path for path in scripts if not (site / "gallery" / path.with_suffix(".html")).is_file()] == []


def test_playground_is_on_the_site_and_linked(site, pages):
    from omegamax.play import make_playground

    assert (site / "playground.html").read_text(encoding="utf-8") == make_playground()
    assert "../playground.html" in pages["docs/playground.html"].leads
    assert "playground.html" in pages["index.html"].leads


def test_tables_of_benchmarks_lead_to_their_rows(pages):
    tables = [name for name in pages if name.startswith("benchmarks/results/")]
    assert tables
    for name in tables:
        assert any(address.endswith(".csv.html") for address in pages[name].leads), name


def test_formulas_are_mathml(site):
    page = (site / "reference" / "omegamax.functional.html").read_text(encoding="utf-8")
    assert page.count("<math") > 20 and "MathJax" not in page and "\\arg" not in page
