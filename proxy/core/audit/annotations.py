"""Audit annotations and audit ids.

The proxy's own annotations have keys of the domain `kube-understudy.io`. The latency annotations
are kube-apiserver's, which writes them for slow requests.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from proxy.core.audit.event import PLACEHOLDER, go_duration, quoted
from proxy.core.audit.limits import ANNOTATION_BYTES, WANTED_USER_BYTES
from proxy.core.audit.users import user_text
from proxy.core.errors import BadRequest, StatusError
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import Permit
from proxy.core.truncation import (
    NO_TRUNCATED_VALUES,
    BoundedText,
    TruncatedValue,
    TruncatedValues,
    format_truncated_values,
    json_size,
    parse_truncated_values,
    truncate_to_size,
    truncated_value,
)
from proxy.core.userinfo import UserInfo

DOMAIN = "kube-understudy.io"
_LATENCY = "apiserver.latency.k8s.io"
SLOW_REQUEST = timedelta(milliseconds=500)
"""Requests that take longer than this get latency annotations."""
_SECOND = timedelta(seconds=1)
_TRUNCATED = '"audit.k8s.io/truncated":"true"'
"""The annotation by which kube-apiserver marks an event that it truncated because of its size."""
_CUTS = f"{DOMAIN}/truncated"
_MODES = {mode: f'"{DOMAIN}/mode":"{mode.value}"' for mode in ImpersonationMode}


class ResponseOutcome(NamedTuple):
    """Outcome of a request. `upstream_code` is 0 if the API server did not respond."""

    upstream_code: int
    body_bytes: int
    incomplete_reason: str = ""
    """Why the response is incomplete, or empty."""
    request_body_omitted_reason: str = ""
    """Why the request body is not recorded although the policy demands it, or empty."""
    response_body_omitted_reason: str = ""
    """The same for the response body."""
    latencies: str = ""


class Latencies(NamedTuple):
    """Duration of a request, and the seconds of its authentication and impersonation decision."""

    total: timedelta
    authentication: float | None
    impersonation: float | None


def format_annotations(
    permit: Permit | None,
    error: StatusError | None,
    *,
    reviews: int,
    outcome: ResponseOutcome | None,
    wanted_user: UserInfo | None = None,
    cuts: TruncatedValues = NO_TRUNCATED_VALUES,
) -> BoundedText:
    """Return the annotations as a member of an event, sorted by key, and all truncations.

    `wanted_user` is the user that a denied request named: its event has no impersonated user.
    `cuts` are the truncations of the event's other members.
    """
    members = _Annotations(cuts)
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
    if outcome is not None:
        _add_outcome(members, outcome)
    return members.piece()


def read_event_cuts(annotations: Mapping[str, object]) -> Mapping[str, TruncatedValue]:
    """Return the truncations of an event of the proxy by path, or raise InvalidTruncatedValues."""
    value = annotations.get(_CUTS)
    return parse_truncated_values(value) if isinstance(value, str) else {}


class _Annotations:
    """The annotations of one event, and its truncations."""

    def __init__(self, cuts: TruncatedValues) -> None:
        self.texts: list[str] = []
        self._cuts = cuts

    def add(self, name: str, value: str) -> None:
        """Add an annotation whose value may be untrusted, and truncate it if it is too long."""
        if json_size(value) > ANNOTATION_BYTES:
            self._cuts += (truncated_value(f"annotations.{name}", value),)
            value = truncate_to_size(value, ANNOTATION_BYTES)
        self.texts.append(f'"{DOMAIN}/{name}":{quoted(value)}')

    def add_identity(self, name: str, user: UserInfo) -> None:
        """Add a user as JSON. The value is valid JSON even when it is truncated."""
        text, cuts = user_text(user, path=f"annotations.{name}", max_bytes=WANTED_USER_BYTES)
        self._cuts += cuts
        self.texts.append(f'"{DOMAIN}/{name}":{quoted(text)}')

    def piece(self) -> BoundedText:
        """Return all annotations, sorted by key."""
        if self._cuts:
            self.texts += [_TRUNCATED, f'"{_CUTS}":{quoted(format_truncated_values(self._cuts))}']
        # This sorts by key: each text begins with its key, and no key is a prefix of another.
        self.texts.sort()
        text = f',"annotations":{{{",".join(self.texts)}}}' if self.texts else ""
        return BoundedText(text, self._cuts)


def _add_outcome(members: _Annotations, outcome: ResponseOutcome) -> None:
    members.texts.append(f'"{DOMAIN}/response-bytes":"{outcome.body_bytes}"')
    if outcome.upstream_code:
        members.texts.append(f'"{DOMAIN}/upstream-code":"{outcome.upstream_code}"')
    if outcome.incomplete_reason:
        members.add("incomplete", outcome.incomplete_reason)
    if outcome.request_body_omitted_reason:
        members.add("request-body", f"not recorded: {outcome.request_body_omitted_reason}")
    if outcome.response_body_omitted_reason:
        members.add("response-body", f"not recorded: {outcome.response_body_omitted_reason}")
    if outcome.latencies:
        members.texts.append(outcome.latencies)


def format_latencies(latencies: Latencies, *, verb: str) -> str:
    """Return the latency annotations of a slow request. A watch gets none."""
    total, authentication, impersonation = latencies
    if total <= SLOW_REQUEST or verb == "watch":
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
    """Return the annotations of an unremarkable allowed request.

    The size of the response body and the API server's status code, in this order, are placeholders.
    """
    code, size = 111222333, 444555666
    text = format_annotations(permit, None, reviews=0, outcome=ResponseOutcome(code, size)).text
    return text.replace(str(size), PLACEHOLDER).replace(str(code), PLACEHOLDER)


_MAX_CLIENT_ID_BYTES = 64
_UUID = b"xxxxxxxx-xxxx-4xxx-vxxx-xxxxxxxxxxxx"
_UUID_BYTES = 16
_VARIANTS = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)
_VARIANT_POSITION, _VARIANT_COLUMN = _UUID.index(b"v"), 16
# The position of each random digit in a UUID, and in the digits that it is made from.
_DIGITS = [
    (position, position - _UUID[:position].count(b"-"))
    for position, character in enumerate(_UUID)
    if character == ord("x")
]
_NAME = b"audit-id"
_NAME_LENGTH = len(_NAME)


def client_audit_id(headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return the client's audit id if it is safe for a header and a log, else None.

    Two ids are rejected: the API server would use the first and silently drop the other.
    """
    # Comparing lengths first is cheaper, and most names differ in length.
    values = [v for name, v in headers if len(name) == _NAME_LENGTH and name.lower() == _NAME]
    if len(values) > 1:
        raise BadRequest("more than one Audit-ID header")
    if not values or not 0 < len(values[0]) <= _MAX_CLIENT_ID_BYTES:
        return None
    return values[0] if values[0].isascii() and values[0].decode().isprintable() else None


def new_audit_ids(random: bytes) -> list[bytes]:
    """Return a version 4 UUID for every sixteen random bytes; six of their bits are replaced."""
    digits = random.hex().encode()
    text = bytearray(_UUID * (len(random) // _UUID_BYTES))
    # Copying each digit of all UUIDs at once takes a quarter of the time of formatting each UUID.
    for position, column in _DIGITS:
        text[position :: len(_UUID)] = digits[column :: 2 * _UUID_BYTES]
    variants = digits[_VARIANT_COLUMN :: 2 * _UUID_BYTES].translate(_VARIANTS)
    text[_VARIANT_POSITION :: len(_UUID)] = variants
    uuids = bytes(text)
    return [uuids[start : start + len(_UUID)] for start in range(0, len(uuids), len(_UUID))]
