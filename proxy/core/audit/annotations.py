"""What an event tells beyond the API server's fields, under a domain of our own.

And its latencies, which are the API server's: it writes them for requests that took long.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from proxy.core.audit.event import go_duration, quoted
from proxy.core.audit.limits import ANNOTATION_BYTES, WANTED_USER_BYTES
from proxy.core.audit.users import user_text
from proxy.core.errors import BadRequest, StatusError
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import Permit
from proxy.core.truncation import (
    NO_CUTS,
    BoundedText,
    Cut,
    Cuts,
    cut_of,
    cuts_text,
    json_size,
    read_cuts,
    shortened,
)
from proxy.core.userinfo import UserInfo

DOMAIN = "kube-understudy.io"
_LATENCY = "apiserver.latency.k8s.io"
LONG = timedelta(milliseconds=500)
"""A request that took longer tells its latencies."""
_SECOND = timedelta(seconds=1)
_TRUNCATED = '"audit.k8s.io/truncated":"true"'
"""As kube-apiserver marks an event whose bodies it left out because of its size."""
_CUTS = f"{DOMAIN}/truncated"
_MODES = {mode: f'"{DOMAIN}/mode":"{mode.value}"' for mode in ImpersonationMode}


class ResponseOutcome(NamedTuple):
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


def format_annotations(
    permit: Permit | None,
    error: StatusError | None,
    *,
    reviews: int,
    ending: ResponseOutcome | None,
    wanted_user: UserInfo | None = None,
    cuts: Cuts = NO_CUTS,
) -> BoundedText:
    """Return the annotations as a member of an event, in the order of their keys, and all cuts.

    `wanted` is whom a refused request asked for: its event names nobody whom it became. `cuts` is
    what was cut elsewhere in the event.
    """
    members = _Members(cuts)
    mode = None if permit is None else permit.mode
    if mode is not None or reviews:
        members.texts.append(f'"{DOMAIN}/cache":"{"miss" if reviews else "hit"}"')
        members.texts.append(f'"{DOMAIN}/reviews":"{reviews}"')
    if mode is not None:
        members.texts.append(_MODES[mode])
    if error is not None and error.failed_check:
        members.add("first-failed-check", error.failed_check)
    if permit is not None and permit.warning is not None:
        members.add("warning", permit.warning)
    if wanted_user is not None:
        members.add_identity("wanted", wanted_user)
    if ending is not None:
        _add_ending(members, ending)
    return members.piece()


def read_event_cuts(annotations: Mapping[str, object]) -> Mapping[str, Cut]:
    """Return what was cut in an event of ours, by path; UnreadableCuts if that is unclear."""
    told = annotations.get(_CUTS)
    return read_cuts(told) if isinstance(told, str) else {}


class _Members:
    """The annotations of one event, and what was cut in it."""

    def __init__(self, cuts: Cuts) -> None:
        self.texts: list[str] = []
        self._cuts = cuts

    def add(self, name: str, value: str) -> None:
        """Add a text that somebody else may have written."""
        if json_size(value) > ANNOTATION_BYTES:
            self._cuts += (cut_of(f"annotations.{name}", value),)
            value = shortened(value, ANNOTATION_BYTES)
        self.texts.append(f'"{DOMAIN}/{name}":{quoted(value)}')

    def add_identity(self, name: str, user: UserInfo) -> None:
        """Add an identity as JSON, which stays JSON when it is cut."""
        text, cuts = user_text(user, path=f"annotations.{name}", most=WANTED_USER_BYTES)
        self._cuts += cuts
        self.texts.append(f'"{DOMAIN}/{name}":{quoted(text)}')

    def piece(self) -> BoundedText:
        """Return them all, in the order of their keys."""
        if self._cuts:
            self.texts += [_TRUNCATED, f'"{_CUTS}":{quoted(cuts_text(self._cuts))}']
        # Each begins with its key, and no key is the beginning of another.
        self.texts.sort()
        text = f',"annotations":{{{",".join(self.texts)}}}' if self.texts else ""
        return BoundedText(text, self._cuts)


def _add_ending(members: _Members, ending: ResponseOutcome) -> None:
    members.texts.append(f'"{DOMAIN}/response-bytes":"{ending.body_bytes}"')
    if ending.upstream_code:
        members.texts.append(f'"{DOMAIN}/upstream-code":"{ending.upstream_code}"')
    if ending.broken_off:
        members.add("incomplete", ending.broken_off)
    if ending.lost_request:
        members.add("request-body", f"not recorded: {ending.lost_request}")
    if ending.lost_response:
        members.add("response-body", f"not recorded: {ending.lost_response}")
    if ending.latencies:
        members.texts.append(ending.latencies)


def format_latencies(latencies: Latencies, *, verb: str) -> str:
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


def annotations_template(permit: Permit) -> str:
    """Return the annotations of a request of which nothing special is to be told, as a pattern.

    `%d` are the bytes of the answer and the code of the API server, in this order.
    """
    code, size = 111222333, 444555666
    text = format_annotations(permit, None, reviews=0, ending=ResponseOutcome(code, size)).text
    return text.replace("%", "%%").replace(str(size), "%d").replace(str(code), "%d")


_LONGEST_ADOPTED = 64
_NAME = b"audit-id"
_NAME_LENGTH = len(_NAME)


def client_audit_id(headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return the client's own id if it is fit for a header and a log; else one must be made.

    Two ids are refused: the API server would take the first and drop the other unseen.
    """
    # Most names differ in length already, which is seen sooner.
    values = [v for name, v in headers if len(name) == _NAME_LENGTH and name.lower() == _NAME]
    if len(values) > 1:
        raise BadRequest("more than one Audit-ID header")
    if not values or not 0 < len(values[0]) <= _LONGEST_ADOPTED:
        return None
    return values[0] if values[0].isascii() and values[0].decode().isprintable() else None


def new_audit_id(random: bytes) -> bytes:
    """Return sixteen random bytes as a UUID of version 4, six bits of them replaced."""
    digits = random.hex()
    variant = "89ab"[random[8] >> 4 & 3]
    text = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
    return text.encode()
