"""The access checks of an impersonation: one plan, shared by serving, tests and explanations.

Checks are built only on demand, so that a cached decision builds none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.modes import ImpersonationMode, applicable_modes
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy, validate_extra
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import (
    MASTERS,
    Caller,
    UserInfo,
    node_name,
    service_account,
)

_AUTHENTICATION_GROUP = "authentication.k8s.io"
_ASSOCIATED_NODE_KEYS = "authentication.kubernetes.io/associated-node-keys"
_WILDCARD_THRESHOLD = 4
"""From this number of items on, a wildcard check for all of them comes first."""

_STREAM_SUBRESOURCES = frozenset({"exec", "attach", "portforward"})


@dataclass(frozen=True, slots=True)
class ImpersonationRules:
    """The configuration that affects a decision.

    Without `constrained`, checks and results are those of the pre-1.35 impersonation filter.
    """

    constrained: bool = True
    legacy: LegacyPolicy = field(default_factory=LegacyPolicy)
    protected_groups: frozenset[str] = frozenset({MASTERS})
    caches_legacy: bool = False
    upgrade_needs_create: bool = False
    warns_on_discovery: bool = False
    """A denied non-resource request gets a Warning header, which kubectl prints."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """All checks of one mode for one request.

    `caller` is the user in the access checks. `requires_create` adds a check of the same request
    info with the verb `create`.
    """

    mode: ImpersonationMode
    caller: UserInfo
    wanted_user: UserInfo
    request_info: RequestInfo
    rules: ImpersonationRules
    requires_create: bool = False

    @property
    def is_request_cacheable(self) -> bool:
        """Return whether the result of the whole attempt may be cached."""
        return (
            self.mode is not ImpersonationMode.LEGACY
            and not self.request_info.has_unparsed_selector
        )

    @property
    def is_identity_cacheable(self) -> bool:
        """Return whether the result of its identity checks may be cached."""
        return self.mode is not ImpersonationMode.LEGACY or self.rules.caches_legacy


@dataclass(frozen=True, slots=True)
class WildcardCheck:
    """A check for all items of a kind; if it is denied, each item is checked individually."""

    check: AccessCheck
    items: tuple[tuple[str, str], ...]

    def individual_checks(self) -> tuple[AccessCheck, ...]:
        """Return the checks to make, in order, if the wildcard check is denied."""
        return _individual_checks(self.check, self.items)


@dataclass(frozen=True, slots=True)
class ForbiddenStep:
    """A step that no permission can allow: the attempt ends here, without an access check."""

    check: AccessCheck
    reason: str


Step = AccessCheck | WildcardCheck | ForbiddenStep


def plan_attempts(
    caller: Caller,
    wanted_user: UserInfo,
    request_info: RequestInfo,
    *,
    rules: ImpersonationRules,
    preferred_mode: ImpersonationMode | None = None,
    is_upgrade: bool = False,
) -> Iterator[Attempt]:
    """Yield the attempts in order of evaluation, the last successful mode of the caller first.

    Yields nothing if the configuration allows none of the applicable modes.
    """
    requires_create = rules.upgrade_needs_create and is_upgrade and is_pod_stream_get(request_info)
    for mode in modes_in_order(caller, wanted_user, rules, preferred_mode):
        reviewed = _reviewed_caller(mode, caller.user)
        yield Attempt(mode, reviewed, wanted_user, request_info, rules, requires_create)


def modes_in_order(
    caller: Caller,
    wanted_user: UserInfo,
    rules: ImpersonationRules,
    preferred: ImpersonationMode | None,
) -> list[ImpersonationMode]:
    """Return the modes of the attempts in order of evaluation."""
    modes = (
        list(applicable_modes(caller, wanted_user))
        if rules.constrained
        else [ImpersonationMode.LEGACY]
    )
    if rules.legacy.action_for(caller.user) is LegacyAction.DENY:
        modes.remove(ImpersonationMode.LEGACY)
    if preferred in modes:
        modes.sort(key=lambda mode: mode is not preferred)
    return modes


def request_checks(attempt: Attempt) -> list[AccessCheck]:
    """Return the checks on the request itself. Legacy has none: it does not constrain requests."""
    if attempt.mode is ImpersonationMode.LEGACY:
        return []
    verbs = [attempt.request_info.verb]
    if attempt.requires_create:
        verbs.append("create")
    return [_request_check(attempt, verb) for verb in verbs]


def access_check_for(request_info: RequestInfo, verb: str, *, user: UserInfo) -> AccessCheck:
    """Return the check whether a user may use a verb on the resource or path of a request."""
    if not request_info.is_resource:
        return AccessCheck(user, verb, is_resource=False, path=request_info.path)
    return AccessCheck(
        user,
        verb,
        group=request_info.group,
        version=request_info.version,
        resource=request_info.resource,
        subresource=request_info.subresource,
        namespace=request_info.namespace,
        name=request_info.name,
        fields=request_info.fields,
        labels=request_info.labels,
    )


def is_pod_stream_get(request_info: RequestInfo) -> bool:
    """Return whether a request opens a stream into a pod by GET."""
    is_pod = request_info.resource == "pods" and request_info.group == ""
    return (
        is_pod and request_info.subresource in _STREAM_SUBRESOURCES and request_info.verb == "get"
    )


def identity_steps(attempt: Attempt) -> list[Step]:
    """Return the steps on the wanted user, in order of evaluation."""
    if attempt.mode is ImpersonationMode.LEGACY:
        return _legacy_steps(attempt)
    steps: list[Step] = [_username_check(attempt)]
    if attempt.wanted_user.uid:
        steps.append(_identity_check(attempt, "uids", name=attempt.wanted_user.uid))
    return steps + _constrained_groups(attempt) + _constrained_extras(attempt)


def _reviewed_caller(mode: ImpersonationMode, caller: UserInfo) -> UserInfo:
    """Return the caller as it is sent to the authorizer.

    For a node's agent, the keys of its extras are sent, but not their values, which differ from
    pod to pod. Its cached decisions are shared between nodes. That is safe only if no authorizer
    could have based its decision on a node-specific value.
    """
    if mode is not ImpersonationMode.ASSOCIATED_NODE:
        return caller
    keys = tuple(key for key, _ in caller.extra)
    return UserInfo(caller.name, caller.uid, caller.groups, ((_ASSOCIATED_NODE_KEYS, keys),))


def _request_check(attempt: Attempt, verb: str) -> AccessCheck:
    return access_check_for(
        attempt.request_info, attempt.mode.action_verb(verb), user=attempt.caller
    )


def _identity_check(
    attempt: Attempt,
    resource: str,
    *,
    namespace: str = "",
    name: str = "",
    subresource: str = "",
) -> AccessCheck:
    """Return a check on one part of the wanted user, in the API group of its mode."""
    group, version = _AUTHENTICATION_GROUP, "v1"
    if attempt.mode is ImpersonationMode.LEGACY and resource not in {"uids", "userextras"}:
        group, version = "", "v1" if attempt.rules.constrained else ""
    return AccessCheck(
        attempt.caller,
        attempt.mode.identity_verb,
        group=group,
        version=version,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


def _username_check(attempt: Attempt) -> AccessCheck:
    username = attempt.wanted_user.name
    if attempt.mode is ImpersonationMode.ASSOCIATED_NODE:
        # The cached decision is shared by all nodes, so it must be valid for all of them.
        return _identity_check(attempt, "nodes", name="*")
    if attempt.mode is ImpersonationMode.ARBITRARY_NODE:
        return _identity_check(attempt, "nodes", name=node_name(username) or username)
    account = service_account(username)
    if account is None:
        return _identity_check(attempt, "users", name=username)
    return _identity_check(
        attempt, "serviceaccounts", namespace=account.namespace, name=account.name
    )


def _constrained_groups(attempt: Attempt) -> list[Step]:
    groups = attempt.wanted_user.groups
    if not groups:
        return []
    check = _identity_check(attempt, "groups")
    if "" in groups:
        return [ForbiddenStep(check, "impersonating the empty string group is not allowed")]
    protected_group = _find_protected(groups, attempt.rules.protected_groups | {MASTERS})
    if protected_group is not None:
        return [_forbidden_group(attempt, protected_group)]
    items = _group_items(groups)
    if len(items) >= _WILDCARD_THRESHOLD:
        return [WildcardCheck(_identity_check(attempt, "groups", name="*"), items)]
    return list(_individual_checks(check, items))


def _constrained_extras(attempt: Attempt) -> list[Step]:
    extra = attempt.wanted_user.extra
    if not extra:
        return []
    check = _identity_check(attempt, "userextras")
    error = validate_extra(extra)
    if error is not None:
        return [ForbiddenStep(check, error)]
    items = _extra_items(attempt.wanted_user)
    # Every key has at least one value here, so the number of values also covers that of keys.
    if len(items) >= _WILDCARD_THRESHOLD:
        wildcard = _identity_check(attempt, "userextras", subresource="*", name="*")
        return [WildcardCheck(wildcard, items)]
    return list(_individual_checks(check, items))


def _legacy_steps(attempt: Attempt) -> list[Step]:
    wanted_user = attempt.wanted_user
    protected_group = _find_protected(wanted_user.groups, attempt.rules.protected_groups)
    if protected_group is not None:
        return [_forbidden_group(attempt, protected_group)]
    username = _username_check(attempt)
    uids = [_identity_check(attempt, "uids", name=wanted_user.uid)] if wanted_user.uid else []
    groups = _individual_checks(
        _identity_check(attempt, "groups"), _group_items(wanted_user.groups)
    )
    extras = _individual_checks(_identity_check(attempt, "userextras"), _extra_items(wanted_user))
    if attempt.rules.constrained:
        return [username, *uids, *groups, *extras]
    return [username, *groups, *extras, *uids]


def _find_protected(groups: Sequence[str], protected: frozenset[str]) -> str | None:
    if MASTERS in groups and MASTERS in protected:
        return MASTERS
    return next((group for group in groups if group in protected), None)


def _forbidden_group(attempt: Attempt, group: str) -> ForbiddenStep:
    check = _identity_check(attempt, "groups", name=group)
    return ForbiddenStep(check, f"impersonating the {group} group is not allowed")


def _group_items(groups: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(("", group) for group in groups)


def _extra_items(wanted_user: UserInfo) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, values in wanted_user.extra for value in values)


def _individual_checks(
    check: AccessCheck, items: Sequence[tuple[str, str]]
) -> tuple[AccessCheck, ...]:
    """Return one check like the given one for each subresource and name."""
    return tuple(
        AccessCheck(
            check.user,
            check.verb,
            group=check.group,
            version=check.version,
            resource=check.resource,
            subresource=subresource,
            name=name,
        )
        for subresource, name in items
    )
