"""Answers without an end of their own: watches, and logs that are followed."""

from proxy.core.action import Action
from proxy.core.go_url import first_values

_FOLLOWED = frozenset(("true", "1"))


def is_endless(action: Action, target: bytes) -> bool:
    """Tell whether a client that sees this answer end well knows that it may come again.

    On doubt it is not: an answer that has an end of its own must never be ended before it, or half
    of it would pass for the whole.
    """
    if action.verb == "watch":
        return True
    if action.resource != "pods" or action.subresource != "log":
        return False
    return first_values(target.partition(b"?")[2], {"follow"}).get("follow") in _FOLLOWED
