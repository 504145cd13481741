"""Headers that cross the proxy, in both directions.

Outgoing heads are built from empty. Permitted lines are copied, and the proxy's own lines are
added last. Nothing runs afterwards that could remove a line. So a client that lists the proxy's
headers in its `Connection` header only loses headers of its own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.core.http.headers import DerivedValue, Header, HeaderList, encode_header_lines
from proxy.core.http.websocket import PROTOCOL_HEADER, remove_tokens
from proxy.core.impersonation.permit import Permit

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_DROPPED_RESPONSE_HEADERS = _HOP_BY_HOP | {b"audit-id"}
# Never copied from any client. They carry an identity, or are hop-by-hop, or `_special_line`
# decides about each.
_SPECIAL_HEADERS = _HOP_BY_HOP | {
    b"audit-id",
    b"authorization",
    b"content-length",
    b"expect",
    b"host",
    b"http2-settings",
    PROTOCOL_HEADER,
    b"x-forwarded-client-cert",
    b"x-forwarded-for",
}
_IDENTITY_PREFIXES = (b"impersonate", b"x-remote-")
_UNTRUSTED_PREFIXES = (*_IDENTITY_PREFIXES, b"x-forwarded-", b"x-real-ip", b"forwarded")
# Headers that name a user, as the most lenient later hop might parse them: in any letter case,
# with underscores for hyphens, after a bare line feed, and with leading whitespace.
_IDENTITY_HEADER = re.compile(
    rb"\n[ \t]*(?:impersonate|x[-_]remote[-_]|authorization[ \t]*:)", re.IGNORECASE
)


class HopContext(NamedTuple):
    """Properties of one exchange other than its headers.

    `authorization` is the proxy's own credential, never the client's. `upgrade` is the protocol to
    switch to, exactly as the client wrote it, or None for plain HTTP. `trusts_peer` means that the
    peer's forwarding headers are trusted.
    """

    audit_id: bytes
    peer_address: bytes
    authorization: bytes | None = None
    upgrade: bytes | None = None
    is_chunked: bool = False
    trusts_peer: bool = False


@dataclass(frozen=True, slots=True)
class ForwardingRules:
    """Configured rules: a replacement Host, and front-proxy header names (lower case) to drop."""

    host: bytes | None = None
    dropped_names: frozenset[bytes] = frozenset()
    dropped_prefixes: tuple[bytes, ...] = ()

    def forwarded_headers(self, headers: HeaderList) -> bytes:
        """Return the lines to forward for an untrusted client whose body is not chunked."""
        known = headers.forwarded
        if known is None or known.rules is not self:
            lines = _encode_forwarded(headers, self, trusts_peer=False, is_chunked=False)
            known = headers.forwarded = DerivedValue(self, lines)
        return known.value


DEFAULT_FORWARDING_RULES = ForwardingRules()


class IdentityInvariantError(Exception):
    """An outgoing request lacks its single identity: a bug in the proxy, so nothing is sent."""


class OutboundHeadTemplate(NamedTuple):
    """The head of a request to the API server, without its audit id."""

    before: bytes
    after: bytes

    def with_audit_id(self, audit_id: bytes) -> bytes:
        """Return the request head with this audit id."""
        return self.before + audit_id + self.after


def build_outbound_head(
    first_line: bytes,
    headers: HeaderList,
    permit: Permit,
    context: HopContext,
    *,
    rules: ForwardingRules = DEFAULT_FORWARDING_RULES,
) -> bytes:
    """Return the head of the request to the API server, with one identity: the permitted user."""
    return build_outbound_template(first_line, headers, permit, context, rules=rules).with_audit_id(
        context.audit_id
    )


def build_outbound_template(
    first_line: bytes,
    headers: HeaderList,
    permit: Permit,
    context: HopContext,
    *,
    rules: ForwardingRules = DEFAULT_FORWARDING_RULES,
) -> OutboundHeadTemplate:
    """Return the head of the request to the API server as a template for any audit id."""
    if context.trusts_peer or context.is_chunked:
        copied = _encode_forwarded(
            headers, rules, trusts_peer=context.trusts_peer, is_chunked=context.is_chunked
        )
    else:
        copied = rules.forwarded_headers(headers)
    address = _forwarded_for(headers, context) if context.trusts_peer else context.peer_address
    before = b"%b\r\n%bX-Forwarded-For: %b\r\nAudit-ID: " % (first_line, copied, address)
    after = b"\r\n"
    if context.is_chunked:
        after += b"Transfer-Encoding: chunked\r\n"
    if context.upgrade is not None:
        after += b"Connection: Upgrade\r\nUpgrade: %b\r\n" % context.upgrade
    if context.authorization is not None:
        after += b"Authorization: %b\r\n" % context.authorization
    return OutboundHeadTemplate(before, b"%b%b\r\n" % (after, permit.impersonation_headers))


def assert_one_identity(head: bytes, permit: Permit, authorization: bytes | None) -> None:
    """Raise IdentityInvariantError unless a head ends in the permitted user and names no other.

    Call it right before the first byte is written, on those very bytes. An error here then means
    that nothing was sent. The proxy's own credential precedes the permitted user, if it is sent in
    a header. No line before that may name a user.
    """
    assert_identity_suffix(build_identity_suffix(permit, authorization), head)


def build_identity_suffix(permit: Permit, authorization: bytes | None) -> bytes:
    """Return the bytes that end the head of every request forwarded by this permit."""
    lines, name = permit.impersonation_headers, permit.user.name
    if not name or not lines.startswith(b"Impersonate-User: %b\r\n" % name.encode()):
        raise IdentityInvariantError("the permit lacks the impersonation headers of its user")
    credential = b"" if authorization is None else b"Authorization: %b\r\n" % authorization
    return b"\r\n%b%b\r\n" % (credential, lines)


def assert_identity_suffix(ending: bytes, head: bytes) -> None:
    """Check the same as `assert_one_identity`, with a suffix cached from an equal request."""
    if not head.endswith(ending):
        raise IdentityInvariantError("the outgoing request does not carry the permitted user")
    if _IDENTITY_HEADER.search(head, 0, len(head) - len(ending)) is not None:
        raise IdentityInvariantError("the outgoing request carries a second identity")


def encode_end_to_end_headers(headers: Sequence[Header]) -> bytes:
    """Return the response headers that may reach the client, encoded, in order, all values.

    A Content-Length is kept. Any other framing is dropped, and so is the API server's audit id.
    """
    names = [name.lower() for name, _ in headers]
    dropped = _DROPPED_RESPONSE_HEADERS
    if b"connection" in names:
        dropped |= _connection_options(headers) - {b"content-length"}
    return encode_header_lines(
        [line for name, line in zip(names, headers, strict=True) if name not in dropped]
    )


def build_response_lines(
    lines: bytes,
    *,
    audit_id: bytes,
    warning: str | None = None,
    upgrade: bytes | None = None,
) -> bytes:
    """Return the response head that the client receives, without the framing of its body.

    `lines` are the status line and the end-to-end headers. The audit id is sent once.
    """
    lines += b"Audit-Id: %b\r\n" % audit_id
    if warning is not None:
        lines += b'Warning: 299 - "%b"\r\n' % warning.encode("ascii")
    if upgrade is not None:
        lines += b"Connection: Upgrade\r\nUpgrade: %b\r\n" % upgrade
    return lines


def normalize_header_name(name: bytes) -> bytes:
    """Return a header name as the most lenient later hop might parse it."""
    return name.lower().replace(b"_", b"-")


def _encode_forwarded(
    headers: HeaderList, rules: ForwardingRules, *, trusts_peer: bool, is_chunked: bool
) -> bytes:
    """Return the client's header lines that are forwarded, encoded for the wire."""
    lines: Sequence[Header] = headers
    names = [normalize_header_name(name) for name, _ in lines]
    if PROTOCOL_HEADER in names:
        lines = remove_tokens(lines)
        names = [normalize_header_name(name) for name, _ in lines]
    dropped = rules.dropped_names
    if b"connection" in names:
        dropped |= _connection_options(lines)
    prefixes: tuple[bytes, ...] = _IDENTITY_PREFIXES if trusts_peer else _UNTRUSTED_PREFIXES
    prefixes += rules.dropped_prefixes
    forwarded = []
    for name, line in zip(names, lines, strict=True):
        if name in _SPECIAL_HEADERS:
            kept = _special_line(line, rules, is_chunked=is_chunked)
            if kept is not None:
                forwarded.append(kept)
        elif name not in dropped and not name.startswith(prefixes):
            forwarded.append(line)
    return encode_header_lines(forwarded)


def _special_line(line: Header, rules: ForwardingRules, *, is_chunked: bool) -> Header | None:
    """Return the line to forward for a special header, or None if it is dropped.

    Connection options do not apply to these: a body without its length would be parsed as a
    request. The name must match exactly, so that look-alikes are dropped.
    """
    exact = line[0].lower()
    if exact == b"host":
        return line if rules.host is None else (b"Host", rules.host)
    if exact == b"content-length" and not is_chunked:
        return line
    return line if exact == PROTOCOL_HEADER else None


def _connection_options(headers: Sequence[Header]) -> set[bytes]:
    named: set[bytes] = set()
    for name, value in headers:
        if name.lower() == b"connection":
            named.update(normalize_header_name(token.strip()) for token in value.split(b","))
    return named


def _forwarded_for(headers: Sequence[Header], context: HopContext) -> bytes:
    # One line: the API server reads only the first, and it must contain the proxy's peer.
    received = [value for name, value in headers if name.lower() == b"x-forwarded-for" and value]
    return b", ".join((*received, context.peer_address))
