"""Only `core/admission.py` builds an Admission: nobody else can forge the permit to forward."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "proxy"
THE_ONE_PLACE = PACKAGE / "core" / "admission.py"


def constructions_of_admission(source: str) -> list[int]:
    """Return the lines that make an Admission, whatever it was imported as."""
    tree = ast.parse(source)
    names = {"Admission"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or "" for alias in node.names if alias.name == "Admission"}
    makers = ("replace", "copy", "deepcopy", "__new__", "__replace__", "partial")
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        arguments = [ast.unparse(argument) for argument in node.args]
        builds = called.split(".")[-1] in names
        remakes = called.split(".")[-1] in makers and any(
            "admission" in argument.lower() for argument in [called, *arguments]
        )
        if builds or remakes:
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    "forgery",
    [
        "Admission(caller=c, acting=i)",
        "from proxy.core.impersonation.permit import Admission as Permit\nPermit(c, i)",
        "admission.Admission(c, i)",
        "dataclasses.replace(admission, acting=other)",
        "object.__new__(Admission)",
        "copy.copy(self._admission)",
        "functools.partial(Admission, c)",
    ],
)
def test_a_forged_admission_is_noticed(forgery: str) -> None:
    assert constructions_of_admission(forgery)


def test_naming_an_admission_is_not_building_one() -> None:
    assert not constructions_of_admission("def forward(admission: Admission) -> None: ...")


def test_no_other_file_builds_an_admission() -> None:
    offenders = {
        str(file.relative_to(PACKAGE)): lines
        for file in PACKAGE.rglob("*.py")
        if file != THE_ONE_PLACE
        if (lines := constructions_of_admission(file.read_text()))
    }

    assert offenders == {}


def test_the_one_place_does_build_it() -> None:
    assert constructions_of_admission(THE_ONE_PLACE.read_text())


def test_only_the_hop_without_a_credential_passes_on_without_a_decision() -> None:
    naming = {
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        if "pass_on_as" in file.read_text()
    }

    assert naming == {"core/admission.py", "act/hop.py"}
