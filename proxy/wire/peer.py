"""The other end of a client connection, as far as the transport vouches for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a connection comes from, and the certificates that were shown in its handshake.

    The peer's own certificate is the first, and it holds its key; nobody has verified any.
    """

    address: str
    chain: tuple[bytes, ...] = ()
