import pytest

from proxy.core.cel.checking.checker import check
from proxy.core.cel.checking.scope import Scope
from proxy.core.cel.checking.types import DYN, STRING, list_of, parse_type
from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.syntax.macros import expand
from proxy.core.cel.syntax.parser import parse

VARIABLES = {"object": DYN, "s": STRING, "l": list_of(STRING)}


def type_of_text(text: str) -> str:
    return str(check(expand(parse(text)), Scope(dict(VARIABLES))).type)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 + 2", "int"), ("object.a", "dyn"), ("object.a + object.b", "dyn"), ("s", "string"),
        ("[1, 2]", "list(int)"), ("[]", "list(dyn)"), ("{}", "map(dyn, dyn)"),
        ("{'a': [1]}", "map(string, list(int))"), ("object.?a", "optional_type(dyn)"),
        ("[1][?0]", "optional_type(int)"), ("[?optional.of(1)]", "list(int)"),
        ("l.map(x, size(x))", "list(int)"), ("object.map(x, x)", "list(dyn)"),
        ("{'a': 1}.transformMap(k, v, string(v))", "map(string, string)"),
        ("type(1)", "type(int)"), ("true ? 1 : object.a", "dyn"), ("a.b.c", "dyn"),
        ("optional.none()", "optional_type(dyn)"), ("has(object.a)", "bool"),
        ("'%s'.format([1, 'a'])", "string"), ("format.uuid()", "kubernetes.NamedFormat"),
        ("{?'a': optional.of(1)}", "map(string, int)"), ("l[0]", "string"),
    ],
)  # fmt: skip
def test_types_of_expressions(text: str, wanted: str) -> None:
    if text == "a.b.c":
        scope = Scope({"a.b": DYN})
        assert str(check(parse(text), scope).type) == wanted
        return
    assert type_of_text(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope", "undeclared reference to 'nope' (in container '')"),
        ("nope()", "undeclared reference to 'nope'"),
        ("s.nope()", "undeclared reference to 'nope'"),
        ("m{}", "undeclared reference to 'm'"),
        ("1 == 1.0", "found no matching overload for '_==_' applied to '(int, double)'"),
        ("s.size(1)", "found no matching overload for 'size' applied to 'string.(int)'"),
        ("s && true", "expected type 'bool' but found 'string'"),
        ("s.a", "does not support field selection"),
        ("s.all(x, true)", "cannot be range of a comprehension"),
        ("[?1]", "expected type 'optional_type(int)'"),
        ("[1].filter(x, s)", "found no matching overload for '_?_:_'"),
        ("quantity('1').x", "undefined field"),
    ],
)
def test_errors_of_types(text: str, message: str) -> None:
    with pytest.raises(CelCompileError) as caught:
        type_of_text(text)

    assert message in caught.value.message


def test_a_declared_type_can_be_given() -> None:
    scope = Scope({"m": parse_type("map(string, int)")})

    assert str(check(parse("m.a"), scope).type) == "int"
