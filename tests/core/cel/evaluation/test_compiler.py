import pytest

from proxy.core.cel.checking.checker import CheckedTree
from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.evaluation.compiler import compile_tree
from proxy.core.cel.syntax.tree import MessageLiteral
from tests.core.cel.evaluating import outcome


@pytest.mark.parametrize(
    ("expression", "wanted", "cost"),
    [
        ('int("5")', 5, 0),
        ('[int("5"), 1][0]', 5, 2),
        ("type(1) == int", True, 1),
        ('{"a": 1}["a"]', 1, 2),
    ],
)
def test_values_errors_and_costs(expression: str, wanted: object, cost: int) -> None:
    found = outcome(expression)

    assert (found.value if found.error is None else found.error) == wanted
    assert found.cost == cost


@pytest.mark.parametrize(
    "expression",
    [
        'int("x") == 1',
        'false && int("x") == 1',
        "object.m[null]",
        'object.m[b"a"]',
        '"a".find("(")',
    ],
)
def test_a_failing_constant_makes_the_expression_unusable(expression: str) -> None:
    with pytest.raises(CelCompileError):
        outcome(expression)


def test_a_message_does_not_compile() -> None:
    tree = MessageLiteral("a", ())

    with pytest.raises(CelCompileError, match="message types"):
        compile_tree(CheckedTree(tree, {}, {}))
