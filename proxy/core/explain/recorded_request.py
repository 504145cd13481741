"""A request as an audit event tells it, ours or an API server's: who, as whom, and what."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.core.audit.annotations import DOMAIN, read_event_cuts
from proxy.core.errors import StatusError
from proxy.core.explain.explanation import ExplainRequest
from proxy.core.impersonation.permit import is_reserved_key
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.truncation import UnreadableCuts
from proxy.core.userinfo import (
    ANONYMOUS,
    AUTHENTICATED,
    NODES,
    UNAUTHENTICATED,
    Caller,
    UserInfo,
    make_extra,
    node_name,
    service_account,
    service_account_groups,
)

# A request that lacks a part of one of these would be judged as another one.
_JUDGED = ("requestURI", "user.", "impersonatedUser.", "annotations.wanted.")
_FORBIDDEN = 403
_METHODS = (b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"HEAD")

Event = Mapping[str, object]


class InvalidAuditEvent(ValueError):
    """An event does not tell of a request that can be judged; the text says why."""


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """What an event says became of a request."""

    audit_id: str
    received_at: str
    code: int | None
    message: str
    constraint: str
    """The verb that allowed the impersonation, in a constrained mode."""
    annotations: Mapping[str, str]
    """Ours, without their domain."""


def read_recorded(event: Event) -> RecordedOutcome:
    """Return what became of a request; InvalidAuditEvent if that is no event at all."""
    if not _text(event, "auditID") or not _text(event, "requestURI"):
        raise InvalidAuditEvent("this is not an audit event: it has no auditID or no requestURI")
    status = _mapping(event, "responseStatus")
    code = status.get("code")
    annotations = _mapping(event, "annotations")
    return RecordedOutcome(
        audit_id=_text(event, "auditID"),
        received_at=_text(event, "requestReceivedTimestamp"),
        code=code if isinstance(code, int) else None,
        message=_text(status, "message"),
        constraint=_text(_mapping(event, "authenticationMetadata"), "impersonationConstraint"),
        annotations={
            key.removeprefix(f"{DOMAIN}/"): str(value)
            for key, value in annotations.items()
            if key.startswith(f"{DOMAIN}/")
        },
    )


def read_request(event: Event) -> ExplainRequest:
    """Return the request that an event is about, to be judged anew."""
    cut = _cut_paths(event)
    if incomplete := [path for path in cut if path.startswith(_JUDGED)]:
        raise InvalidAuditEvent(
            f"its {', '.join(incomplete)} was cut when it was recorded; the API server's own event "
            "with this auditID, if there is one, has all of it"
        )
    caller = _identity(_mapping(event, "user"))
    if caller is None:
        raise InvalidAuditEvent("nobody was authenticated, so there is nobody to be judged")
    is_told = "responseStatus" not in cut
    return ExplainRequest(Caller(caller), _wanted(event, is_told=is_told), _action(event))


def _cut_paths(event: Event) -> list[str]:
    try:
        return list(read_event_cuts(_mapping(event, "annotations")))
    except UnreadableCuts as error:
        raise InvalidAuditEvent(f"its annotation {DOMAIN}/truncated cannot be read") from error


def wanted_user_from_event(impersonated_user: UserInfo) -> UserInfo:
    """Return whom a client asks for in order to become somebody: without what is implied.

    Who asks for an implied group by name becomes the same, so the two cannot be told apart.
    """
    implied = UNAUTHENTICATED if impersonated_user.name == ANONYMOUS else AUTHENTICATED
    groups = tuple(group for group in impersonated_user.groups if group != implied)
    if groups == _fixed_groups(impersonated_user.name):
        groups = ()
    extra = tuple(pair for pair in impersonated_user.extra if not is_reserved_key(pair[0]))
    return UserInfo(impersonated_user.name, impersonated_user.uid, groups, extra)


def _fixed_groups(name: str) -> tuple[str, ...]:
    account = service_account(name)
    if account is not None:
        return service_account_groups(account.namespace)
    return (NODES,) if node_name(name) is not None else ()


def _wanted(event: Event, *, is_told: bool) -> UserInfo | None:
    """Return whom a request asked for; `is_told` is whether its response status is whole."""
    asked_for = _text(_mapping(event, "annotations"), f"{DOMAIN}/wanted")
    if asked_for:
        try:
            told = json.loads(asked_for)
        except ValueError as error:
            raise InvalidAuditEvent(f"its annotation {DOMAIN}/wanted is not JSON") from error
        return _identity(told) if isinstance(told, dict) else None
    became = _identity(_mapping(event, "impersonatedUser"))
    if became is not None:
        return wanted_user_from_event(became)
    # Who is taken for acting as themselves here would be told a wrong story.
    status = _mapping(event, "responseStatus")
    is_unclear = not is_told and status.get("code") == _FORBIDDEN
    if is_unclear or " cannot impersonate" in _text(status, "message"):
        raise InvalidAuditEvent("an impersonation was denied, and the event does not say of whom")
    return None


def _action(event: Event) -> RequestInfo:
    verb, target = _text(event, "verb"), _text(event, "requestURI").encode()
    # The method is not in an event. It is the one by which the target means that verb.
    for method in _METHODS:
        try:
            request_info = parse_request_info(method, target)
        except StatusError as refusal:
            raise InvalidAuditEvent(
                f"its requestURI cannot be read: {refusal.message}"
            ) from refusal
        if request_info.verb == verb:
            return request_info
    raise InvalidAuditEvent(f"no request for its requestURI has the verb {verb}")


def _identity(user: Mapping[str, object]) -> UserInfo | None:
    name = _text(user, "username")
    if not name:
        return None
    extra = _mapping(user, "extra")
    return UserInfo(
        name,
        _text(user, "uid"),
        _texts(user.get("groups")),
        make_extra({key: _texts(values) for key, values in extra.items()}),
    )


def _mapping(event: Event, name: str) -> Mapping[str, object]:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        return ()
    return tuple(value for value in values if isinstance(value, str))
