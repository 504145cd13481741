import pytest

from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.syntax.macros import expand, is_macro
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.tree import Call, Fold, Ident, Select
from tests.core.cel.evaluating import value


def test_has_becomes_a_presence_test() -> None:
    assert expand(parse("has(a.b)")) == Select(Ident("a"), "b", test_only=True)


def test_a_macro_inside_literals_and_calls_is_expanded() -> None:
    tree = expand(parse("f([a.all(x, x)], {a: a.exists(x, x)}, b.c)"))

    assert isinstance(tree, Call)
    assert isinstance(tree.arguments[0].elements[0], Fold)  # type: ignore[union-attr]


def test_a_call_is_a_macro_by_name_and_number_of_arguments() -> None:
    calls = [parse(text) for text in ("a.all(x, x)", "a.all(x)", "all(x, x)")]

    assert [isinstance(call, Call) and is_macro(call) for call in calls] == [True, False, False]


@pytest.mark.parametrize(
    "text",
    ["has(a)", 'has(a["b"])', "a.all(1, true)", "a.map(b.c, 1)", "a.exists(__result__, true)",
     "a.optMap(1, 2)", "a.filter(1, 2)", "1.sortBy(x, x)", "{}.sortBy(x, x)"],
)  # fmt: skip
def test_malformed_arguments_are_refused(text: str) -> None:
    with pytest.raises(CelCompileError):
        expand(parse(text))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[1, 2].all(x, x > 0)", True),
        ("[1, 2].exists(x, x > 1)", True),
        ("[1, 2].exists_one(x, x > 1)", True),
        ("[1, 2].map(x, x * 2)", [2, 4]),
        ("[1, 2].map(x, x > 1, x * 2)", [4]),
        ("[1, 2].filter(x, x > 1)", [2]),
        ("[3, 1, 2].sortBy(x, -x)", [3, 2, 1]),
        ("optional.of(1).optMap(x, x + 1).value()", 2),
        ("optional.of(1).optFlatMap(x, optional.of(x)).value()", 1),
        ("optional.none().optMap(x, x).hasValue()", False),
        ("[0, 1].all(i, 1 / i > 5)", False),
        ("[0, 1].exists(i, 1 / i > 0)", True),
    ],
)
def test_what_macros_compute(text: str, wanted: object) -> None:
    assert value(text) == wanted
