"""The other end of a client connection, as far as the transport vouches for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a connection comes from, and the certificate its handshake has verified."""

    address: str
    certificate: bytes | None = None
