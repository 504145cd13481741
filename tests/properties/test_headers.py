"""What holds for every forwarded request: one identity, and it is the admitted one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.errors import Forbidden
from proxy.core.forwarding import (
    HopContext,
    assert_one_identity,
    build_outbound_head,
    build_response_lines,
    encode_end_to_end_headers,
    normalize_header_name,
)
from proxy.core.http.headers import (
    HeaderList,
    check_header_safe,
    impersonation_header_lines,
    parse_header_lines,
)
from proxy.core.impersonation.headers import parse_impersonation_headers
from proxy.core.impersonation.permit import IdentityRestrictions, permit_self
from proxy.core.userinfo import Caller, UserInfo, make_extra
from tests.properties import strategies
from tests.support.sent_heads import lines_of

pytestmark = pytest.mark.timeout(120)  # many examples on a busy machine

GUARDS = IdentityRestrictions(protected_groups=frozenset())
EVIL = b"evil"
DANGEROUS = [
    b"Authorization",
    b"Impersonate-User",
    b"Impersonate-Group",
    b"Impersonate-Uid",
    b"Impersonate-Extra-a",
    b"Impersonate-Anything",
    b"X-Remote-User",
    b"X-Remote-Group",
    b"X-Remote-Extra-a",
    b"Proxy-Authorization",
    b"Transfer-Encoding",
    b"Audit-ID",
    b"X-Forwarded-For",
]


@st.composite
def spellings(draw: st.DrawFn) -> bytes:
    """Draw a dangerous name in some case, with some dashes as underscores."""
    name = draw(st.sampled_from(DANGEROUS)).decode()
    letters = [
        draw(st.sampled_from([letter.lower(), letter.upper(), letter.replace("-", "_")]))
        for letter in name
    ]
    return "".join(letters).encode()


client_headers = st.lists(
    st.tuples(spellings(), st.just(EVIL))
    | st.tuples(
        st.just(b"Connection"),
        st.lists(spellings() | st.just(b"close"), max_size=3).map(b", ".join),
    )
    | st.tuples(st.sampled_from([b"Accept", b"Host", b"Content-Length", b"X-Own"]), st.just(b"1")),
    max_size=8,
)
hops = st.builds(
    HopContext,
    st.just(b"audit"),
    st.just(b"10.0.0.1"),
    authorization=st.sampled_from([None, b"Bearer ours"]),
    upgrade=st.sampled_from([None, b"websocket"]),
    is_chunked=st.booleans(),
)


@settings(max_examples=200)
@given(client_headers, hops, strategies.identities)
def test_no_identity_of_the_client_s_making_reaches_the_api_server(
    headers: list[tuple[bytes, bytes]], context: HopContext, user: UserInfo
) -> None:
    permit = permit_self(Caller(user), restrictions=GUARDS)

    head = build_outbound_head(b"GET / HTTP/1.1", HeaderList(headers), permit, context)

    assert_one_identity(head, permit, context.authorization)
    sent = lines_of(head)
    assert [line for line in sent if line[1] == EVIL] == []
    names = [normalize_header_name(name) for name, _ in sent]
    assert names.count(b"impersonate-user") == 1
    assert names.count(b"authorization") == (context.authorization is not None)
    assert names.count(b"audit-id") == names.count(b"x-forwarded-for") == 1
    kept = {b"host", b"content-length"} if not context.is_chunked else {b"host"}
    for name in kept:
        assert names.count(name) == [normalize_header_name(n) for n, _ in headers].count(name)


safe_texts = st.text(st.sampled_from("%41aA/\u00e9"), min_size=1, max_size=4)
safe_identities = st.builds(
    UserInfo,
    safe_texts,
    safe_texts | st.just(""),
    st.lists(safe_texts | st.just(""), max_size=3).map(tuple),
    st.dictionaries(safe_texts, st.lists(safe_texts, min_size=1, max_size=2), max_size=2).map(
        make_extra
    ),
)
# Joined from a list: the strategy for texts leaves lone surrogates out.
odd_texts = st.lists(
    st.sampled_from(["a", "a", " ", "\t", "\n", "\ud800", "\u00e9", "\x7f"]), max_size=3
).map("".join)
odd_identities = st.builds(
    UserInfo, odd_texts, odd_texts, extra=odd_texts.map(lambda key: make_extra({key: ["v"]}))
)


@settings(max_examples=300)
@given(safe_identities)
def test_a_usual_identity_arrives_as_it_was(user: UserInfo) -> None:
    check_header_safe(user)

    assert parse_impersonation_headers(impersonation_header_lines(user)) == user


@settings(max_examples=300)
@given(odd_identities)
def test_an_odd_identity_arrives_as_it_was_or_does_not_leave(user: UserInfo) -> None:
    try:
        check_header_safe(user)
    except Forbidden:
        return

    assert parse_impersonation_headers(impersonation_header_lines(user)) == user


@given(client_headers)
def test_a_response_is_never_stripped_of_its_length(headers: list[tuple[bytes, bytes]]) -> None:
    lines = b"HTTP/1.1 200 OK\r\n" + encode_end_to_end_headers(headers)
    returned = parse_header_lines(build_response_lines(lines, audit_id=b"audit"))

    names = [name.lower() for name, _ in returned]
    assert names.count(b"content-length") == [n.lower() for n, _ in headers].count(
        b"content-length"
    )
    assert names.count(b"audit-id") == 1
    assert b"transfer-encoding" not in names
