"""What is read of a request before its caller is known, and what only afterwards."""

import pytest

from proxy.core.errors import RequestInfoError
from proxy.core.gocompat.url import QueryParameter, first_value
from proxy.core.impersonation.headers import parse_impersonation_headers
from proxy.core.requestinfo.list_options import SelectorTooLarge
from proxy.core.requestinfo.request_info import (
    complete_request_info,
    parse_partial_request_info,
    parse_request_info,
)

LISTED = b"/api/v1/namespaces/n/pods?"


def test_short_selectors_are_parsed_at_once() -> None:
    parsed = parse_partial_request_info(b"GET", LISTED + b"fieldSelector=metadata.name=p")

    assert parsed.is_complete
    assert parsed.request_info.name == "p"


@pytest.mark.parametrize(("watch", "verb"), [(b"", "list"), (b"watch=1&", "watch")])
def test_long_selectors_are_read_when_the_caller_is_known(watch: bytes, verb: str) -> None:
    target = LISTED + watch + b"fieldSelector=metadata.name%3Dp" + b",a%3Db" * 100

    parsed = parse_partial_request_info(b"GET", target)
    whole = complete_request_info(parsed, b"GET", target)

    assert (parsed.is_complete, parsed.request_info.verb, parsed.request_info.name) == (
        False,
        verb,
        "",
    )
    assert parsed.request_info.has_unparsed_selector
    assert (whole.verb, whole.name, len(whole.fields)) == (verb, "p", 101)


def test_selectors_of_too_many_terms_are_refused_when_it_is_completed() -> None:
    target = LISTED + b"labelSelector=" + b"a," * 100 + b"a"
    parsed = parse_partial_request_info(b"GET", target)

    assert len(complete_request_info(parsed, b"GET", target, max_terms=101).labels) == 101
    with pytest.raises(SelectorTooLarge, match="more than 100 terms"):
        complete_request_info(parsed, b"GET", target, max_terms=100)


def test_field_selector_that_is_not_text_is_refused_when_it_is_completed() -> None:
    target = LISTED + b"fieldSelector=a=%ff"

    assert not parse_partial_request_info(b"GET", target).is_complete
    with pytest.raises(SelectorTooLarge, match="not valid UTF-8"):
        parse_request_info(b"GET", target)


def test_unreadable_target_is_cut_in_the_message() -> None:
    with pytest.raises(RequestInfoError) as refusal:
        parse_request_info(b"GET", b"/api/v1/watch?" + b"<" * 5000)

    assert len(refusal.value.message) < 3000
    assert refusal.value.message.endswith("...TRUNCATED")


def test_query_of_too_many_parameters_has_no_values() -> None:
    assert first_value(b"a=1" + b"&" * 10_000, QueryParameter("a")) is None


@pytest.mark.parametrize("constrained", [True, False])
def test_list_of_groups_without_a_user_is_cut_in_the_message(constrained: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    headers = [(b"Impersonate-Group", b"g" * 5000)] * 100

    with pytest.raises(Exception, match="TRUNCATED") as refusal:
        parse_impersonation_headers(headers, constrained=constrained)

    assert len(str(refusal.value)) < 100_000
