"""A request as recorded in an audit event of the proxy or of an API server."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.core.audit.annotations import DOMAIN, read_event_cuts
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.errors import StatusError
from proxy.core.explain.explanation import ExplainRequest
from proxy.core.impersonation.permit import is_reserved_key
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.truncation import InvalidTruncatedValues
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

# If one of these is truncated, the evaluated request would be a different one.
_EVALUATED = ("requestURI", "user.", "impersonatedUser.", "annotations.wanted.")
_FORBIDDEN = 403
_METHODS = (b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"HEAD")

Event = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """The outcome of a request as its event records it."""

    audit_id: str
    received_at: str
    code: int | None
    message: str
    constraint: str
    """The verb that allowed the impersonation, in a constrained mode."""
    annotations: Mapping[str, str]
    """The proxy's own annotations, without their domain."""


def read_recorded(event: Event) -> RecordedOutcome:
    """Return the recorded outcome, or raise InvalidAuditEvent if this is not an audit event."""
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
    """Return the request of an event, to be evaluated again."""
    cut = _cut_paths(event)
    if incomplete := [path for path in cut if path.startswith(_EVALUATED)]:
        raise InvalidAuditEvent(
            f"its {', '.join(incomplete)} was truncated when it was recorded; the API server's own "
            "event with this auditID, if there is one, is complete"
        )
    caller = _read_user(_mapping(event, "user"))
    if caller is None:
        raise InvalidAuditEvent(
            "the caller was not authenticated, so there is no decision to explain"
        )
    wanted_user = _wanted_user(event, has_status="responseStatus" not in cut)
    return ExplainRequest(Caller(caller), wanted_user, _request_info(event))


def _cut_paths(event: Event) -> list[str]:
    try:
        return list(read_event_cuts(_mapping(event, "annotations")))
    except InvalidTruncatedValues as error:
        raise InvalidAuditEvent(f"its annotation {DOMAIN}/truncated cannot be read") from error


def wanted_user_from_event(impersonated_user: UserInfo) -> UserInfo:
    """Return the wanted user of an impersonated user: without implied groups and extras.

    A client that names an implied group gets the same user, so the two cannot be distinguished.
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


def _wanted_user(event: Event, *, has_status: bool) -> UserInfo | None:
    """Return the wanted user; `has_status` says that the response status is not truncated."""
    annotation = _text(_mapping(event, "annotations"), f"{DOMAIN}/wanted")
    if annotation:
        try:
            user = json.loads(annotation)
        except ValueError as error:
            raise InvalidAuditEvent(f"its annotation {DOMAIN}/wanted is not JSON") from error
        return _read_user(user) if isinstance(user, dict) else None
    impersonated_user = _read_user(_mapping(event, "impersonatedUser"))
    if impersonated_user is not None:
        return wanted_user_from_event(impersonated_user)
    # Treating this as a request without impersonation would produce a wrong explanation.
    status = _mapping(event, "responseStatus")
    is_unclear = not has_status and status.get("code") == _FORBIDDEN
    if is_unclear or " cannot impersonate" in _text(status, "message"):
        raise InvalidAuditEvent(
            "an impersonation was denied, and the event does not name the wanted user"
        )
    return None


def _request_info(event: Event) -> RequestInfo:
    verb, target = _text(event, "verb"), _text(event, "requestURI").encode()
    # An event has no method. It is the one that gives this target the recorded verb.
    for method in _METHODS:
        try:
            request_info = parse_request_info(method, target)
        except StatusError as error:
            raise InvalidAuditEvent(f"its requestURI cannot be read: {error.message}") from error
        if request_info.verb == verb:
            return request_info
    raise InvalidAuditEvent(f"no request for its requestURI has the verb {verb}")


def _read_user(user: Mapping[str, object]) -> UserInfo | None:
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
