import pytest

from proxy.core.cel.partial.names import bound_names, operands, substitute, uses, with_children
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.printer import print_expression
from proxy.core.cel.syntax.tree import Call, Ident, Literal


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a.all(x, x)", ("x",)),
        ("a.all(i, v, v)", ("i", "v")),
        ("a.map(x, x, x)", ("x",)),
        ("a.transformMap(k, v, v)", ("k", "v")),
        ("has(a.b)", ()),
        ("f(a)", ()),
    ],
)
def test_macros_bind_names(text: str, names: tuple[str, ...]) -> None:
    call = parse(text)

    assert isinstance(call, Call)
    assert bound_names(call) == names


def test_a_bound_name_is_no_use_of_a_variable() -> None:
    assert uses(parse("x.all(y, y)"), frozenset(("x",)))
    assert not uses(parse("a.all(x, x)"), frozenset(("x",)))
    assert uses(parse("[.x]"), frozenset(("x",)))


def test_substitution_stops_where_a_macro_binds_the_name() -> None:
    tree = substitute(parse("x + x.all(x, x) + sets.contains([x], {x: 1}.a)"), "x", Literal(1))

    assert print_expression(tree) == "1 + 1.all(x, x) + sets.contains([1], {1: 1}.a)"


def test_a_namespace_is_no_operand() -> None:
    call = parse("sets.contains(a, b)")

    assert operands(call) == (Ident("a"), Ident("b"))
    assert with_children(call, list(operands(call))) == call
    assert with_children(parse("a"), []) == Ident("a")
