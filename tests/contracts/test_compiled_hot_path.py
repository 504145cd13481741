"""What can be compiled: which files, and what the compiler would get wrong in them."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Asking these twice changes nothing.
HARMLESS = frozenset({"len", "max", "min", "start", "end"})


def compiled_files() -> list[Path]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    excluded = {file for pattern in hook["exclude"] for file in ROOT.glob(pattern.lstrip("/"))}
    files = [file for pattern in hook["include"] for file in ROOT.glob(pattern.lstrip("/"))]
    return [file for file in files if file not in excluded]


def calls_in_slices(source: str) -> list[str]:
    """Return the slices with a call in them that may do something."""
    slices = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Slice)]
    return [
        ast.unparse(node)
        for node in slices
        for inner in ast.walk(node)
        if isinstance(inner, ast.Call | ast.NamedExpr) and _name(inner) not in HARMLESS
    ]


def _name(node: ast.Call | ast.NamedExpr) -> str | None:
    if isinstance(node, ast.NamedExpr):
        return None
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def test_every_pattern_of_the_list_names_a_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]

    for pattern in [*hook["include"], *hook["exclude"]]:
        assert list(ROOT.glob(pattern.lstrip("/"))), pattern


@pytest.mark.parametrize("file", compiled_files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_nothing_in_a_slice_does_anything(file: Path) -> None:
    """mypyc 2.4 evaluates bounds of a slice twice: a write in one would send its bytes twice."""
    assert calls_in_slices(file.read_text()) == []


def test_a_call_in_a_slice_is_seen() -> None:
    assert calls_in_slices("view = view[stream.write(view[:9]) :]") == ["stream.write(view[:9]):"]
    assert calls_in_slices("rest = text[len(prefix) : match.end()]") == []
