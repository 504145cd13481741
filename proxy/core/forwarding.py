"""Which headers cross the proxy, each way.

Outgoing heads are built from empty: what may pass is copied, what is ours is added last, and
nothing runs afterwards that could remove a line. So a client that names our headers in its
`Connection` header only loses headers of its own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.core.http.headers import Header, HeaderList, encoded_lines
from proxy.core.http.websocket import PROTOCOL_HEADER, without_tokens
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
_NEVER_RETURNED = _HOP_BY_HOP | {b"audit-id"}
# Not copied from a client, whoever it is: they carry an identity, or belong to this hop alone, or
# are looked at one by one.
_SPECIAL = _HOP_BY_HOP | {
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
# What says who is asking, as the most careless later hop might read it: in any case, with
# underscores for hyphens, after a bare line feed, and with blanks before it.
_SAYS_WHO = re.compile(
    rb"\n[ \t]*(?:impersonate|x[-_]remote[-_]|authorization[ \t]*:)", re.IGNORECASE
)

_UPGRADE = (b"Connection", b"Upgrade")


class HopContext(NamedTuple):
    """What is true of one exchange besides its headers.

    `authorization` is our own credential, never the client's. `upgrade` is the protocol to switch
    to, exactly as the client wrote it, or None for plain HTTP. `trusts_peer` says that the peer's
    word about where a request came from is taken.
    """

    audit_id: bytes
    peer_address: bytes
    authorization: bytes | None = None
    upgrade: bytes | None = None
    is_chunked: bool = False
    trusts_peer: bool = False


@dataclass(frozen=True, slots=True)
class ForwardingRules:
    """What the configuration adds: another Host, and front-proxy header names (lower case)."""

    host: bytes | None = None
    dropped_names: frozenset[bytes] = frozenset()
    dropped_prefixes: tuple[bytes, ...] = ()

    def forwarded_headers(self, headers: HeaderList) -> bytes:
        """Return the lines that cross the proxy, of a client that is not trusted, not chunked."""
        return _copied(headers, self, trusts_peer=False, is_chunked=False)


NO_RULES = ForwardingRules()


class IdentityInvariantError(Exception):
    """A request is about to leave without its one identity: a bug of ours, so nothing is sent."""


class OutboundHeadTemplate(NamedTuple):
    """The head of a request to the API server, but for its audit id."""

    before: bytes
    after: bytes

    def with_audit_id(self, audit_id: bytes) -> bytes:
        """Return the head of the request that has this id."""
        return self.before + audit_id + self.after


def build_outbound_head(
    first_line: bytes,
    headers: HeaderList,
    permit: Permit,
    context: HopContext,
    *,
    rules: ForwardingRules = NO_RULES,
) -> bytes:
    """Return the head of the request to the API server, with exactly one identity: acting."""
    return build_outbound_template(first_line, headers, permit, context, rules=rules).with_audit_id(
        context.audit_id
    )


def build_outbound_template(
    first_line: bytes,
    headers: HeaderList,
    permit: Permit,
    context: HopContext,
    *,
    rules: ForwardingRules = NO_RULES,
) -> OutboundHeadTemplate:
    """Return that head in two parts, for any audit id."""
    if context.trusts_peer or context.is_chunked:
        copied = _copied(
            headers, rules, trusts_peer=context.trusts_peer, is_chunked=context.is_chunked
        )
    else:
        copied = headers.memoize(rules.forwarded_headers)
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
    """Let a request pass only if it ends in the admitted identity, whole, and names nobody else.

    For use right before the first byte is written, on the very bytes: an error here means nothing
    was sent. Before the admitted identity stands our own credential, if we have one that travels
    in a header, and before that nothing that says who is asking.
    """
    assert_identity_suffix(identity_suffix(permit, authorization), head)


def identity_suffix(permit: Permit, authorization: bytes | None) -> bytes:
    """Return what the head of every request ends in that leaves by this permit."""
    lines, name = permit.impersonation_headers, permit.user.name
    if not name or not lines.startswith(b"Impersonate-User: %b\r\n" % name.encode()):
        raise IdentityInvariantError("the admitted identity is not whole")
    credential = b"" if authorization is None else b"Authorization: %b\r\n" % authorization
    return b"\r\n%b%b\r\n" % (credential, lines)


def assert_identity_suffix(ending: bytes, head: bytes) -> None:
    """Do as `assert_one_identity` does, where the ending is known from an equal request."""
    if not head.endswith(ending):
        raise IdentityInvariantError("the outgoing request does not carry the admitted identity")
    if _SAYS_WHO.search(head, 0, len(head) - len(ending)) is not None:
        raise IdentityInvariantError("the outgoing request carries a second identity")


def response_headers(
    headers: Sequence[Header],
    *,
    audit_id: bytes,
    upgrade: bytes | None = None,
    warning: str | None = None,
) -> list[Header]:
    """Return the headers of the response to the client: end-to-end ones, in order, all values.

    A Content-Length stays; any other framing is the caller's to add. The audit id goes out once.
    """
    names = [name.lower() for name, _ in headers]
    dropped = _NEVER_RETURNED
    if b"connection" in names:
        dropped |= _connection_named(headers) - {b"content-length"}
    returned = [line for name, line in zip(names, headers, strict=True) if name not in dropped]
    returned.append((b"Audit-Id", audit_id))
    if warning is not None:
        returned.append((b"Warning", b'299 - "%b"' % warning.encode("ascii")))
    if upgrade is not None:
        returned += (_UPGRADE, (b"Upgrade", upgrade))
    return returned


def append_response_headers(lines: bytes, *, audit_id: bytes, warning: str | None) -> bytes:
    """Return the last lines of a response's head, where all the lines are known to pass.

    What is added is what `returned_headers` adds.
    """
    lines += b"Audit-Id: %b\r\n" % audit_id
    return lines if warning is None else b'%bWarning: 299 - "%b"\r\n' % (lines, warning.encode())


def normalized_header_name(name: bytes) -> bytes:
    """Return a header name as the most careless later hop might read it."""
    return name.lower().replace(b"_", b"-")


def _copied(
    headers: HeaderList, rules: ForwardingRules, *, trusts_peer: bool, is_chunked: bool
) -> bytes:
    """Return the lines of a client that cross the proxy, as they go on the wire."""
    lines: Sequence[Header] = headers
    names = [normalized_header_name(name) for name, _ in lines]
    if PROTOCOL_HEADER in names:
        lines = without_tokens(lines)
        names = [normalized_header_name(name) for name, _ in lines]
    dropped = rules.dropped_names
    if b"connection" in names:
        dropped |= _connection_named(lines)
    prefixes: tuple[bytes, ...] = _IDENTITY_PREFIXES if trusts_peer else _UNTRUSTED_PREFIXES
    prefixes += rules.dropped_prefixes
    copied = []
    for name, line in zip(names, lines, strict=True):
        if name in _SPECIAL:
            kept = _special_line(line, rules, is_chunked=is_chunked)
            if kept is not None:
                copied.append(kept)
        elif name not in dropped and not name.startswith(prefixes):
            copied.append(line)
    return encoded_lines(copied)


def _special_line(line: Header, rules: ForwardingRules, *, is_chunked: bool) -> Header | None:
    """Return the line that frames or routes the request, or None for a header that stays here.

    No Connection token reaches these: a body without its length would be read as a request. The
    name must be the exact one, so that a look-alike is dropped.
    """
    exact = line[0].lower()
    if exact == b"host":
        return line if rules.host is None else (b"Host", rules.host)
    if exact == b"content-length" and not is_chunked:
        return line
    return line if exact == PROTOCOL_HEADER else None


def _connection_named(headers: Sequence[Header]) -> set[bytes]:
    named: set[bytes] = set()
    for name, value in headers:
        if name.lower() == b"connection":
            named.update(normalized_header_name(token.strip()) for token in value.split(b","))
    return named


def _forwarded_for(headers: Sequence[Header], context: HopContext) -> bytes:
    # One line: the API server reads only the first, and our peer must be in it.
    told = [value for name, value in headers if name.lower() == b"x-forwarded-for" and value]
    return b", ".join((*told, context.peer_address))
