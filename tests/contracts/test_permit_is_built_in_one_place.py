"""Only `core/impersonation/permit.py` builds a Permit: no other module can forge one."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "proxy"
THE_ONE_PLACE = PACKAGE / "core" / "impersonation" / "permit.py"


def constructions_of_permit(source: str) -> list[int]:
    """Return the lines that build a Permit, under any imported name."""
    tree = ast.parse(source)
    names = {"Permit"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or "" for alias in node.names if alias.name == "Permit"}
    makers = ("replace", "copy", "deepcopy", "__new__", "__replace__", "partial")
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        arguments = [ast.unparse(argument) for argument in node.args]
        builds = called.split(".")[-1] in names
        remakes = called.split(".")[-1] in makers and any(
            "permit" in argument.lower() for argument in [called, *arguments]
        )
        if builds or remakes:
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    "forgery",
    [
        "Permit(caller=c, user=i)",
        "from proxy.core.impersonation.permit import Permit as Admission\nAdmission(c, i)",
        "permit.Permit(c, i)",
        "dataclasses.replace(permit, user=other)",
        "object.__new__(Permit)",
        "copy.copy(self._permit)",
        "functools.partial(Permit, c)",
    ],
)
def test_a_forged_permit_is_noticed(forgery: str) -> None:
    assert constructions_of_permit(forgery)


def test_naming_a_permit_is_not_building_one() -> None:
    assert not constructions_of_permit("def forward(permit: Permit) -> None: ...")


def test_no_other_module_builds_a_permit() -> None:
    offenders = {
        str(file.relative_to(PACKAGE)): lines
        for file in PACKAGE.rglob("*.py")
        if file != THE_ONE_PLACE
        if (lines := constructions_of_permit(file.read_text()))
    }

    assert offenders == {}


def test_the_one_place_builds_it() -> None:
    assert constructions_of_permit(THE_ONE_PLACE.read_text())


def test_only_the_sidecar_without_a_credential_forwards_without_a_decision() -> None:
    naming = {
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        if "permit_unchecked" in file.read_text()
    }

    assert naming == {"core/impersonation/permit.py", "sidecar/sidecar.py"}
