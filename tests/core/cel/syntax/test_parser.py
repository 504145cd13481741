import time

import pytest

from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.syntax.parser import MAX_NESTING, parse, qualified_name
from proxy.core.cel.syntax.tree import Call, Ident, Literal, MessageLiteral, Select


def test_operators_bind_as_strongly_as_in_the_grammar() -> None:
    assert parse("a || b && c == d + e * f") == Call(
        "_||_",
        (
            Ident("a"),
            Call(
                "_&&_",
                (
                    Ident("b"),
                    Call(
                        "_==_",
                        (
                            Ident("c"),
                            Call("_+_", (Ident("d"), Call("_*_", (Ident("e"), Ident("f"))))),
                        ),
                    ),
                ),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("-1", Literal(-1)),
        ("--1", Literal(1)),
        ("-(1)", Call("-_", (Literal(1),))),
        ("!!a", Ident("a")),
        ("!-1", Call("!_", (Literal(-1),))),
        ("-a.b", Call("-_", (Select(Ident("a"), "b"),))),
        ("0x1F", Literal(31)),
        ("-9223372036854775808", Literal(-(2**63))),
        ("a.b{c: 1}", MessageLiteral("a.b", (("c", Literal(1), False),))),
        (".a", Ident(".a")),
    ],
)
def test_signs_numbers_and_names(text: str, wanted: object) -> None:
    assert parse(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "(1", "[1", "{1}", "a.", "a.?b()", "f(1,)", "9223372036854775808", "1e400",
     "18446744073709551616u", "in", "for", "if(1)", "a ? b", "1 2", "a{", "a{1: 2}", "a.b[", "-",
     "a.true"],
)  # fmt: skip
def test_what_the_grammar_has_not_is_refused(text: str) -> None:
    with pytest.raises(CelCompileError):
        parse(text)


@pytest.mark.parametrize("bracket", ["(", "[", "{1:", "f(", "a?b:", "!(", "-("])
def test_ten_thousand_levels_are_refused_quickly(bracket: str) -> None:
    seconds: list[float] = []
    for _ in range(3):  # The smallest figure is the one that other load disturbs least.
        started = time.thread_time()
        with pytest.raises(CelCompileError, match=f"recursion limit exceeded: {MAX_NESTING}"):
            parse(bracket * 10_000)
        seconds.append(time.thread_time() - started)

    assert min(seconds) < 0.25


def test_ten_megabytes_are_refused_without_reading_them() -> None:
    text = "a" * 10_000_000
    started = time.process_time()

    with pytest.raises(CelCompileError, match="code point size exceeds limit"):
        parse(text)

    assert time.process_time() - started < 0.05


def test_a_chain_is_as_long_as_natively() -> None:
    accepted = ["1+" * 250 + "1", "a" + ".b" * 250, "a && " * 5_000 + "a"]
    assert len([parse(text) for text in accepted]) == len(accepted)
    for text in ("1+" * 251 + "1", "a" + ".b" * 251, "a" + "[0]" * 251):
        with pytest.raises(CelCompileError, match="max recursion depth exceeded"):
            parse(text)


def test_a_qualified_name_is_a_chain_of_selections() -> None:
    assert qualified_name(parse("a.b.c")) == "a.b.c"
    assert qualified_name(parse("a[0].c")) is None
    assert qualified_name(Select(Ident("a"), "b", test_only=True)) is None
