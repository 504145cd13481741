from proxy.core.cel.syntax.macros import expand
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.tree import Ident, Literal, children


def test_constants_of_different_types_differ() -> None:
    assert Literal(1) != Literal(1.0)
    assert Literal(1) != Literal(True)  # noqa: FBT003 - a literal of the language
    assert Literal(1, offset=5) == Literal(1)


def test_children_come_in_the_order_of_evaluation() -> None:
    assert children(parse("a.f(b)")) == (Ident("a"), Ident("b"))
    assert children(parse("{a: b}")) == (Ident("a"), Ident("b"))
    assert children(parse("[a]")) == (Ident("a"),)
    assert children(parse("a.b")) == (Ident("a"),)
    assert children(parse("m{f: a}")) == (Ident("a"),)
    assert children(parse("a")) == ()
    assert len(children(expand(parse("a.all(x, x)")))) == 5
