"""The head of a request on its way to the proxy: the application's own, and whom it acts as."""

from collections.abc import Sequence

from proxy.core.admission import Admission
from proxy.core.errors import BadRequest
from proxy.core.forwarding_headers import (
    ForwardingRules,
    Hop,
    assert_one_identity,
    folded_name,
    outbound_head,
)
from proxy.core.header_lines import Header, HeaderLines
from proxy.core.websocket_protocols import offered_protocols
from proxy.wire.body import BodyKind
from proxy.wire.exchange import ClientExchange

_IMPERSONATION = b"impersonate"


class ActingHeads:
    """Writes the heads of requests to one proxy."""

    def __init__(self, server: str) -> None:
        """`server` is its host and port, as a URL has them."""
        # The application's Host is ours, and means nothing to whatever routes by it further on.
        self._rules = ForwardingRules(host=server.encode())

    def write(self, exchange: ClientExchange, admission: Admission, audit_id: bytes) -> bytes:
        """Return the head of the request to the proxy, or refuse the request.

        The same lines cross as at the proxy itself, but for one: the application's Authorization.
        """
        request = exchange.request
        authorization = request.headers.derive(own_authorization)
        hop = Hop(
            audit_id=audit_id,
            peer_address=exchange.peer.address.encode(),
            authorization=authorization,
            upgrade=request.upgrade,
            is_chunked=request.framing.kind is BodyKind.CHUNKED,
        )
        first_line = b"%b %b HTTP/1.1" % (request.method, request.target)
        head = outbound_head(first_line, request.headers, admission, hop, rules=self._rules)
        # On the very bytes: whatever was copied above, nobody but the configured identity is asked
        # for, and nobody's credential but the application's goes along.
        assert_one_identity(head, admission, authorization)
        return head


def own_authorization(headers: HeaderLines) -> bytes | None:
    """Return the application's credential, if it brings one; refuse what brings an identity.

    Whom to act as is for whoever deployed the hop to say. A request that says it, too, is not
    served as somebody else than it asks for.
    """
    _refuse_impersonation(headers)
    values = [value for name, value in headers if folded_name(name) == b"authorization"]
    if len(values) > 1:
        raise BadRequest("more than one Authorization header")
    if offered_protocols(headers).tokens:
        raise BadRequest(
            "a token among the WebSocket subprotocols is not passed on here: send it in an "
            "Authorization header"
        )
    return values[0] if values else None


def _refuse_impersonation(headers: Sequence[Header]) -> None:
    for name, _ in headers:
        # As the most careless later hop might read it, and whatever follows the word.
        if folded_name(name).startswith(_IMPERSONATION):
            raise BadRequest(
                "impersonation headers are not accepted here: this hop acts as one identity, which "
                "its configuration names"
            )
