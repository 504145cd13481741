"""Which headers cross the proxy, each way.

Outgoing lists are built from empty: what may pass is copied, what is ours is added last, and
nothing runs afterwards that could remove a line. So a client that names our headers in its
`Connection` header only loses headers of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.core.admission import Admission
from proxy.core.identity_headers import Header
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
_IDENTITY_INITIALS = b"iIxX"
_UNTRUSTED_PREFIXES = (*_IDENTITY_PREFIXES, b"x-forwarded-", b"x-real-ip", b"forwarded")

_UPGRADE = (b"Connection", b"Upgrade")
_CHUNKED = (b"Transfer-Encoding", b"chunked")


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


NO_RULES = ForwardingRules()


class IdentityLost(Exception):
    """A request is about to leave without its one identity: a bug of ours, so nothing is sent."""


def outbound_headers(
    headers: Sequence[Header],
    admission: Admission,
    hop: Hop,
    *,
    rules: ForwardingRules = NO_RULES,
) -> list[Header]:
    """Return the headers of the request to the API server, with exactly one identity: acting."""
    outgoing = _copied(headers, hop, rules)
    outgoing.append((b"X-Forwarded-For", _forwarded_for(headers, hop)))
    outgoing.append((b"Audit-ID", hop.audit_id))
    if hop.is_chunked:
        outgoing.append(_CHUNKED)
    if hop.upgrade is not None:
        outgoing += (_UPGRADE, (b"Upgrade", hop.upgrade))
    if hop.authorization is not None:
        outgoing.append((b"Authorization", hop.authorization))
    outgoing += admission.identity_lines
    return outgoing


def assert_one_identity(headers: Sequence[Header], admission: Admission) -> None:
    """Let a request pass only if it ends in the admitted identity, whole, and holds no other.

    For use right before the first byte is written: an error here means nothing was sent.
    """
    lines = admission.identity_lines
    before = len(headers) - len(lines)
    user = (b"Impersonate-User", admission.acting.name.encode())
    if not user[1] or lines[0] != user or before < 0 or tuple(headers[before:]) != lines:
        raise IdentityLost("the outgoing request does not carry the admitted identity")
    for name, _ in headers[:before]:
        if name[:1] in _IDENTITY_INITIALS and folded_name(name).startswith(_IDENTITY_PREFIXES):
            raise IdentityLost("the outgoing request carries a second identity")


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


def _copied(headers: Sequence[Header], hop: Hop, rules: ForwardingRules) -> list[Header]:
    names = [line[0].lower().replace(b"_", b"-") for line in headers]
    if PROTOCOL_HEADER in names:
        headers = without_tokens(headers)
        names = [folded_name(line[0]) for line in headers]
    dropped = rules.dropped_names
    if b"connection" in names:
        dropped = dropped | _connection_named(headers)
    prefixes: tuple[bytes, ...] = _IDENTITY_PREFIXES if hop.trusts_peer else _UNTRUSTED_PREFIXES
    if rules.dropped_prefixes:
        prefixes += rules.dropped_prefixes
    copied = []
    for name, line in zip(names, headers, strict=True):
        if name in _SPECIAL:
            kept = _special_line(line, hop, rules)
            if kept is not None:
                copied.append(kept)
        elif name not in dropped and not name.startswith(prefixes):
            copied.append(line)
    return copied


def _special_line(line: Header, hop: Hop, rules: ForwardingRules) -> Header | None:
    """Return the line that frames or routes the request, or None for a header that stays here.

    No Connection token reaches these: a body without its length would be read as a request. The
    name must be the exact one, so that a look-alike is dropped.
    """
    exact = line[0].lower()
    if exact == b"host":
        return line if rules.host is None else (b"Host", rules.host)
    if exact == b"content-length" and not hop.is_chunked:
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
