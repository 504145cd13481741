import pytest

from proxy.core.cel.syntax.macros import expand
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.printer import print_expression

TEXTS = [
    "a || b && c",
    "(a || b) && c",
    "(a || b) || c",
    "a ? b : c ? d : e",
    "(a ? b : c) ? d : e",
    "-(1)",
    "-(-1)",
    "-a",
    "-(1.5)",
    "-(1).b",
    "-(-1)[0]",
    "(-1).b",
    "(-1)[0]",
    "-(a + b)",
    "!a.b(c)",
    "a - (b - c)",
    "a - b - c",
    "a * (b + c)",
    "a in [1, 2]",
    "(a in b) == c",
    "a == (b == c)",
    'a["b"].?c[?0].d',
    "a.`b-c`",
    "[?a, b]",
    "{?a: b, 1: 2}",
    "a.b{c: 1, ?d: 2}",
    "1.0 + 1e+100",
    "1u",
    'b"\\xff\\"a"',
    '"\\"\\n\\x00é\\x7f"',
    "null == true",
    "has(a.b)",
    "[1].all(x, x > 0)",
    ".a.b",
    "a.`in`",
    "!(a && b)",
    "!(!a)",
    "f()",
    "a.f().g(1, 2)",
    "-9223372036854775808",
]


@pytest.mark.parametrize("text", TEXTS)
def test_parsing_what_is_printed_gives_the_same_tree(text: str) -> None:
    tree = parse(text)

    assert parse(print_expression(tree)) == tree


def test_a_canonical_text_is_printed_unchanged() -> None:
    text = 'a.b == "x" && (c || !d) && e in ["f", "g"] && h[0].?i.orValue(1) > -2'

    assert print_expression(parse(text)) == text


def test_an_expanded_macro_is_not_printed() -> None:
    with pytest.raises(ValueError, match="cannot be printed"):
        print_expression(expand(parse("a.all(x, x)")))
