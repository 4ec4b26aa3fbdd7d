"""The shape of the house: imports point one way, public names are documented, torch and numpy suffice."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import omegamax

ROOT = Path(omegamax.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

LAYERS = [
    (
        "_arguments",
        "_checks",
        "_compile",
        "_constraints",
        "_custom_op",
        "_first_order",
        "_map_parameters",
        "_numerics",
        "_torch_internals",
        "_typing",
        "_warnings",
    ),
    ("kernels",),
    ("_autograd_rules", "_operation"),
    ("maps",),
    ("functional",),
    ("losses", "structured", "densities", "basis", "mixed"),
    ("mixtures", "hopfield", "metrics"),
    ("nn", "generation"),
    ("models", "data", "compat", "integrations", "play"),
    ("tasks",),
    ("cli", "__main__"),
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
FREE_OF_EXTRAS = LEVEL["models"]  # up to this layer everything runs on torch and numpy alone
HARD = {"torch", "numpy", "omegamax"}
# A side branch: pictures of the maths, so nothing with parameters. Only what faces a person draws.
VIZ, DRAWS, DRAWN = "viz", {"tasks", "cli"}, LEVEL["mixtures"]
# Modules whose purpose is a package outside torch, named by their place below the root.
BRIDGES: dict[str, set[str]] = {
    "integrations/language.py": {"transformers"},
    "integrations/transformers.py": {"transformers"},
    "metrics/_caption_torchmetrics.py": {"torchmetrics"},
    "metrics/_language_torchmetrics.py": {"torchmetrics"},
    "metrics/_text_torchmetrics.py": {"torchmetrics"},
    "metrics/_torchmetrics.py": {"torchmetrics"},
    **{
        str(path.relative_to(ROOT)): {"triton"}
        for path in (ROOT / "kernels").rglob("triton/*.py")
        if path.name != "__init__.py"  # imported where Triton may not be
    },
}


def part(path: Path) -> str:
    """Return the first name below the package: a folder, or a module at the top."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def module_name(path: Path) -> str:
    parts = ["omegamax", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def statements(body: list[ast.stmt], everywhere: bool) -> Iterator[ast.stmt]:
    """Yield statements that run on import, or all of them; never those under ``if TYPE_CHECKING``."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from statements(node.orelse, everywhere)
            continue
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not everywhere:
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, field, None) or [], everywhere)
        for handler in getattr(node, "handlers", []):
            yield from statements(handler.body, everywhere)


@functools.cache
def imports(path: Path, everywhere: bool) -> list[tuple[str, int]]:
    """List modules a file imports, in full, with their line; ``from omegamax import x`` counts as ``omegamax.x``."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found = []
    for node in statements(parse(path).body, everywhere):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            found += [(f"{source}.{alias.name}", node.lineno) for alias in node.names]
    return found


def own_imports(path: Path) -> Iterator[tuple[str, int]]:
    """Yield parts of the library that a file imports anywhere, also inside functions."""
    for name, line in imports(path, everywhere=True):
        names = name.split(".")
        if names[0] != "omegamax" or len(names) < 2:
            continue
        if names[1] in LEVEL or names[1] == VIZ:
            yield names[1], line
        else:  # a public name of the package itself, such as omegamax.sparsemax
            source = getattr(getattr(omegamax, names[1], None), "__module__", None)
            if source and source.startswith("omegamax."):
                yield source.split(".")[1], line


def test_every_part_has_a_layer():
    known = set(LEVEL) | {VIZ, "__init__"}
    assert {part(p) for p in FILES} <= known


def test_no_file_imports_a_higher_layer():
    faults = []
    for path in FILES:
        own = part(path)
        if own == "__init__":
            continue
        level = DRAWN if own == VIZ else LEVEL[own]
        for name, line in own_imports(path):
            if name == VIZ and own != VIZ:
                if own not in DRAWS:
                    faults.append(f"{path}:{line}: only {sorted(DRAWS)} may draw")
            elif name != own and LEVEL[name] > level:
                faults.append(f"{path}:{line}: layer {level} ({own}) imports layer {LEVEL[name]} ({name})")
    assert not faults, "\n".join(faults)


def test_no_file_imports_a_private_name_of_another_package():
    """A module ``a/_b.py`` and a name ``_c`` of ``a`` are for files below ``a`` alone."""
    faults = []
    for path in FILES:
        own = module_name(path).split(".")
        if path.name != "__init__.py":
            own = own[:-1]
        for name, line in imports(path, everywhere=True):
            names = name.split(".")
            if names[0] != "omegamax":
                continue
            private = next((i for i, word in enumerate(names) if word.startswith("_") and word != "__main__"), None)
            if private is not None and own[:private] != names[:private]:
                faults.append(f"{path}:{line}: {name}")
    assert not faults, "\n".join(faults)


def test_files_below_the_tasks_need_only_torch_and_numpy():
    faults = []
    for path in FILES:
        own = part(path)
        if own in (VIZ, "__init__") or LEVEL[own] > FREE_OF_EXTRAS:
            continue
        allowed = HARD | BRIDGES.get(str(path.relative_to(ROOT)), set())
        for name, line in imports(path, everywhere=False):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names and top not in allowed:
                faults.append(f"{path}:{line}: {top} is not a hard dependency")
    assert not faults, "\n".join(faults)


def public_names() -> Iterator[tuple[str, str]]:
    for path in FILES:
        if path.name != "__init__.py" or any(p.startswith("_") for p in path.relative_to(ROOT).parts[:-1]):
            continue
        for node in statements(parse(path).body, everywhere=False):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.asname == alias.name:
                        yield module_name(path), alias.name


def test_public_names_are_documented():
    faults = []
    for module, name in sorted(public_names()):
        thing = getattr(importlib.import_module(module), name)
        if inspect.ismodule(thing) or inspect.isclass(thing) or callable(thing):
            text = thing.__doc__
            inherited = [getattr(base, "__doc__", None) for base in getattr(thing, "__mro__", ())[1:]]
            if not text or not text.strip() or text in inherited:
                faults.append(f"{module}.{name} has no docstring of its own")
    assert not faults, "\n".join(faults)


def test_every_file_says_what_it_is():
    assert not [str(path) for path in FILES if not ast.get_docstring(parse(path))]


# Names that two classes share because each is what a reader expects where it stands.
SHARED_CLASS_NAMES = {
    # Module, or loss, of the same name as in the entmax package, whose names the mirror package has.
    "Entmax15": {"compat/entmax/activations.py", "nn/transforms.py"},
    "Entmax15Loss": {"compat/entmax/losses.py", "nn/losses.py"},
    "Sparsemax": {"compat/entmax/activations.py", "nn/transforms.py"},
    "SparsemaxLoss": {"compat/entmax/losses.py", "nn/losses.py"},
    # The regulariser, and the Module of its map.
    "KSubsets": {"maps/k_subsets.py", "nn/transforms.py"},
    "SequentialKSubsets": {"maps/sequential_k_subsets.py", "nn/transforms.py"},
}


def test_every_class_has_a_name_of_its_own():
    """A leading underscore does not tell two names apart."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(path.relative_to(ROOT).as_posix())
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    faults = {n: paths for n, paths in twice.items() if sorted(paths) != sorted(SHARED_CLASS_NAMES.get(n, ()))}
    assert not faults, faults
    assert SHARED_CLASS_NAMES.keys() <= twice.keys(), "allowed, but not shared any more"


def test_import_of_the_package_loads_torch_and_numpy_only():
    program = (
        "import sys, torch, numpy; before = set(sys.modules); import omegamax; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    added = {m for m in done.stdout.split() if m not in sys.stdlib_module_names}
    extras = "cvxpy entmax hypothesis lightning matplotlib mpmath rich scipy torchmetrics transformers"
    assert "omegamax" in added and not added & set(extras.split())
