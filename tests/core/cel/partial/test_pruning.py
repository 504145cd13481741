import pytest

from proxy.core.cel.partial.pruning import prune_errors
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.printer import print_expression


@pytest.mark.parametrize(
    ("text", "allow", "deny"),
    [
        ("dyn(1 / 0)", "false", "true"),
        ("dyn(1 / 0) && a", "false", "a && true"),
        ("dyn(1 / 0) || a", "a || false", "true"),
        ("!dyn(1 / 0)", "false", "true"),
        ("!(a && dyn(1 / 0))", "!(a && true)", "true"),
        ("a ? dyn(1 / 0) : b", "a ? false : b", "a ? true : b"),
        ("dyn(1 / 0) == a", "dyn(1 / 0) == a", "dyn(1 / 0) == a"),
        ("a && b && dyn(1 / 0)", "false", "a && b"),
        ("a.b(c)", "a.b(c)", "a.b(c)"),
        ("dyn(1 / 0) && dyn(1 / 0)", "false", "true"),
    ],
)
def test_errors_are_what_they_count_as(text: str, allow: str, deny: str) -> None:
    tree = parse(text)

    assert print_expression(prune_errors(tree, error_counts_as=False)) == allow
    assert print_expression(prune_errors(tree, error_counts_as=True)) == deny
