import pytest

from proxy.core.forwarding import (
    ForwardingRules,
    HopContext,
    IdentityInvariantError,
    assert_one_identity,
    build_outbound_head,
    build_response_lines,
    encode_end_to_end_headers,
)
from proxy.core.http.headers import (
    Header,
    HeaderList,
    encode_extra_key,
    encode_header_lines,
    parse_header_lines,
)
from proxy.core.impersonation.headers import parse_impersonation_headers
from proxy.core.impersonation.permit import Permit, permit_self
from proxy.core.userinfo import Caller, UserInfo, make_extra
from tests.support.sent_heads import outbound_headers

ALICE = UserInfo(
    "alice", uid="7", groups=("dev", "ops"), extra=make_extra({"Acme.io/P": ["1", "2"], "b": [""]})
)
ADMISSION = permit_self(Caller(ALICE))
HOP = HopContext(b"audit-1", b"10.0.0.1")
IDENTITY_LINES = [
    (b"Impersonate-User", b"alice"),
    (b"Impersonate-Uid", b"7"),
    (b"Impersonate-Group", b"dev"),
    (b"Impersonate-Group", b"ops"),
    (b"Impersonate-Extra-%41cme.io%2F%50", b"1"),
    (b"Impersonate-Extra-%41cme.io%2F%50", b"2"),
    (b"Impersonate-Extra-b", b""),
]
OURS = [(b"X-Forwarded-For", b"10.0.0.1"), (b"Audit-ID", b"audit-1")]


def test_end_to_end_headers_pass_as_they_came_and_ours_come_last() -> None:
    headers = [
        (b"Host", b"h"), (b"user-AGENT", b"kubectl"), (b"X-Stream-Protocol-Version", b"v5"),
        (b"X-Stream-Protocol-Version", b"v4"), (b"Cookie", b"c"), (b"Content-Length", b"3"),
    ]  # fmt: skip

    assert outbound_headers(headers, ADMISSION, HOP) == [*headers, *OURS, *IDENTITY_LINES]


def test_lines_to_forward_are_encoded_once_for_the_same_rules_only() -> None:
    headers, rules = HeaderList([(b"Accept", b"a"), (b"X-Front", b"carol")]), ForwardingRules()
    other = ForwardingRules(dropped_names=frozenset({b"x-front"}))

    lines = rules.forwarded_headers(headers)

    assert lines == b"Accept: a\r\nX-Front: carol\r\n"
    assert rules.forwarded_headers(headers) is lines
    assert other.forwarded_headers(headers) == b"Accept: a\r\n"
    assert rules.forwarded_headers(headers) == lines


@pytest.mark.parametrize(
    "name",
    [
        b"Connection", b"Keep-Alive", b"Proxy-Connection", b"Proxy-Authenticate", b"TE",
        b"Proxy-Authorization", b"Trailer", b"Transfer-Encoding", b"Upgrade", b"Expect",
        b"HTTP2-Settings", b"Authorization", b"Impersonate-User", b"Impersonate-Uid",
        b"Impersonate-Group", b"Impersonate-Extra-x", b"Impersonate-Foo", b"Impersonate",
        b"X-Remote-User", b"X-Remote-Group", b"X-Remote-Uid", b"X-Remote-Extra-x", b"Audit-ID",
        b"X-Forwarded-For", b"X-Forwarded-Host", b"X-Forwarded-Proto", b"Forwarded", b"X-Real-Ip",
        b"X-Forwarded-Client-Cert",
    ],
)  # fmt: skip
def test_a_header_that_is_not_the_client_s_to_send_stays_behind(name: bytes) -> None:
    spellings = [name, name.lower(), name.upper(), name.replace(b"-", b"_")]
    headers = [(spelling, b"evil") for spelling in spellings]

    assert outbound_headers(headers, ADMISSION, HOP) == [*OURS, *IDENTITY_LINES]


@pytest.mark.parametrize(
    "connection",
    [
        [b"Impersonate-User, Impersonate-Group, Authorization, Audit-ID, X-Forwarded-For"],
        [b"", b" impersonate-user ,IMPERSONATE_GROUP"],
        [b"close", b"Host, Content-Length"],
    ],
)
def test_naming_our_headers_in_connection_removes_none_of_them(connection: list[bytes]) -> None:
    kept = [(b"Host", b"h"), (b"Content-Length", b"3")]
    context = HopContext(b"audit-1", b"10.0.0.1", authorization=b"Bearer ours")

    sent = outbound_headers([*kept, *((b"Connection", c) for c in connection)], ADMISSION, context)

    assert sent == [*kept, *OURS, (b"Authorization", b"Bearer ours"), *IDENTITY_LINES]


def test_what_the_client_names_in_connection_is_its_own_to_lose() -> None:
    headers = [(b"Connection", b"x-a, X-B"), (b"X-A", b"1"), (b"x_b", b"2"), (b"X-C", b"3")]

    assert outbound_headers(headers, ADMISSION, HOP)[0] == (b"X-C", b"3")


