"""The order in which credentials are tried: certificate, bearer token, token of a WebSocket.

A credential that fails does not spoil another one that is good; without any good one the request
is refused. Nobody is anonymous here.
"""

from collections.abc import Sequence
from typing import Protocol

from proxy.authentication.websocket_token import websocket_token
from proxy.core.errors import BadRequest, Unauthorized
from proxy.core.header_safety import check_header_safe
from proxy.core.identity import Caller
from proxy.wire.peer import Peer

Header = tuple[bytes, bytes]


class CertificateReader(Protocol):
    """Knows whom a verified certificate stands for."""

    def authenticate(self, certificate: bytes) -> Caller:
        """Return the caller or raise Unauthorized."""
        ...


class TokenOwner(Protocol):
    """Knows whose a token is."""

    async def authenticate(self, token: bytes, *, address: str) -> Caller:
        """Return the caller or raise Unauthorized; `address` is where the token came from."""
        ...


class Authenticator:
    """Finds out who is calling."""

    def __init__(self, certificates: CertificateReader, tokens: TokenOwner | None) -> None:
        self._certificates = certificates
        self._tokens = tokens

    async def authenticate(
        self, peer: Peer, headers: Sequence[Header], *, upgrade: bytes | None = None
    ) -> Caller:
        """Return the caller, whose identity is safe to put into headers; else refuse.

        `upgrade` is the protocol the client wants to switch to, if any.
        """
        token = bearer_token(headers)
        caller = self._by_certificate(peer)
        if caller is None:
            caller = await self._by_token(token, peer)
        if caller is None and upgrade is not None:
            caller = await self._by_token(websocket_token(headers, upgrade=upgrade), peer)
        if caller is None:
            raise Unauthorized
        check_header_safe(caller.identity)
        return caller

    def _by_certificate(self, peer: Peer) -> Caller | None:
        if peer.certificate is None:
            return None
        try:
            return self._certificates.authenticate(peer.certificate)
        except Unauthorized:
            return None  # The union goes on: a token may still be good.

    async def _by_token(self, token: bytes | None, peer: Peer) -> Caller | None:
        if token is None or self._tokens is None:
            return None
        try:
            return await self._tokens.authenticate(token, address=peer.address)
        except Unauthorized:
            return None  # The union goes on: another token may still be good.


def bearer_token(headers: Sequence[Header]) -> bytes | None:
    """Return the token of the Authorization header, as the API server splits it; None if none."""
    values = [value for name, value in headers if name.lower() == b"authorization"]
    if len(values) > 1:
        raise BadRequest("more than one Authorization header")
    parts = values[0].split(b" ", 2) if values else []
    if len(parts) < 2 or parts[0].lower() != b"bearer":  # noqa: PLR2004 - scheme and token
        return None
    return parts[1] or None
