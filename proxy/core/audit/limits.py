"""How many bytes one audit event may take, value by value."""

from dataclasses import dataclass

AGENT_BYTES = 1024
"""Of the user agent as sent; kube-apiserver's number."""
WRITTEN_AGENT_BYTES = 2048
"""Of the user agent as written. Only one that consists of escapes for a fifth is cut earlier."""
NAME_BYTES = 256
"""Of each name in an object reference that is too long; no object's name is longer than 253."""
OBJECT_BYTES = 2560
"""Of an object reference: eight names, each of which may be as long as above."""
ANNOTATION_BYTES = 1024
"""Of each annotation that may repeat what a client or the API server sent."""
WANTED_USER_BYTES = 8192
"""Of the identity that a refused request asked for, before it is quoted."""
_FIXED_BYTES = 2048
"""Names of members, timestamps, ids, codes, the annotations that are words or numbers of ours."""
_STATUS_BYTES = 2048
"""What a response status that is cut holds besides its message."""
_CUT_BYTES = 192
"""What is told of one value that was cut."""
_MOST_CUTS = 18
_MOST_UNAUTHENTICATED_CUTS = 4
_REPEATING_ANNOTATIONS = 5


@dataclass(frozen=True, slots=True)
class ValueLimits:
    """How long the values of one event may be, in bytes of JSON."""

    uri: int
    user: int
    message: int


@dataclass(frozen=True, slots=True)
class EventLimits:
    """How long the values of events may be, by whether the caller was authenticated."""

    uri_bytes: int = 16 * 1024
    user_bytes: int = 64 * 1024
    message_bytes: int = 8 * 1024
    unauthenticated_bytes: int = 1024

    @property
    def authenticated(self) -> ValueLimits:
        """The limits of events with a user."""
        return ValueLimits(self.uri_bytes, self.user_bytes, self.message_bytes)

    @property
    def unauthenticated(self) -> ValueLimits:
        """The limits of events without one; never above the others."""
        most = self.unauthenticated_bytes
        return ValueLimits(
            min(most, self.uri_bytes), min(most, self.user_bytes), min(most, self.message_bytes)
        )

    @property
    def max_authenticated_bytes(self) -> int:
        """The size that no event of a known caller exceeds, its bodies left out."""
        annotations = 2 * WANTED_USER_BYTES + _REPEATING_ANNOTATIONS * ANNOTATION_BYTES
        told = _MOST_CUTS * _CUT_BYTES
        return _most_bytes(self.authenticated) + 2 * self.user_bytes + annotations + told

    @property
    def max_unauthenticated_bytes(self) -> int:
        """The size that no event without a user exceeds."""
        told = _MOST_UNAUTHENTICATED_CUTS * _CUT_BYTES
        return _most_bytes(self.unauthenticated) + ANNOTATION_BYTES + told


def _most_bytes(limits: ValueLimits) -> int:
    named = WRITTEN_AGENT_BYTES + OBJECT_BYTES
    return _FIXED_BYTES + named + limits.uri + limits.message + _STATUS_BYTES
