"""What an event tells beyond the API server's fields, under a domain of our own.

And its latencies, which are the API server's: it writes them for requests that took long.
"""

from datetime import timedelta
from typing import NamedTuple

from proxy.core.admission import Admission
from proxy.core.audit_event import go_duration, quoted, user_text
from proxy.core.errors import Refusal
from proxy.core.identity import Identity
from proxy.core.modes import Mode

DOMAIN = "kube-understudy.io"
_LATENCY = "apiserver.latency.k8s.io"
LONG = timedelta(milliseconds=500)
"""A request that took longer tells its latencies."""
_SECOND = timedelta(seconds=1)
_LONGEST_IDENTITY = 8192
_MODES = {mode: f'"{DOMAIN}/mode":"{mode.value}"' for mode in Mode}


class Ending(NamedTuple):
    """How a request ended. `upstream_code` is 0 if the API server did not answer it."""

    upstream_code: int
    body_bytes: int
    broken_off: str = ""
    """Why the answer is not whole, if it is not."""
    lost_request: str = ""
    """Why the request's body is not recorded, though it ought to be."""
    lost_response: str = ""
    """The same for the answer's."""
    latencies: str = ""


class Latencies(NamedTuple):
    """How long a request took, and in seconds its login and the decision whom it may be, if any."""

    total: timedelta
    authentication: float | None
    impersonation: float | None


def annotations_text(
    admission: Admission | None,
    refusal: Refusal | None,
    *,
    reviews: int,
    ending: Ending | None,
    wanted: Identity | None = None,
) -> str:
    """Return the annotations as a member of an event, in the order of their keys.

    `wanted` is whom a refused request asked for: its event names nobody whom it became.
    """
    members: list[str] = []
    mode = None if admission is None else admission.mode
    if mode is not None or reviews:
        members.append(f'"{DOMAIN}/cache":"{"miss" if reviews else "hit"}"')
        members.append(f'"{DOMAIN}/reviews":"{reviews}"')
    if mode is not None:
        members.append(_MODES[mode])
    if refusal is not None and refusal.failed_check:
        members.append(_member("first-failed-check", refusal.failed_check))
    if admission is not None and admission.warning is not None:
        members.append(_member("warning", admission.warning))
    if wanted is not None and len(text := user_text(wanted)) <= _LONGEST_IDENTITY:
        members.append(_member("wanted", text))
    if ending is not None:
        members += _ending_members(ending)
    # Each begins with its key, and no key is the beginning of another.
    members.sort()
    return f',"annotations":{{{",".join(members)}}}' if members else ""


def _ending_members(ending: Ending) -> list[str]:
    members = [f'"{DOMAIN}/response-bytes":"{ending.body_bytes}"']
    if ending.upstream_code:
        members.append(f'"{DOMAIN}/upstream-code":"{ending.upstream_code}"')
    if ending.broken_off:
        members.append(_member("incomplete", ending.broken_off))
    if ending.lost_request:
        members.append(_member("request-body", f"not recorded: {ending.lost_request}"))
    if ending.lost_response:
        members.append(_member("response-body", f"not recorded: {ending.lost_response}"))
    if ending.latencies:
        members.append(ending.latencies)
    return members


def _member(name: str, value: str) -> str:
    return f'"{DOMAIN}/{name}":{quoted(value)}'


def latencies_text(latencies: Latencies, *, verb: str) -> str:
    """Return where the time of a long request went, as far as we know; never for a watch."""
    total, authentication, impersonation = latencies
    if total <= LONG or verb == "watch":
        return ""
    spent = {
        "authentication": authentication,
        "impersonation": impersonation,
        "total": total / _SECOND,
    }
    return ",".join(
        f'"{_LATENCY}/{layer}":"{go_duration(round(seconds * 1e6))}"'
        for layer, seconds in spent.items()
        if seconds is not None
    )


def plain_annotations(admission: Admission) -> str:
    """Return the annotations of a request of which nothing special is to be told, as a pattern.

    `%d` are the bytes of the answer and the code of the API server, in this order.
    """
    code, size = 111222333, 444555666
    text = annotations_text(admission, None, reviews=0, ending=Ending(code, size))
    return text.replace("%", "%%").replace(str(size), "%d").replace(str(code), "%d")
