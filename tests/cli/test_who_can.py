"""`understudy who-can`: what must be said before a cluster is asked."""

import pytest

from tests.explain_parity.command import run


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(("list", "pods"), "say as whom", id="nobody"),
        pytest.param(("--as", "a", "--as-masters"), "say as whom", id="two"),
        pytest.param(("--as", "a"), "say what is asked for", id="nothing"),
        pytest.param(("--as-masters", "list", "pods"), "is for every action", id="masters"),
    ],
)
def test_wrong_options_are_told(arguments: tuple[str, ...], problem: str) -> None:
    said = run("who-can", *arguments)

    assert said.code == 2
    assert problem in said.errors
