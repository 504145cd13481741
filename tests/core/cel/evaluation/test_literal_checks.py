import pytest

from proxy.core.cel.checking.checker import check
from proxy.core.cel.checking.scope import Scope
from proxy.core.cel.environment import POLICY_ENVIRONMENT
from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.evaluation.literal_checks import check_literals
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.tree import ListLiteral


@pytest.mark.parametrize(
    "expression",
    ["[1, 'a']", "[object.a, 'a']", "{'a': 1, 'b': 'c'}", "{'a': 1, 2: 1}", "[?object.a]",
     "{?'a': object.a}", "'a'.matches('(')", "matches('(', 'a')", "'%d'.format(['a'])",
     "'%s'.format([])", "'%s'.format([1, 2])", "'%q'.format([1])", "'%s'.format([quantity('1')])",
     "'%s'.format([[quantity('1')]])", "duration('1d')", "timestamp('x')"],
)  # fmt: skip
def test_literals_that_are_refused(expression: str) -> None:
    with pytest.raises(CelCompileError):
        POLICY_ENVIRONMENT.compile(expression)


@pytest.mark.parametrize(
    "expression",
    ["[1, 2]", "[object.a, object.b]", "'%s %s'.format([1, 'a'])",
     "object.s.format([1, 'a'])", "'%s'.format(object.l)",
     "{?'a': optional.of(1)}", "'a'.matches(object.s)"],
)  # fmt: skip
def test_literals_that_are_accepted(expression: str) -> None:
    program = POLICY_ENVIRONMENT.compile(expression)
    assert program.source == expression


def test_the_checks_follow_the_types() -> None:
    tree = parse("[1, 2]")

    check_literals(check(tree, Scope({})))
    assert isinstance(tree, ListLiteral)
