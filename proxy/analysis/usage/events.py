"""What one audit event, ours or an API server's, says about an impersonation."""

from collections.abc import Mapping
from typing import NamedTuple

from proxy.core.audit.annotations import read_event_cuts
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import unsatisfiable_reason
from proxy.core.impersonation.modes import ImpersonationMode, applicable_modes
from proxy.core.impersonation.permit import is_reserved_key
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.truncation import UnreadableCuts
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
"""Where no constrained mode can make the identity, whatever is granted."""
ASSOCIATED_NODE = UserInfo("system:node:*")
"""Whichever node the impersonator runs on."""

Event = Mapping[str, object]

_DECIDED_STAGES = frozenset(("ResponseStarted", "ResponseComplete", "Panic"))
_STARTED = "ResponseStarted"
_FORBIDDEN = 403
_CONSTRAINTS = {mode.constraint: mode.value for mode in ImpersonationMode if mode.constraint}
_DISCOVERY = ("/api", "/apis", "/openapi")
PATTERNS = frozenset(f"{root}/*" for root in _DISCOVERY)
"""Paths that stand for all below them."""
_WITHOUT_LEGACY = ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY))
_ANYTHING = RequestInfo("get", "/")
_GRANTED = ("user.", "impersonatedUser.", "objectRef")
_MOST_REMEMBERED = 10_000
_LONGEST_REMEMBERED = 1024


class InvalidAuditEvent(ValueError):
    """Something is no audit event."""


class TruncatedEvent(InvalidAuditEvent):
    """An event holds only a part of what a grant would have to name."""


class UsedRequest(NamedTuple):
    """Something that was done while impersonating, wherever it was.

    Names of objects are left out: what is called so today is called otherwise tomorrow.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    path: str = ""

    def within(self, namespace: str) -> RequestInfo:
        """Return it as an authorizer judges it, in one namespace or, without any, in all."""
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
    """Somebody acted as somebody else."""

    caller: str
    wanted_user: UserInfo
    mode: str
    """The mode that allowed it; for legacy, the first one that could allow it, or `none`."""
    request_info: UsedRequest
    namespace: str
    received_at: str
    is_legacy: bool
    is_over: bool
    is_forbidden: bool
    """The target itself was not allowed to."""


class ImpersonationReader:
    """Reads events; whom an identity means is worked out once for all that say the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[UserInfo, str]] = {}

    def read(self, event: Event) -> ImpersonationEvent | None:
        """Return what an event tells; None if nobody acted as somebody else, or not yet."""
        stage = _text(event, "stage")
        if not stage or event.get("kind", "Event") != "Event":
            raise InvalidAuditEvent
        acting = event.get("impersonatedUser")
        if not isinstance(acting, dict) or stage not in _DECIDED_STAGES:
            return None
        user = _mapping(event, "user")
        if not _text(user, "username") or not _text(acting, "username"):
            raise InvalidAuditEvent
        if "annotations" in event:
            _check_whole(event)
        constraint = _text(_mapping(event, "authenticationMetadata"), "impersonationConstraint")
        wanted_user, mode = self._resolved(user, acting, constraint)
        action, namespace = _action(event)
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

    def _resolved(self, user: Event, acting: Event, constraint: str) -> tuple[UserInfo, str]:
        name, extra = _text(acting, "username"), _mapping(acting, "extra")
        groups = _texts(acting.get("groups"))
        caller = _text(user, "username")
        nodes = _texts(_mapping(user, "extra").get(NODE_NAME_KEY)) if "extra" in user else ()
        # Where a caller runs matters; who it is does not.
        says = (caller if nodes else "", nodes, name, _text(acting, "uid"), groups, constraint)
        if extra or len(name) + sum(map(len, groups)) > _LONGEST_REMEMBERED:
            return _resolve(says, extra)
        known = self._known.get(says)
        if known is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            known = self._known[says] = _resolve(says, extra)
        return known


def _check_whole(event: Event) -> None:
    """Refuse an event whose identities, object or path were cut: each would be another one."""
    try:
        cuts = read_event_cuts(_mapping(event, "annotations"))
    except UnreadableCuts as error:
        raise InvalidAuditEvent from error
    # The cut comes after the path where there is a query.
    is_path_cut = "requestURI" in cuts and "?" not in _text(event, "requestURI")
    is_path_used = "objectRef" not in event
    if (is_path_cut and is_path_used) or any(path.startswith(_GRANTED) for path in cuts):
        raise TruncatedEvent


def caller_groups(event: Event) -> tuple[str, ...]:
    """Return the groups of the user who was authenticated."""
    return _texts(_mapping(event, "user").get("groups"))


def reason_without_legacy(wanted_user: UserInfo) -> str | None:
    """Return why no grant can make this identity without legacy, or None if one can."""
    somebody = Caller(UserInfo(""))
    return unsatisfiable_reason(
        plan_attempts(somebody, wanted_user, _ANYTHING, rules=_WITHOUT_LEGACY)
    )


def _resolve(
    says: tuple[str, tuple[str, ...], str, str, tuple[str, ...], str], extra: Event
) -> tuple[UserInfo, str]:
    caller_name, nodes, name, uid, groups, constraint = says
    told = {key: _texts(values) for key, values in extra.items() if not is_reserved_key(key)}
    wanted_user = UserInfo(name, uid, _asked_groups(name, groups, constraint), make_extra(told))
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


def _asked_groups(name: str, groups: tuple[str, ...], constraint: str) -> tuple[str, ...]:
    """Return the groups that were asked for: those of the event without what is implied.

    Who asks for the last implied group by name becomes the same, and cannot be told apart.
    """
    implied = UNAUTHENTICATED if name == ANONYMOUS else AUTHENTICATED
    if groups[-1:] == (implied,):
        groups = groups[:-1]
    account = service_account(name)
    if account is not None:
        return () if groups == service_account_groups(account.namespace) else groups
    # The constrained modes make nodes from a name alone. Legacy implies no group: a node that was
    # in one was asked for with it.
    return () if constraint and constraint.endswith("-node") else groups


def _action(event: Event) -> tuple[UsedRequest, str]:
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
    """Return a path as it is granted: discovery has too many to name, and clients read them all."""
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
