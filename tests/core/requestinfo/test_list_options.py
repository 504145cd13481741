"""List options: the query of a list, watch or deletecollection."""

import pytest

from proxy.core.requestinfo.list_options import (
    DEFAULT_LIST_OPTIONS,
    DEFAULT_SELECTOR_TERMS,
    ListOptions,
    SelectorTooLarge,
    parse_list_options,
    parse_watch_option,
)
from proxy.core.requestinfo.selectors import FieldRequirement

LONG_S = "fal%C5%BFe"
"""The word "false" with the letter that Go folds to an s."""
BY_NAME = b"fieldSelector=metadata.name%3Dp"


@pytest.mark.parametrize("query", [b"", b"limitless=1", b"pretty=true&x"])
def test_query_without_list_options_has_the_defaults(query: bytes) -> None:
    assert parse_list_options(query) is DEFAULT_LIST_OPTIONS
    assert ListOptions(is_watch=False, name="", fields=(), labels=()) == DEFAULT_LIST_OPTIONS


@pytest.mark.parametrize(
    ("value", "is_watch"),
    [
        ("1", True),
        ("true", True),
        ("", True),
        ("yes", True),
        ("00", True),
        ("false1", True),
        ("0", False),
        ("false", False),
        ("FALSE", False),
        ("fAlSe", False),
        (LONG_S, False),
    ],
)
def test_watch_is_on_for_every_value_but_zero_and_false(value: str, *, is_watch: bool) -> None:
    query = f"watch={value}".encode()

    assert parse_list_options(query).is_watch == is_watch
    assert parse_watch_option(query) == ListOptions(is_watch, "", None, None)


@pytest.mark.parametrize(
    "broken", [b"fieldSelector=x", b"labelSelector=%21%21", b"limit=x", b"timeoutSeconds="]
)
def test_query_that_does_not_decode_keeps_its_watch_and_loses_its_name(broken: bytes) -> None:
    query = b"&" + broken + (b"" if broken.startswith(b"field") else b"&" + BY_NAME)

    assert parse_list_options(b"watch=1" + query).is_watch
    assert not parse_list_options(b"watch=false" + query).is_watch
    # A query that does not decode is compared in lower case, which leaves the long s as it is.
    assert parse_list_options(f"watch={LONG_S}".encode() + query).is_watch
    assert parse_list_options(query).name == ""


def test_selectors_that_do_not_parse_are_none() -> None:
    assert parse_list_options(b"fieldSelector=x").fields is None
    assert parse_list_options(b"fieldSelector=x").labels == ()
    assert parse_list_options(b"labelSelector=%21%21").labels is None
    assert parse_list_options(b"labelSelector=%21%21").fields == ()


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=p", "p"),
        ("metadata.name==p", "p"),
        ("spec.x=1,metadata.name=p", "p"),
        ("metadata.name!=p", ""),
        ("spec.x=p", ""),
        ("metadata.name=", ""),
        ("metadata.name=.", ""),
        ("metadata.name=..", ""),
        ("metadata.name=...", "..."),
        ("metadata.name=a/b", ""),
        ("metadata.name=a%25b", ""),
    ],
)
def test_name_is_the_one_that_the_field_selector_requires(selector: str, name: str) -> None:
    options = parse_list_options(f"fieldSelector={selector}".encode())

    assert options.name == name
    assert options.fields is not None


def test_first_value_of_a_repeated_option_counts() -> None:
    options = parse_list_options(b"watch=0&watch=1&" + BY_NAME + b"&fieldSelector=a%3Db")

    assert not options.is_watch
    assert options.fields == (FieldRequirement("metadata.name", "=", "p"),)


@pytest.mark.parametrize(
    ("number", "is_valid"),
    [
        ("0", True),
        ("-5", True),
        ("%2B5", True),
        ("9223372036854775807", True),
        ("9223372036854775808", False),
        ("-9223372036854775808", True),
        ("-9223372036854775809", False),
        ("0" * 100 + "5", True),
        ("9" * 5000, False),
        ("", False),
        ("1.0", False),
        ("1_000", False),
        ("%20" + "1", False),
        ("\u0661", False),
    ],
)
@pytest.mark.parametrize("option", ["limit", "timeoutSeconds"])
def test_integer_options_are_decoded_as_64_bits(
    option: str, number: str, *, is_valid: bool
) -> None:
    query = f"{option}={number}&".encode() + BY_NAME

    assert parse_list_options(query).name == ("p" if is_valid else "")


@pytest.mark.parametrize(
    "query",
    [
        b"fieldSelector=a=1,b=2&labelSelector=c",
        b"fieldSelector=a=1&labelSelector=b,c",
    ],
)
def test_selectors_have_at_most_the_given_number_of_terms_together(query: bytes) -> None:
    assert parse_list_options(query, max_terms=2).labels != ()
    with pytest.raises(SelectorTooLarge, match="more than 1 terms"):
        parse_list_options(query, max_terms=1)


def test_selectors_have_at_most_the_default_number_of_terms() -> None:
    query = b"labelSelector=a" + b",a" * (DEFAULT_SELECTOR_TERMS - 1)

    assert len(parse_list_options(query).labels or ()) == DEFAULT_SELECTOR_TERMS
    with pytest.raises(SelectorTooLarge):
        parse_list_options(query + b",a")


def test_field_selector_that_is_not_utf8_is_rejected() -> None:
    with pytest.raises(SelectorTooLarge, match="not valid UTF-8"):
        parse_list_options(b"fieldSelector=a=%ff")

    assert parse_list_options(b"fieldSelector=a=%C3%A9").fields == (
        FieldRequirement("a", "=", "\u00e9"),
    )


def test_watch_option_alone_leaves_selectors_unparsed() -> None:
    query = b"watch=1&" + BY_NAME + b",a%3Db" * DEFAULT_SELECTOR_TERMS

    assert parse_watch_option(query) == ListOptions(True, "", None, None)  # noqa: FBT003
    assert not parse_watch_option(BY_NAME).is_watch
