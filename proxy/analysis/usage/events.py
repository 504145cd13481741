"""Impersonations in audit events of the proxy or of an API server."""

from collections.abc import Mapping
from typing import NamedTuple

from proxy.core.audit.annotations import read_event_cuts
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import unsatisfiable_reason
from proxy.core.impersonation.modes import ImpersonationMode, applicable_modes
from proxy.core.impersonation.permit import is_reserved_key
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.truncation import InvalidTruncatedValues
from proxy.core.userinfo import (
    ANONYMOUS,
    AUTHENTICATED,
    NODE_NAME_KEY,
    UNAUTHENTICATED,
    Caller,
    UserInfo,
    make_extra,
    service_account,
    service_account_groups,
)

NO_MODE = "none"
"""Used if no constrained mode can allow the identity, whatever is granted."""
ASSOCIATED_NODE = UserInfo("system:node:*")
"""Placeholder for the node that the impersonator runs on."""

Event = Mapping[str, object]

_DECIDED_STAGES = frozenset(("ResponseStarted", "ResponseComplete", "Panic"))
_STARTED = "ResponseStarted"
_FORBIDDEN = 403
_CONSTRAINTS = {mode.constraint: mode.value for mode in ImpersonationMode if mode.constraint}
_DISCOVERY = ("/api", "/apis", "/openapi")
PATTERNS = frozenset(f"{root}/*" for root in _DISCOVERY)
"""Paths that stand for all paths below them."""
_WITHOUT_LEGACY = ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY))
_ANYTHING = RequestInfo("get", "/")
_GRANTED = ("user.", "impersonatedUser.", "objectRef")
_MAX_ENTRIES = 10_000
_MAX_CACHED_LENGTH = 1024


class TruncatedEvent(InvalidAuditEvent):
    """An event is truncated in a part that a grant would have to name."""


