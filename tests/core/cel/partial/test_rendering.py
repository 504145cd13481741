import pytest

from proxy.core.cel.partial.rendering import LiteralStyle, render
from proxy.core.cel.syntax.printer import print_expression
from proxy.core.cel.values.kinds import (
    NONE,
    Duration,
    IpAddress,
    OptionalValue,
    Timestamp,
    TypeName,
    Uint,
)

ADDRESS = IpAddress(1, 32)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (Uint(1), "1u"),
        (1.5, "1.5"),
        (float("inf"), 'double("+Inf")'),
        (None, "null"),
        ([1, 2], "[1, 2]"),
        ([], "dyn([])"),
        ({"a": True}, '{"a": true}'),
        (TypeName("int"), "int"),
        (Timestamp(0), 'timestamp("1970-01-01T00:00:00Z")'),
        (Duration(10**9), 'duration("1s")'),
        (NONE, "optional.none()"),
        (OptionalValue(1), "optional.of(1)"),
    ],
)
def test_values_as_expressions(value: object, text: str) -> None:
    rendered = render(value, LiteralStyle.PLAIN)

    assert rendered is not None
    assert print_expression(rendered) == text


@pytest.mark.parametrize(
    "value",
    [
        ADDRESS,
        [ADDRESS],
        {"a": ADDRESS},
        Duration(2**60),
        OptionalValue(ADDRESS),
        TypeName("net.IP"),
    ],
)
def test_a_value_without_an_exact_literal(value: object) -> None:
    assert render(value, LiteralStyle.PLAIN) is None


def test_parts_of_different_types_have_the_type_dyn() -> None:
    plain = render([1, "a"], LiteralStyle.DYN)
    opaque = render("(", LiteralStyle.OPAQUE)

    assert plain is not None
    assert opaque is not None
    assert print_expression(plain) == 'dyn([dyn(1), dyn("a")])'
    assert print_expression(opaque) == '[dyn("(")][0]'
