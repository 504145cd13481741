"""The other end of a client connection, as far as the transport vouches for it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a connection comes from, and the certificates that were shown in its handshake.

    The peer's own certificate is the first, and it holds its key; nobody has verified any. What is
    found out about them may be left in `memory`, which ends with the connection.
    """

    address: str
    chain: tuple[bytes, ...] = ()
    memory: dict[object, object] = field(default_factory=dict, repr=False, compare=False)