def test_an_upgrade_is_asked_for_anew_in_the_client_s_spelling() -> None:
    headers = [(b"Connection", b"Upgrade, Impersonate-User"), (b"Upgrade", b"SPDY/3.1")]
    context = HopContext(b"audit-1", b"10.0.0.1", upgrade=b"SPDY/3.1")

    assert outbound_headers(headers, ADMISSION, context) == [
        *OURS,
        (b"Connection", b"Upgrade"),
        (b"Upgrade", b"SPDY/3.1"),
        *IDENTITY_LINES,
    ]


def test_a_chunked_body_has_no_length() -> None:
    context = HopContext(b"audit-1", b"10.0.0.1", is_chunked=True)

    sent = outbound_headers([(b"Content-Length", b"3")], ADMISSION, context)

    assert sent == [*OURS, (b"Transfer-Encoding", b"chunked"), *IDENTITY_LINES]


def test_a_look_alike_of_a_framing_header_is_dropped() -> None:
    headers = [(b"Content_Length", b"9"), (b"HOST", b"h"), (b"Sec_WebSocket_Protocol", b"v5")]

    assert outbound_headers(headers, ADMISSION, HOP)[:-7] == [(b"HOST", b"h"), *OURS]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"v5.channel.k8s.io, v4.channel.k8s.io", b"v5.channel.k8s.io, v4.channel.k8s.io"),
        (
            b"base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io",
            b"v5.channel.k8s.io",
        ),
        (b"a , base64url.bearer.authorization.k8s.io.c2VjcmV0,b", b"a,b"),
        (b"base64url.bearer.authorization.k8s.io.c2VjcmV0", None),
    ],
)
def test_a_token_in_a_subprotocol_is_never_passed_on(sent: bytes, expected: bytes | None) -> None:
    lines = outbound_headers([(b"Sec-WebSocket-Protocol", sent)], ADMISSION, HOP)

    protocols = [value for name, value in lines if name == b"Sec-WebSocket-Protocol"]
    assert protocols == ([] if expected is None else [expected])


def test_a_trusted_proxy_s_word_about_the_origin_is_extended() -> None:
    headers = [
        (b"X-Forwarded-For", b"1.1.1.1"), (b"X-Forwarded-For", b""),
        (b"x-forwarded-for", b"2.2.2.2, 3.3.3.3"), (b"X-Real-Ip", b"1.1.1.1"),
        (b"Forwarded", b"for=1.1.1.1"), (b"X-Forwarded-Host", b"h"),
        (b"X-Forwarded-Client-Cert", b"cert"),
    ]  # fmt: skip
    context = HopContext(b"audit-1", b"10.0.0.1", trusts_peer=True)

    assert outbound_headers(headers, ADMISSION, context)[:-7] == [
        (b"X-Real-Ip", b"1.1.1.1"),
        (b"Forwarded", b"for=1.1.1.1"),
        (b"X-Forwarded-Host", b"h"),
        (b"X-Forwarded-For", b"1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.1"),
        (b"Audit-ID", b"audit-1"),
    ]


def test_configured_front_proxy_names_and_host_are_applied() -> None:
    rules = ForwardingRules(
        host=b"api", dropped_names=frozenset({b"x-user"}), dropped_prefixes=(b"x-extra-",)
    )
    headers = [(b"host", b"h"), (b"X-User", b"u"), (b"X-Extra-A", b"a"), (b"X-Users", b"ok")]

    sent = outbound_headers(headers, ADMISSION, HOP, rules=rules)

    assert sent[:2] == [(b"Host", b"api"), (b"X-Users", b"ok")]
    assert len(sent) == 2 + len(OURS) + len(IDENTITY_LINES)


@pytest.mark.parametrize(
    "key",
    ["acme.com/Project", "a%2fb", "%zz", "authentication.kubernetes.io/node-name", "", "é ", "Ä"],
)
def test_an_extra_key_arrives_as_it_was(key: str) -> None:
    name = b"Impersonate-Extra-" + encode_extra_key(key)

    wanted_user = parse_impersonation_headers([(b"Impersonate-User", b"u"), (name, b"v")])

    assert wanted_user == UserInfo("u", extra=make_extra({key: ["v"]}))


def test_a_long_extra_key_is_encoded_like_a_short_one() -> None:
    assert encode_extra_key("A/" * 100) == b"%41%2F" * 100


FIRST_LINE = b"GET / HTTP/1.1"
WHOLE = encode_header_lines(IDENTITY_LINES)


