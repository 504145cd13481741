"""What an exchange and the connection below it agree on."""

from enum import Enum, auto
from typing import Protocol


class ConnectionReuse(Enum):
    """What an exchange leaves behind on its connection."""

    REUSABLE = auto()
    """Both messages are complete: another request may follow."""

    CLOSE = auto()
    """The answer is complete and was the last one."""

    ABORT = auto()
    """The answer was broken off, and the client must see it."""


class ExchangeKind(Enum):
    """What an exchange is to someone who wants it to end."""

    ORDINARY = auto()
    """It has an end of its own, which is waited for."""

    STREAM = auto()
    """A watch or the like: it ends with whoever ends it, and can be resumed."""

    TUNNEL = auto()
    """Opaque both ways: it ends with whoever ends it, and cannot be resumed."""


class ExchangeTransport(Protocol):
    """The connection below an exchange."""

    @property
    def is_write_blocked(self) -> bool:
        """Tell whether the client takes its answers too slowly."""
        ...

    def write(self, data: bytes) -> None:
        """Send plaintext."""
        ...

    def deliver_body(self) -> None:
        """Give the receiver what has already arrived of the body."""
        ...

    def pause_body(self) -> None:
        """Take no more of the request's body."""
        ...

    def resume_body(self) -> None:
        """Take it again."""
        ...

    def release_idle_memory(self) -> None:
        """Keep no more than a stream needs on which nothing happens: there may be thousands."""
        ...

    def caller_authenticated(self, *, is_anonymous: bool) -> None:
        """Learn that the request's caller is known, if only as anonymous."""
        ...

    def open_tunnel(self) -> None:
        """Take everything that comes from now on as the body."""
        ...

    def exchange_ended(self, ending: ConnectionReuse) -> None:
        """Go on to the next request, or close in the way that fits."""
        ...
