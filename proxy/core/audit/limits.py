"""Size limits of audit events, per value."""

from dataclasses import dataclass

AGENT_BYTES = 1024
"""Maximum size of the user agent as sent. This is kube-apiserver's limit."""
WRITTEN_AGENT_BYTES = 2048
"""Maximum size of the user agent as JSON. Only one with a fifth of escapes reaches it earlier."""
NAME_BYTES = 256
"""Maximum size of each name in a truncated object reference. Valid names have at most 253."""
OBJECT_BYTES = 2560
"""Maximum size of an object reference: eight names of `NAME_BYTES` each."""
ANNOTATION_BYTES = 1024
"""Maximum size of each annotation that may contain text from a client or the API server."""
WANTED_USER_BYTES = 8192
"""Maximum size of the wanted user of a denied request, before it is quoted."""
_FIXED_BYTES = 2048
"""Member names, timestamps, ids, codes, and annotations with values of the proxy's own."""
_STATUS_BYTES = 2048
"""Size of a truncated response status without its message."""
_CUT_BYTES = 192
"""Size of the record of one truncation."""
_MAX_CUTS = 18
_MAX_UNAUTHENTICATED_CUTS = 4
_REPEATING_ANNOTATIONS = 5


@dataclass(frozen=True, slots=True)
class ValueLimits:
    """Maximum sizes of the values of one event, in bytes of JSON."""

    uri: int
    user: int
    message: int


@dataclass(frozen=True, slots=True)
class EventLimits:
    """Configured size limits of events with and without an authenticated caller."""

    uri_bytes: int = 16 * 1024
    user_bytes: int = 64 * 1024
    message_bytes: int = 8 * 1024
    unauthenticated_bytes: int = 1024

    @property
    def authenticated(self) -> ValueLimits:
        """Limits of events with an authenticated caller."""
        return ValueLimits(self.uri_bytes, self.user_bytes, self.message_bytes)

    @property
    def unauthenticated(self) -> ValueLimits:
        """Limits of events without an authenticated caller, never above the others."""
        limit = self.unauthenticated_bytes
        return ValueLimits(
            min(limit, self.uri_bytes), min(limit, self.user_bytes), min(limit, self.message_bytes)
        )

    @property
    def max_authenticated_bytes(self) -> int:
        """Upper bound of the size of an event with an authenticated caller, without its bodies."""
        annotations = 2 * WANTED_USER_BYTES + _REPEATING_ANNOTATIONS * ANNOTATION_BYTES
        cuts = _MAX_CUTS * _CUT_BYTES
        return _max_bytes(self.authenticated) + 2 * self.user_bytes + annotations + cuts

    @property
    def max_unauthenticated_bytes(self) -> int:
        """Upper bound of the size of an event without an authenticated caller."""
        cuts = _MAX_UNAUTHENTICATED_CUTS * _CUT_BYTES
        return _max_bytes(self.unauthenticated) + ANNOTATION_BYTES + cuts


def _max_bytes(limits: ValueLimits) -> int:
    named = WRITTEN_AGENT_BYTES + OBJECT_BYTES
    return _FIXED_BYTES + named + limits.uri + limits.message + _STATUS_BYTES
