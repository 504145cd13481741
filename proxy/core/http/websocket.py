"""The subprotocols a WebSocket client offers, one of which may be no protocol but a token.

A browser cannot send an Authorization header with a WebSocket, so Kubernetes lets it hide the token
among the subprotocols. It is a credential: read here, and never seen beyond.
"""

from collections.abc import Sequence
from typing import NamedTuple

from proxy.core.errors import BadRequest
from proxy.core.http.headers import Header

PROTOCOL_HEADER = b"sec-websocket-protocol"
TOKEN_PREFIX = b"base64url.bearer.authorization.k8s.io."
# kubectl offers one, a browser one and a token; the API server knows five.
_MOST_PROTOCOLS = 100


class OfferedProtocols(NamedTuple):
    """What all lines together offer, in order, sorted into credentials and protocols."""

    tokens: tuple[bytes, ...]
    protocols: tuple[bytes, ...]


def offered_protocols(headers: Sequence[Header]) -> OfferedProtocols:
    """Return what the client offers; whatever has a token's prefix in it counts as one.

    Not only what begins with it, and in any case: a blank that we do not know, or a careless
    client, must not make a protocol of a secret. Each one costs a look, so their number is bounded.
    """
    lines = [value for name, value in headers if name.lower() == PROTOCOL_HEADER]
    if len(lines) + sum(line.count(b",") for line in lines) > _MOST_PROTOCOLS:
        raise BadRequest(f"more than {_MOST_PROTOCOLS} WebSocket subprotocols")
    offered = [one.strip() for line in lines for one in line.split(b",")]
    return OfferedProtocols(
        tuple(one for one in offered if TOKEN_PREFIX in one.lower()),
        tuple(one for one in offered if TOKEN_PREFIX not in one.lower()),
    )


def without_tokens(headers: Sequence[Header]) -> Sequence[Header]:
    """Return the headers with every token taken out of the subprotocols.

    What is left stands in one line, joined over all of them, as the API server itself does it;
    without a token the lines are not touched.
    """
    offered = offered_protocols(headers)
    if not offered.tokens:
        return headers
    places = [at for at, line in enumerate(headers) if line[0].lower() == PROTOCOL_HEADER]
    kept = [line for line in headers if line[0].lower() != PROTOCOL_HEADER]
    joined = b",".join(offered.protocols)
    if joined:
        kept.insert(places[0], (headers[places[0]][0], joined))
    return kept
