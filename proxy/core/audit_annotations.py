"""What an event tells beyond the API server's fields, under a domain of our own.

And its latencies, which are the API server's: it writes them for requests that took long.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from proxy.core.admission import Admission
from proxy.core.audit_event import go_duration, quoted
from proxy.core.errors import Refusal
from proxy.core.modes import Mode

DOMAIN = "kube-understudy.io"
_LATENCY = "apiserver.latency.k8s.io"
_LONG = timedelta(milliseconds=500)
_MICROSECOND = timedelta(microseconds=1)
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


class Times(NamedTuple):
    """When a request came, when its caller was known, when it was decided, and when it ended."""

    received_at: datetime
    called_at: datetime | None
    decided_at: datetime | None
    ended_at: datetime


def annotations_text(
    admission: Admission | None, refusal: Refusal | None, *, reviews: int, ending: Ending | None
) -> str:
    """Return the annotations as a member of an event, in the order of their keys."""
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


def latencies_text(times: Times, *, verb: str, impersonates: bool) -> str:
    """Return where the time of a long request went, as far as we know; never for a watch."""
    total = times.ended_at - times.received_at
    if total <= _LONG or verb == "watch":
        return ""
    spent: dict[str, timedelta] = {}
    if times.called_at is not None:
        spent["authentication"] = times.called_at - times.received_at
        if times.decided_at is not None and impersonates:
            spent["impersonation"] = times.decided_at - times.called_at
    spent["total"] = total
    return ",".join(
        f'"{_LATENCY}/{layer}":"{go_duration(latency // _MICROSECOND)}"'
        for layer, latency in spent.items()
    )
