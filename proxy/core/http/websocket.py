"""The subprotocols that a WebSocket client offers, one of which may be a bearer token.

A browser cannot send an Authorization header with a WebSocket, so Kubernetes accepts the token as
a subprotocol. The token is a credential: it is read here and never forwarded.
"""

from collections.abc import Sequence
from typing import NamedTuple

from proxy.core.errors import BadRequest
from proxy.core.http.headers import Header

PROTOCOL_HEADER = b"sec-websocket-protocol"
TOKEN_PREFIX = b"base64url.bearer.authorization.k8s.io."
# kubectl offers one, a browser one and a token; the API server knows five.
_MAX_PROTOCOLS = 100


class OfferedProtocols(NamedTuple):
    """The subprotocols of all header lines, in order, separated into tokens and protocols."""

    tokens: tuple[bytes, ...]
    protocols: tuple[bytes, ...]


def parse_offered_protocols(headers: Sequence[Header]) -> OfferedProtocols:
    """Return the offered subprotocols; any that contains the token prefix counts as a token.

    The prefix counts anywhere in it and in any letter case. Otherwise unknown whitespace or a
    careless client could turn a secret into a protocol. Each one costs time, so their number is
    bounded.
    """
    lines = [value for name, value in headers if name.lower() == PROTOCOL_HEADER]
    if len(lines) + sum(line.count(b",") for line in lines) > _MAX_PROTOCOLS:
        raise BadRequest(f"more than {_MAX_PROTOCOLS} WebSocket subprotocols")
    offered = [protocol.strip() for line in lines for protocol in line.split(b",")]
    return OfferedProtocols(
        tuple(protocol for protocol in offered if TOKEN_PREFIX in protocol.lower()),
        tuple(protocol for protocol in offered if TOKEN_PREFIX not in protocol.lower()),
    )


def remove_tokens(headers: Sequence[Header]) -> Sequence[Header]:
    """Return the headers with every token removed from the subprotocols.

    The remaining subprotocols of all lines are joined into one line, as kube-apiserver does.
    Without a token the lines are unchanged.
    """
    offered = parse_offered_protocols(headers)
    if not offered.tokens:
        return headers
    positions = [index for index, line in enumerate(headers) if line[0].lower() == PROTOCOL_HEADER]
    kept = [line for line in headers if line[0].lower() != PROTOCOL_HEADER]
    joined = b",".join(offered.protocols)
    if joined:
        kept.insert(positions[0], (headers[positions[0]][0], joined))
    return kept
