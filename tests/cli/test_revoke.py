import pytest

from tests.explain_parity.command import run


@pytest.mark.parametrize("arguments", [(), ("desk", "--caller", "bob")])
def test_either_names_or_a_caller_are_required(arguments: tuple[str, ...]) -> None:
    said = run("revoke", *arguments)

    assert said.code == 2
    assert "specify names, or --caller" in said.errors
