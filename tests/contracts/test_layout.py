"""Layout rules of the package."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "proxy"
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
MAY_NAME_KUBERNETES_MODELS = {"authentication/token_review.py", "authorization/access_review.py"}


def python_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize(
    "file",
    sorted(PACKAGE.rglob("__init__.py")),
    ids=lambda f: str(f.parent.relative_to(ROOT)),
)
def test_a_package_init_is_a_docstring_and_no_code(file: Path) -> None:
    body = ast.parse(file.read_text()).body

    assert ast.get_docstring(ast.parse(file.read_text()))
    assert len(body) == 1


def test_no_module_has_a_vague_name() -> None:
    assert [file for file in python_files() if file.stem in VAGUE_NAMES] == []


def test_kubernetes_models_stay_in_the_review_modules() -> None:
    pattern = re.compile(r"\bV\d\w*(Review|Spec|Status|Attributes)\b")
    naming = {
        str(file.relative_to(PACKAGE))
        for file in python_files()
        if pattern.search(file.read_text())
    }

    assert naming <= MAY_NAME_KUBERNETES_MODELS


def test_every_layer_is_drawn_in_the_architecture() -> None:
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    packages = re.findall(r"\w+", " ".join(layers["contracts"][0]["layers"]))
    architecture = (ROOT / "docs" / "architecture.md").read_text()

    assert [package for package in packages if package not in architecture] == []


def test_the_readme_names_only_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    # Decisions are not edited: they name what there was on their day.
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    named = {
        target
        for document in documents
        for target in re.findall(r"`make ([a-z-]+)", document.read_text())
    }

    assert named
    assert named - targets == set()


def test_the_go_module_is_part_of_the_package() -> None:
    module = PACKAGE / "sandbox" / "programs" / "gomodule"

    assert "k8s.io/kubernetes v1.37.1" in (module / "go.mod").read_text()
    assert (module / "go.sum").stat().st_size > 0
