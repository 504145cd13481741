"""Whatever arrives is understood or refused: no input makes the reading of a request fail."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.errors import BadRequest, RequestInfoError, StatusError
from proxy.core.gocompat.quote import go_quote
from proxy.core.gocompat.url import request_uri
from proxy.core.http.headers import check_header_safe
from proxy.core.http.status import status_response, wants_pretty
from proxy.core.impersonation.headers import parse_impersonation_headers
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.requestinfo.selectors import parse_field_selector, parse_label_selector
from tests.core.vectors import ActionVector, SelectorVector, load

pytestmark = pytest.mark.timeout(120)  # many examples on a busy machine

KNOWN_TARGETS = [vector["Target"].encode() for vector in load("actions", ActionVector)]
KNOWN_SELECTORS = [
    vector["Text"]
    for name in ("field_selectors", "label_selectors")
    for vector in load(name, SelectorVector)
]
methods = st.sampled_from([b"GET", b"POST", b"DELETE", b"OPTIONS", b"get", b""]) | st.binary()


@st.composite
def targets(draw: st.DrawFn) -> bytes:
    """Draw anything, or a known target with some bytes of it replaced."""
    target = draw(st.sampled_from(KNOWN_TARGETS))
    start = draw(st.integers(0, len(target)))
    end = draw(st.integers(start, min(start + 3, len(target))))
    odd = st.sampled_from([b"%", b"%2F", b"%00", b"%ff", b"/", b"?", b"&", b";", b"#", b" ", b"="])
    return draw(
        st.just(target[:start] + draw(odd | st.binary(max_size=2)) + target[end:]) | st.binary()
    )


@settings(max_examples=500)
@given(methods, targets())
def test_a_request_is_an_action_or_refused(method: bytes, target: bytes) -> None:
    try:
        request_info = parse_request_info(method, target)
    except (BadRequest, RequestInfoError):
        return

    assert isinstance(request_info, RequestInfo)
    request_info.path.encode()
    request_uri(target)


@settings(max_examples=500)
@given(st.lists(st.sampled_from(KNOWN_SELECTORS) | st.text(), max_size=3).map(",".join))
def test_a_selector_parses_or_does_not(selector: str) -> None:
    labels, fields = parse_label_selector(selector), parse_field_selector(selector)

    assert all(values == tuple(sorted(set(values))) for _, _, values in labels or ())
    assert all(operator in {"=", "!="} for _, operator, _ in fields or ())


header_names = st.sampled_from(
    [
        b"Impersonate-User",
        b"Impersonate-Uid",
        b"Impersonate-Group",
        b"Impersonate-Extra-a",
        b"Impersonate-Extra-%41%2fb",
        b"Impersonate-Extra-",
        b"Impersonate_User",
        b"impersonate",
        b"Accept",
        b"User-Agent",
    ]
) | st.binary().map(lambda rest: b"Impersonate-Extra-" + rest)
header_values = st.sampled_from([b"", b"alice", b" x", b"a\n", b"\xff"]) | st.binary()


@settings(max_examples=500)
@given(st.lists(st.tuples(header_names, header_values), max_size=6))
def test_headers_name_an_identity_that_can_be_forwarded_or_are_refused(
    headers: list[tuple[bytes, bytes]],
) -> None:
    for constrained in (True, False):
        try:
            wanted_user = parse_impersonation_headers(headers, constrained=constrained)
        except BadRequest:
            continue

        if wanted_user is not None:
            check_header_safe(wanted_user)


# Joined from a list: the strategy for texts leaves lone surrogates out.
odd_texts = st.lists(
    st.sampled_from(['"', "<", "&", "\\", "\ud800", "\udcff", "\u2028", "\n"]) | st.characters(),
    max_size=20,
).map("".join)


@given(odd_texts)
def test_any_text_can_be_quoted_on_one_line(text: str) -> None:
    quoted = go_quote(text)

    assert quoted.startswith('"')
    assert quoted.endswith('"')
    assert not any(character < " " for character in quoted)


@given(
    odd_texts,
    st.lists(st.tuples(st.sampled_from([b"Accept", b"User-Agent"]), st.binary()), max_size=2),
    st.binary(),
)
def test_any_refusal_can_be_told_to_anyone(
    message: str, headers: list[tuple[bytes, bytes]], target: bytes
) -> None:
    _, body = status_response(StatusError(message), headers, target, audit_id=b"id")

    told = json.loads(body)["message"]
    assert len(told) == len(message)
    assert wants_pretty(headers, target.partition(b"?")[2]) is not body.endswith(b"\n")
