"""Interface between an exchange and its connection."""

from enum import Enum, auto
from typing import Protocol


class ConnectionReuse(Enum):
    """Whether the connection can be used after an exchange."""

    REUSABLE = auto()
    """Both messages are complete: another request may follow."""

    CLOSE = auto()
    """The response is complete and was the last one."""

    ABORT = auto()
    """The response was aborted, and the client must be able to detect it."""


class ExchangeKind(Enum):
    """How an exchange can end, as seen by a drain."""

    ORDINARY = auto()
    """It ends by itself, and is waited for."""

    STREAM = auto()
    """A watch or similar: it ends only when one side ends it, and can be resumed."""

    TUNNEL = auto()
    """Opaque in both directions: it ends only when one side ends it, and cannot be resumed."""


class ExchangeTransport(Protocol):
    """The connection below an exchange."""

    @property
    def is_write_blocked(self) -> bool:
        """Return whether the client reads its responses too slowly."""
        ...

    def write(self, data: bytes) -> None:
        """Send plaintext."""
        ...

    def deliver_body(self) -> None:
        """Deliver the buffered part of the body to the receiver."""
        ...

    def pause_body(self) -> None:
        """Stop reading the request body."""
        ...

    def resume_body(self) -> None:
        """Continue reading the request body."""
        ...

    def release_idle_memory(self) -> None:
        """Free memory that an idle stream does not need; there may be thousands of streams."""
        ...

    def caller_authenticated(self, *, is_anonymous: bool) -> None:
        """Handle the authentication of the caller, possibly as anonymous."""
        ...

    def open_tunnel(self) -> None:
        """Treat all following bytes as the body."""
        ...

    def exchange_ended(self, ending: ConnectionReuse) -> None:
        """Continue with the next request, or close as `ending` requires."""
        ...
