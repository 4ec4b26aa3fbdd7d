"""Names and docstrings are those of the field: functions are verbs, and say first what they do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import omegamax

ROOT = Path(omegamax.__file__).parent
SOURCES = sorted(path for suffix in ("py", "h", "cpp") for path in ROOT.rglob(f"*.{suffix}"))
TESTS = sorted(path for path in Path(__file__).parent.rglob("*.py") if path != Path(__file__))
Function = ast.FunctionDef | ast.AsyncFunctionDef

# A docstring that begins with one of these names a thing and does not say what the function does.
NO_VERBS = set(
    """a all an and as at both by each every for from how in its like likewise no none of on one only or other same
    some such that the these this those two what when where whether which with""".split()
)
# English words in -ed that are verbs or nouns, not participles.
VERBS_IN_ED = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"}
# Words of a dialect, and the field's words for them.
DIALECT = {
    r"(?<!power-)laws?": "distribution",
    r"whole numbers?": "integer",
    r"quick(est)?": "fast path, or what makes it fast",
    r"oddly|odd[ _](input|entries|rows|scores|values)": "edge case",
    r"sheaf|sheaves": "tile",
}


def functions() -> Iterator[tuple[Path, Function]]:
    for path in SOURCES:
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, Function):
                    yield path, node


def is_attribute(node: Function) -> bool:
    """Tell whether a function is read as an attribute, and so named and documented as a thing."""
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_docstrings_of_functions_begin_with_a_verb():
    faults = []
    for path, node in functions():
        text = ast.get_docstring(node)
        if text is None or is_attribute(node):
            continue
        first = text.split()[0]
        if first[0] in "`:*" or first.strip(",.:;").lower() in NO_VERBS:
            faults.append(f"{path}:{node.lineno}: {node.name}: {text.splitlines()[0]}")
    assert not faults, f"{len(faults)} docstrings:\n" + "\n".join(faults)


def test_functions_are_not_named_by_a_participle():
    faults = []
    for path, node in functions():
        name = node.name.strip("_")
        if re.fullmatch(r"[a-z]+ed", name) and name not in VERBS_IN_ED and not is_attribute(node):
            faults.append(f"{path}:{node.lineno}: {node.name}")
    assert not faults, f"{len(faults)} functions:\n" + "\n".join(faults)


def find_dialect(paths: list[Path], words: dict[str, str]) -> list[str]:
    """List the lines with one of these words, also inside a name."""
    patterns = [(re.compile(rf"(?<![a-z])(?:{w})(?![a-z])", re.IGNORECASE), better) for w, better in words.items()]
    return [
        f"{path}:{number}: {line.strip()} (say: {better})"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for pattern, better in patterns
        if pattern.search(line)
    ]


def test_files_are_written_in_the_words_of_the_field():
    # In tests, "quick" says only how long something takes.
    in_tests = {word: better for word, better in DIALECT.items() if not word.startswith("quick")}
    faults = find_dialect(SOURCES, DIALECT) + find_dialect(TESTS, in_tests)
    assert not faults, f"{len(faults)} lines:\n" + "\n".join(faults)
