"""Which headers cross the proxy, each way.

Outgoing heads are built from empty: what may pass is copied, what is ours is added last, and
nothing runs afterwards that could remove a line. So a client that names our headers in its
`Connection` header only loses headers of its own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.core.admission import Admission
from proxy.core.header_lines import Header, HeaderLines, encoded_lines
from proxy.core.websocket_protocols import PROTOCOL_HEADER, without_tokens

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
    rb"\n[ \t]*(impersonate|x[-_]remote[-_]|authorization(?=[ \t]*:))", re.IGNORECASE
)

_UPGRADE = (b"Connection", b"Upgrade")


class Hop(NamedTuple):
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

    def copied(self, headers: HeaderLines) -> bytes:
        """Return the lines of a client that cross the proxy, as they go on the wire."""
        return _copied(headers, self, _UNTRUSTED_PREFIXES)

    def copied_from_trusted(self, headers: HeaderLines) -> bytes:
        """Return the same for a client whose word about where a request came from is taken."""
        return _copied(headers, self, _IDENTITY_PREFIXES)


NO_RULES = ForwardingRules()


class IdentityLost(Exception):
    """A request is about to leave without its one identity: a bug of ours, so nothing is sent."""


def outbound_head(
    first_line: bytes,
    headers: HeaderLines,
    admission: Admission,
    hop: Hop,
    *,
    rules: ForwardingRules = NO_RULES,
) -> bytes:
    """Return the head of the request to the API server, with exactly one identity: acting."""
    if hop.trusts_peer:
        copied = headers.derive(rules.copied_from_trusted)
        address = _forwarded_for(headers, hop)
    else:
        copied, address = headers.derive(rules.copied), hop.peer_address
    ours = b"X-Forwarded-For: %b\r\nAudit-ID: %b\r\n" % (address, hop.audit_id)
    if hop.is_chunked:
        ours += b"Transfer-Encoding: chunked\r\n"
    if hop.upgrade is not None:
        ours += b"Connection: Upgrade\r\nUpgrade: %b\r\n" % hop.upgrade
    if hop.authorization is not None:
        ours += b"Authorization: %b\r\n" % hop.authorization
    return b"%b\r\n%b%b%b\r\n" % (first_line, copied, ours, admission.identity_lines)


def assert_one_identity(head: bytes, admission: Admission, authorization: bytes | None) -> None:
    """Let a request pass only if it ends in the admitted identity, whole, and holds no other.

    For use right before the first byte is written, on the very bytes: an error here means nothing
    was sent. Nobody is named beside the admitted identity but ourselves, by our own credential.
    """
    lines = admission.identity_lines
    user = b"Impersonate-User: %b\r\n" % admission.acting.name.encode()
    if not admission.acting.name or not lines.startswith(user):
        raise IdentityLost("the admitted identity is not whole")
    before = len(head) - len(lines) - 2
    if not head.endswith(b"\r\n%b\r\n" % lines):
        raise IdentityLost("the outgoing request does not carry the admitted identity")
    told = _SAYS_WHO.findall(head, 0, before)
    ours = [] if authorization is None else [b"Authorization"]
    if told != ours:
        raise IdentityLost("the outgoing request carries a second identity")
    if authorization is not None and b"\r\nAuthorization: %b\r\n" % authorization not in head:
        raise IdentityLost("the outgoing request does not carry our credential")


def returned_headers(
    headers: Sequence[Header],
    *,
    audit_id: bytes,
    upgrade: bytes | None = None,
    warning: str | None = None,
) -> list[Header]:
    """Return the headers of the response to the client: end-to-end ones, in order, all values.

    A Content-Length stays; any other framing is the caller's to add. The audit id goes out once.
    """
    named = _connection_named(headers) - {b"content-length"}
    returned = []
    for line in headers:
        name = line[0].lower()
        if name not in _NEVER_RETURNED and name not in named:
            returned.append(line)
    returned.append((b"Audit-Id", audit_id))
    if warning is not None:
        returned.append((b"Warning", b'299 - "%b"' % warning.encode("ascii")))
    if upgrade is not None:
        returned += (_UPGRADE, (b"Upgrade", upgrade))
    return returned


def folded_name(name: bytes) -> bytes:
    """Return a header name as the most careless later hop might read it."""
    return name.lower().replace(b"_", b"-")


def _copied(headers: HeaderLines, rules: ForwardingRules, prefixes: tuple[bytes, ...]) -> bytes:
    lines: Sequence[Header] = headers
    if any(folded_name(name) == PROTOCOL_HEADER for name, _ in lines):
        lines = without_tokens(lines)
    dropped = rules.dropped_names | _connection_named(lines)
    prefixes += rules.dropped_prefixes
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in lines)
    copied = []
    for line in lines:
        name = folded_name(line[0])
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
            named.update(folded_name(token.strip()) for token in value.split(b","))
    return named


def _forwarded_for(headers: Sequence[Header], hop: Hop) -> bytes:
    # One line: the API server reads only the first, and our peer must be in it.
    if not hop.trusts_peer:
        return hop.peer_address
    told = [value for name, value in headers if name.lower() == b"x-forwarded-for" and value]
    return b", ".join((*told, hop.peer_address))
