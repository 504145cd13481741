"""`understudy who-can`: what must be said before a cluster is asked."""

import pytest

from tests.explain_parity.command import run


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(("list", "pods"), "use exactly one of --as", id="nobody"),
        pytest.param(("--as", "a", "--as-masters"), "use exactly one of --as", id="two"),
        pytest.param(("--as", "a"), "specify VERB RESOURCE", id="nothing"),
        pytest.param(("--as-masters", "list", "pods"), "covers every action", id="masters"),
    ],
)
def test_wrong_options_are_told(arguments: tuple[str, ...], problem: str) -> None:
    said = run("who-can", *arguments)

    assert said.code == 2
    assert problem in said.errors