class UsedRequest(NamedTuple):
    """An action that was done while impersonating, without its namespace.

    Names of objects are left out, because they change too often to be granted.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    path: str = ""

    def request_info(self, namespace: str) -> RequestInfo:
        """Return the request info in one namespace, or in all of them if it is empty."""
        return RequestInfo(
            self.verb,
            self.path,
            is_resource=bool(self.resource),
            group=self.group,
            namespace=namespace,
            resource=self.resource,
            subresource=self.subresource,
        )


class ImpersonationEvent(NamedTuple):
    """One impersonated request."""

    caller: str
    wanted_user: UserInfo
    mode: str
    """The mode that allowed it. For legacy, the first mode that could allow it, or `none`."""
    request_info: UsedRequest
    namespace: str
    received_at: str
    is_legacy: bool
    is_over: bool
    is_forbidden: bool
    """The target itself lacked permission."""


class ImpersonationReader:
    """Reads events. Resolved users and modes are cached for events with equal users."""

    def __init__(self) -> None:
        self._cache: dict[tuple[object, ...], tuple[UserInfo, str]] = {}

    def read(self, event: Event) -> ImpersonationEvent | None:
        """Return the impersonation of an event, or None if there is none or none yet."""
        stage = _text(event, "stage")
        if not stage or event.get("kind", "Event") != "Event":
            raise InvalidAuditEvent
        impersonated = event.get("impersonatedUser")
        if not isinstance(impersonated, dict) or stage not in _DECIDED_STAGES:
            return None
        user = _mapping(event, "user")
        if not _text(user, "username") or not _text(impersonated, "username"):
            raise InvalidAuditEvent
        if "annotations" in event:
            _require_whole(event)
        constraint = _text(_mapping(event, "authenticationMetadata"), "impersonationConstraint")
        wanted_user, mode = self._resolve_cached(user, impersonated, constraint)
        action, namespace = _read_action(event)
        return ImpersonationEvent(
            _text(user, "username"),
            wanted_user,
            mode,
            action,
            namespace,
            _text(event, "requestReceivedTimestamp"),
            is_legacy=not constraint,
            is_over=stage != _STARTED,
            is_forbidden=_mapping(event, "responseStatus").get("code") == _FORBIDDEN,
        )

    def _resolve_cached(
        self, user: Event, impersonated: Event, constraint: str
    ) -> tuple[UserInfo, str]:
        name, extra = _text(impersonated, "username"), _mapping(impersonated, "extra")
        groups = _texts(impersonated.get("groups"))
        caller = _text(user, "username")
        nodes = _texts(_mapping(user, "extra").get(NODE_NAME_KEY)) if "extra" in user else ()
        # The mode depends on the caller's node. Without a node the caller is irrelevant.
        key = (caller if nodes else "", nodes, name, _text(impersonated, "uid"), groups, constraint)
        if extra or len(name) + sum(map(len, groups)) > _MAX_CACHED_LENGTH:
            return _resolve(key, extra)
        known = self._cache.get(key)
        if known is None:
            if len(self._cache) >= _MAX_ENTRIES:
                self._cache.clear()
            known = self._cache[key] = _resolve(key, extra)
        return known


def _require_whole(event: Event) -> None:
    """Raise TruncatedEvent if a user, object or path is truncated: it would be another one."""
    try:
        cuts = read_event_cuts(_mapping(event, "annotations"))
    except InvalidTruncatedValues as error:
        raise InvalidAuditEvent from error
    # If the remaining URI has a query, the truncation is after the path.
    is_path_cut = "requestURI" in cuts and "?" not in _text(event, "requestURI")
    is_path_used = "objectRef" not in event
    if (is_path_cut and is_path_used) or any(path.startswith(_GRANTED) for path in cuts):
        raise TruncatedEvent


def caller_groups(event: Event) -> tuple[str, ...]:
    """Return the groups of the authenticated caller."""
    return _texts(_mapping(event, "user").get("groups"))


def reason_without_legacy(wanted_user: UserInfo) -> str | None:
    """Return why no constrained grant can allow this user, or None if one can."""
    caller = Caller(UserInfo(""))
    return unsatisfiable_reason(
        plan_attempts(caller, wanted_user, _ANYTHING, rules=_WITHOUT_LEGACY)
    )


def _resolve(
    key: tuple[str, tuple[str, ...], str, str, tuple[str, ...], str], extra: Event
) -> tuple[UserInfo, str]:
    caller_name, nodes, name, uid, groups, constraint = key
    requested = {key: _texts(values) for key, values in extra.items() if not is_reserved_key(key)}
    wanted_user = UserInfo(
        name, uid, _requested_groups(name, groups, constraint), make_extra(requested)
    )
    if constraint:
        mode = _CONSTRAINTS.get(constraint, "")
        if not mode:
            raise InvalidAuditEvent
    else:
        extra_of_caller = make_extra({NODE_NAME_KEY: nodes} if nodes else {})
        mode = _first_mode(UserInfo(caller_name, extra=extra_of_caller), wanted_user)
    return (ASSOCIATED_NODE if mode == ImpersonationMode.ASSOCIATED_NODE else wanted_user), mode


def _first_mode(caller: UserInfo, wanted_user: UserInfo) -> str:
    mode = applicable_modes(Caller(caller), wanted_user)[0]
    if mode is ImpersonationMode.LEGACY or reason_without_legacy(wanted_user) is not None:
        return NO_MODE
    return mode.value


def _requested_groups(name: str, groups: tuple[str, ...], constraint: str) -> tuple[str, ...]:
    """Return the groups that the client named: those of the event without implied groups.

    A client that names the implied last group gets the same user, and cannot be distinguished.
    """
    implied = UNAUTHENTICATED if name == ANONYMOUS else AUTHENTICATED
    if groups[-1:] == (implied,):
        groups = groups[:-1]
    account = service_account(name)
    if account is not None:
        return () if groups == service_account_groups(account.namespace) else groups
    # The constrained modes accept a node by its name alone. Legacy implies no group: a node that
    # has one was requested with it.
    return () if constraint and constraint.endswith("-node") else groups


def _read_action(event: Event) -> tuple[UsedRequest, str]:
    verb = _text(event, "verb")
    reference = event.get("objectRef")
    if isinstance(reference, dict) and reference.get("resource"):
        action = UsedRequest(
            verb,
            _text(reference, "apiGroup"),
            _text(reference, "resource"),
            _text(reference, "subresource"),
        )
        return action, _text(reference, "namespace")
    path = _text(event, "requestURI").partition("?")[0]
    if not verb or not path:
        raise InvalidAuditEvent
    return UsedRequest(verb, path=_folded_path(path)), ""


def _folded_path(path: str) -> str:
    """Return a path as it is granted: discovery has too many paths to list, so by a pattern."""
    root = f"/{path.split('/', 2)[1]}" if path.startswith("/") else path
    return f"{root}/*" if root in _DISCOVERY and path != root else path


def _mapping(event: Event, name: str) -> Event:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        return ()
    return tuple([value for value in values if isinstance(value, str)])
