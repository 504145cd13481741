"""What the proxy itself understands when it is sent these bytes: its own readers, no sockets."""

from dataclasses import dataclass
from enum import Enum, auto

from proxy.core.errors import StatusError
from proxy.wire.http1.body import body_reader
from proxy.wire.http1.message import RequestHead, find_head_end, parse_request_head


class End(Enum):
    """What comes after the last complete request."""

    NOTHING = auto()
    PART_OF_A_HEAD = auto()
    PART_OF_A_BODY = auto()
    MALFORMED_HEAD = auto()
    MALFORMED_BODY = auto()
    TUNNEL = auto()


@dataclass(frozen=True, slots=True)
class Understood:
    """A complete request."""

    head: RequestHead
    body: bytes


@dataclass(frozen=True, slots=True)
class Understanding:
    """All that is understood of one connection; `rest` is the head of a request that never ends."""

    requests: tuple[Understood, ...]
    end: End
    rest: RequestHead | None = None

    @property
    def is_refused(self) -> bool:
        """Tell whether the last thing in the bytes must be refused."""
        return self.end in {End.MALFORMED_HEAD, End.MALFORMED_BODY}


def understand(wire: bytes) -> Understanding:
    """Return what a connection makes of these bytes if every request is answered after its end."""
    requests: list[Understood] = []
    while wire:
        size = find_head_end(wire, 0)
        if size < 0:
            return Understanding(tuple(requests), End.PART_OF_A_HEAD)
        try:
            head = parse_request_head(wire[:size])
        except StatusError:
            return Understanding(tuple(requests), End.MALFORMED_HEAD)
        try:
            body, after = _read_body(head, wire[size:])
        except StatusError:
            return Understanding(tuple(requests), End.MALFORMED_BODY, head)
        if after is None:
            return Understanding(tuple(requests), End.PART_OF_A_BODY, head)
        requests.append(Understood(head, body))
        if head.upgrade is not None:
            return Understanding(tuple(requests), End.TUNNEL)
        wire = after
    return Understanding(tuple(requests), End.NOTHING)


def _read_body(head: RequestHead, wire: bytes) -> tuple[bytes, bytes | None]:
    reader = body_reader(head.framing)
    return (b"", wire) if reader is None else reader.feed(wire)
