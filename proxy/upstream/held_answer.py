"""Answers that wait here until we know whether they are about us."""

from dataclasses import dataclass, field

from proxy.core.own_denial import DENIAL_TYPES, LONGEST_START, may_become_denial
from proxy.wire.body import BodyKind
from proxy.wire.head import ResponseHead

# The API server's own denials are a few hundred bytes, and as long as the names in them.
MOST_DENIAL_BYTES = 64 * 1024


@dataclass(slots=True)
class HeldAnswer:
    """A 401 or a 403 that waits, with what has come of its body.

    A 401 waits for an answer to a question of ours, and nothing more of it is read meanwhile. A
    403 waits for its own end, which comes at once if it is the API server's own word, and if it
    names us, for an answer to a question of ours.
    """

    head: ResponseHead
    pieces: list[bytes] = field(default_factory=list)
    has_ended: bool = False
    denial_type: str | None = None
    """The media type of a 403 that may be the API server's denial."""
    _size: int = 0

    @property
    def body(self) -> bytes:
        """Return what has come."""
        return b"".join(self.pieces)

    def takes(self, payload: bytes) -> bool:
        """Keep a piece, and tell whether the answer still has to wait."""
        is_start = self._size < LONGEST_START
        self.pieces.append(payload)
        self._size += len(payload)
        if self.denial_type is None:
            return True
        if self._size > MOST_DENIAL_BYTES:
            return False
        # Its start is looked at while it grows, and no longer: whoever sends byte by byte must not
        # have all of it put together for each.
        return not is_start or may_become_denial(self.denial_type, self.body)


def denial_type(head: ResponseHead) -> str | None:
    """Return the media type of a 403 that may be the API server's own denial, else None."""
    framing = head.framing
    if framing.kind is BodyKind.LENGTH and not 0 < framing.length <= MOST_DENIAL_BYTES:
        return None
    if framing.kind not in (BodyKind.LENGTH, BodyKind.CHUNKED):
        return None
    media_type = None
    for name, value in head.headers:
        folded = name.lower()
        if folded == b"content-encoding":
            return None  # Only long answers are compressed.
        if folded == b"content-type":
            media_type = value.partition(b";")[0].strip().lower().decode("latin-1")
    return media_type if media_type in DENIAL_TYPES else None
