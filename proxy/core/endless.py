"""Answers without an end of their own: watches, and logs that are followed."""

from proxy.core.action import Action
from proxy.core.go_url import first_values
from proxy.core.header_lines import Header

_IN_LINES = frozenset((b"application/json", b"text/plain"))
_FOLLOWED = frozenset(("true", "1"))
_FOLLOW = frozenset(("follow",))


def is_endless(action: Action, target: bytes) -> bool:
    """Tell whether a client that sees this answer end well knows that it may come again.

    On doubt it is not: an answer that has an end of its own must never be ended before it, or half
    of it would pass for the whole.
    """
    if action.verb == "watch":
        return True
    if action.resource != "pods" or action.subresource != "log":
        return False
    return first_values(target.partition(b"?")[2], _FOLLOW).get("follow") in _FOLLOWED


def comes_in_lines(headers: list[Header]) -> bool:
    """Tell whether each message of a stream is a line: JSON events and logs, not compressed."""
    named = {name.lower(): value for name, value in headers}
    media_type = named.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return media_type in _IN_LINES and b"content-encoding" not in named