@pytest.mark.parametrize("authorization", [None, b"Bearer ours"])
def test_the_identity_we_built_passes_the_last_look(authorization: bytes | None) -> None:
    headers = HeaderList([(b"Host", b"h"), (b"Authorization-Hint", b"x"), (b"X-Remote", b"y")])
    context = HopContext(b"audit-1", b"10.0.0.1", authorization=authorization)

    head = build_outbound_head(FIRST_LINE, headers, ADMISSION, context)

    assert_one_identity(head, ADMISSION, authorization)


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        encode_header_lines(IDENTITY_LINES[1:]),
        encode_header_lines(IDENTITY_LINES[:-1]),
        WHOLE + b"Accept: */*\r\n",
        b"Impersonate-User: \r\n" + WHOLE,
        b"impersonate_group: system:masters\r\n" + WHOLE,
        b"X-Remote-User: root\r\n" + WHOLE,
        b"x_remote_user: root\r\n" + WHOLE,
        b"Authorization: Bearer stolen\r\n" + WHOLE,
        b"authorization : Bearer stolen\r\n" + WHOLE,
        b"Accept: a\nImpersonate-User: bob\r\n" + WHOLE,
        b"Accept: a\r\n Impersonate-User: bob\r\n" + WHOLE,
        b"Impersonate-User: bob\r\n" + encode_header_lines(IDENTITY_LINES[1:]),
    ],
)
def test_a_request_without_exactly_the_admitted_identity_is_stopped(lines: bytes) -> None:
    with pytest.raises(IdentityInvariantError):
        assert_one_identity(b"%b\r\nHost: h\r\n%b\r\n" % (FIRST_LINE, lines), ADMISSION, None)


@pytest.mark.parametrize(
    "lines",
    [
        WHOLE,
        b"Authorization: Bearer stolen\r\n" + WHOLE,
        b"Authorization: Bearer stolen\r\nAuthorization: Bearer ours\r\n" + WHOLE,
        b"Authorization: Bearer ours\r\nAuthorization: Bearer ours\r\n" + WHOLE,
        b"Authorization: Bearer ours\r\nImpersonate-Group: g\r\n" + WHOLE,
        b"Impersonate-Group: g\r\nAuthorization: Bearer ours\r\n" + WHOLE,
    ],
)
def test_a_request_without_exactly_our_credential_is_stopped(lines: bytes) -> None:
    head = b"%b\r\nHost: h\r\n%b\r\n" % (FIRST_LINE, lines)

    with pytest.raises(IdentityInvariantError):
        assert_one_identity(head, ADMISSION, b"Bearer ours")


def test_an_admission_of_nobody_is_stopped() -> None:
    nobody = Permit(Caller(ALICE), UserInfo(""))
    head = b"%b\r\nHost: h\r\nImpersonate-User: \r\n\r\n" % FIRST_LINE

    with pytest.raises(IdentityInvariantError):
        assert_one_identity(head, nobody, None)


def returned_headers(
    headers: list[Header],
    *,
    audit_id: bytes,
    warning: str | None = None,
    upgrade: bytes | None = None,
) -> list[Header]:
    lines = b"HTTP/1.1 200 OK\r\n" + encode_end_to_end_headers(headers)
    head = build_response_lines(lines, audit_id=audit_id, warning=warning, upgrade=upgrade)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    return parse_header_lines(head)


def test_a_response_keeps_everything_but_what_belongs_to_one_hop() -> None:
    headers = [
        (b"Date", b"now"), (b"Warning", b'299 - "a"'), (b"Warning", b'299 - "b"'),
        (b"Connection", b"x-hop, Content-Length"), (b"X-Hop", b"1"), (b"Keep-Alive", b"t"),
        (b"Transfer-Encoding", b"chunked"), (b"Audit-Id", b"audit-1"), (b"Content-Length", b"0"),
        (b"Upgrade", b"websocket"), (b"Set-Cookie", b"a"), (b"Content-Encoding", b"gzip"),
    ]  # fmt: skip

    assert returned_headers(headers, audit_id=b"audit-1") == [
        (b"Date", b"now"),
        (b"Warning", b'299 - "a"'),
        (b"Warning", b'299 - "b"'),
        (b"Content-Length", b"0"),
        (b"Set-Cookie", b"a"),
        (b"Content-Encoding", b"gzip"),
        (b"Audit-Id", b"audit-1"),
    ]


def test_an_accepted_upgrade_is_told_to_the_client() -> None:
    headers = [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), (b"X-A", b"1")]

    assert returned_headers(headers, audit_id=b"id", upgrade=b"websocket") == [
        (b"X-A", b"1"),
        (b"Audit-Id", b"id"),
        (b"Connection", b"Upgrade"),
        (b"Upgrade", b"websocket"),
    ]


def test_a_warning_of_ours_comes_after_those_of_the_api_server() -> None:
    headers = [(b"Warning", b'299 - "theirs"')]

    returned = returned_headers(headers, audit_id=b"id", warning="ours")

    assert [value for name, value in returned if name == b"Warning"] == [
        b'299 - "theirs"',
        b'299 - "ours"',
    ]
