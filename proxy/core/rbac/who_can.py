"""Search for the holders of an impersonation permission: RBAC allows them all checks of a mode.

RBAC names users and groups, and the members of a group cannot be listed. So the result is a set of
holders, each a user name and groups. A user with a holder's name and all its groups has the
permission. Every user that has the permission matches one of the holders.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.checks import (
    Attempt,
    ForbiddenStep,
    ImpersonationRules,
    WildcardCheck,
    identity_steps,
    request_checks,
)
from proxy.core.impersonation.modes import ImpersonationMode, applicable_modes
from proxy.core.rbac.grants import ANY
from proxy.core.rbac.model import (
    GROUP,
    SERVICE_ACCOUNT,
    UNNAMED_USER,
    USER,
    Binding,
    RBACSnapshot,
    Subject,
    implied_groups,
)
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    NODE_NAME_KEY,
    NODES,
    SERVICE_ACCOUNTS,
    UNAUTHENTICATED,
    Caller,
    UserInfo,
    make_extra,
    node_name,
    service_account,
)

KUBE_APISERVER_RULES = ImpersonationRules(protected_groups=frozenset())
"""Rules of kube-apiserver for direct requests. The proxy may be stricter."""

ANY_NODE = ANY
"""A node name that no rule contains: a caller that may impersonate it may impersonate any node."""

_PLACEHOLDER_USER = UserInfo(UNNAMED_USER)
_PLACEHOLDER_ACCOUNT = "system:serviceaccount:understudy:nobody"
_NAMESPACE_GROUP_PREFIX = f"{SERVICE_ACCOUNTS}:"

Requirement = tuple[AccessCheck, ...]
"""Access checks of which one must be allowed."""


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """Users with this name (without a name: every authenticated user) that are in all the groups.

    `roles` grant the permission. Members of `system:masters` need none.
    """

    mode: ImpersonationMode
    name: str
    groups: tuple[str, ...]
    roles: tuple[str, ...] = ()


ImpersonationHolder = tuple[UserInfo, Holder]
"""The wanted user, and a holder of the permission to impersonate it."""


def holders(
    rbac: RBACSnapshot, mode: ImpersonationMode, wanted_user: UserInfo, request_info: RequestInfo
) -> list[Holder]:
    """Return the holders that may impersonate a user in an applicable mode, without duplicates."""
    needed = requirements(mode, wanted_user, request_info)
    if needed is None:
        return []
    met_by = [_met_by(rbac, requirement, mode) for requirement in needed]
    names = sorted(set().union(*(names for names, _ in met_by)) | _additional_names(mode))
    authenticated = _group_sets("", met_by, mode)
    found = [("", groups) for groups in authenticated]
    for name in names:
        own = _own_groups(name, mode)
        # The anonymous user is not an authenticated user.
        wider = [] if name == ANONYMOUS else authenticated
        found += [
            (name, groups)
            for groups in _group_sets(name, met_by, mode)
            if not any(other <= _closure(groups) | own for other in wider)
        ]
    return [
        Holder(
            mode,
            name,
            tuple(sorted(groups)),
            _roles(rbac, needed, _user_of(mode, name, groups)),
        )
        for name, groups in found
        if name != ANONYMOUS or not groups
    ]


def identity_holders(
    rbac: RBACSnapshot, wanted_user: UserInfo, request_info: RequestInfo
) -> list[ImpersonationHolder]:
    """Return the holders that may impersonate a user, in any mode."""
    extra = make_extra({NODE_NAME_KEY: [node_name(wanted_user.name) or ""]})
    # A caller to which every mode applies that can apply to some caller.
    caller = Caller(UserInfo(_PLACEHOLDER_ACCOUNT, extra=extra))
    return [
        (wanted_user, holder)
        for mode in applicable_modes(caller, wanted_user)
        for holder in holders(rbac, mode, wanted_user, request_info)
    ]


def node_holders(rbac: RBACSnapshot, request_info: RequestInfo) -> list[ImpersonationHolder]:
    """Return the holders that may impersonate any node, or their associated node."""
    node = UserInfo(f"system:node:{ANY_NODE}")
    # A node without its group has no permissions of a node. Only legacy has to name the group.
    with_group = replace(node, groups=(NODES,))
    constrained = [
        found for found in identity_holders(rbac, node, request_info) if _is_constrained(found)
    ]
    return [*constrained, *identity_holders(rbac, with_group, request_info)]


def masters_impersonators(rbac: RBACSnapshot) -> list[ImpersonationHolder]:
    """Return the holders that may impersonate `system:masters` by legacy, and with which user."""
    users = {name for binding in rbac.bindings for name in _legacy_users(binding)}
    any_request = RequestInfo("get", "/")
    found: dict[tuple[str, tuple[str, ...]], ImpersonationHolder] = {}
    for user in (UNNAMED_USER, *sorted(users)):
        wanted_user = UserInfo(user, groups=(MASTERS,))
        for holder in holders(rbac, ImpersonationMode.LEGACY, wanted_user, any_request):
            if MASTERS not in holder.groups:
                found.setdefault((holder.name, holder.groups), (wanted_user, holder))
    return list(found.values())


def _is_constrained(found: ImpersonationHolder) -> bool:
    return found[1].mode is not ImpersonationMode.LEGACY


def _legacy_users(binding: Binding) -> Iterator[str]:
    for rule in binding.rules:
        if "impersonate" in rule.verbs and not {"users", "serviceaccounts"}.isdisjoint(
            rule.resources
        ):
            for name in rule.names:
                yield name
                if binding.namespace:
                    yield f"system:serviceaccount:{binding.namespace}:{name}"


def requirements(
    mode: ImpersonationMode, wanted_user: UserInfo, request_info: RequestInfo
) -> list[Requirement] | None:
    """Return the checks that must be allowed, for a placeholder user. None if no rule can help."""
    attempt = Attempt(mode, _PLACEHOLDER_USER, wanted_user, request_info, KUBE_APISERVER_RULES)
    needed: list[Requirement] = [(check,) for check in request_checks(attempt)]
    for step in identity_steps(attempt):
        if isinstance(step, ForbiddenStep):
            return None
        if isinstance(step, WildcardCheck):
            # Either permission for all of the kind, or for each item.
            needed += [(step.check, item) for item in step.individual_checks()]
        else:
            needed.append((step,))
    return needed


def user_of_caller(holder: Holder, wanted_user: UserInfo) -> UserInfo:
    """Return the user info that the API server would see for a holder."""
    user = _user_of(holder.mode, holder.name, holder.groups)
    if holder.mode is not ImpersonationMode.ASSOCIATED_NODE:
        return user
    extra = make_extra({NODE_NAME_KEY: [node_name(wanted_user.name) or ""]})
    return replace(user, name=holder.name or _PLACEHOLDER_ACCOUNT, extra=extra)


def _user_of(mode: ImpersonationMode, name: str, groups: Iterable[str]) -> UserInfo:
    """Return a user that matches this holder and has nothing else."""
    all_groups = _closure(groups) | _own_groups(name, mode)
    return UserInfo(name or UNNAMED_USER, groups=tuple(sorted(all_groups)))


def _additional_names(mode: ImpersonationMode) -> set[str]:
    # The anonymous user is in a different group than all others.
    return set() if mode is ImpersonationMode.ASSOCIATED_NODE else {ANONYMOUS}


def _met_by(
    rbac: RBACSnapshot, requirement: Requirement, mode: ImpersonationMode
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the user names and groups for which a requirement is met."""
    # system:masters is authorized without any rule.
    names, groups = set(), set() if mode is ImpersonationMode.ASSOCIATED_NODE else {MASTERS}
    for check in requirement:
        for _, subject in rbac.subjects_allowing(check):
            if subject.kind == GROUP:
                groups.add(subject.name)
            elif (name := _username(subject)) is not None:
                names.add(name)
    if mode is ImpersonationMode.ASSOCIATED_NODE:
        names = {name for name in names if service_account(name) is not None}
        groups = {
            group
            for group in groups
            if group == AUTHENTICATED or group.startswith(SERVICE_ACCOUNTS)
        }
    return frozenset(names), frozenset(groups)


def _username(subject: Subject) -> str | None:
    if subject.kind == USER:
        return subject.name
    if subject.kind == SERVICE_ACCOUNT and subject.namespace:
        return f"system:serviceaccount:{subject.namespace}:{subject.name}"
    return None


def _group_sets(
    name: str, met_by: Sequence[tuple[frozenset[str], frozenset[str]]], mode: ImpersonationMode
) -> list[frozenset[str]]:
    """Return the smallest sets of groups that meet what the name and its own groups do not."""
    own = _own_groups(name, mode)
    sets: list[frozenset[str]] = [frozenset()]
    for names, groups in met_by:
        if name in names or not groups.isdisjoint(own):
            continue
        choices = sorted(groups - {UNAUTHENTICATED, AUTHENTICATED})
        sets = _smallest(_extended(sets, groups, choices))
    return sets


def _extended(
    sets: Iterable[frozenset[str]], meeting: frozenset[str], choices: Sequence[str]
) -> Iterator[frozenset[str]]:
    for chosen in sets:
        if not meeting.isdisjoint(_closure(chosen)):
            yield chosen
            continue
        for group in choices:
            yield chosen | {group}


def _smallest(sets: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """Return the sets that contain no other set, implied groups included."""
    found = sorted(
        {_without_implied(groups) for groups in sets},
        key=lambda groups: (len(groups), sorted(groups)),
    )
    return [
        groups
        for groups in found
        if not any(other != groups and other <= _closure(groups) for other in found)
    ]


def _closure(groups: Iterable[str]) -> frozenset[str]:
    """Return groups together with the groups that they imply."""
    given = frozenset(groups)
    implies = any(group.startswith(_NAMESPACE_GROUP_PREFIX) for group in given)
    return given | {SERVICE_ACCOUNTS} if implies else given


def _without_implied(groups: frozenset[str]) -> frozenset[str]:
    if any(group.startswith(_NAMESPACE_GROUP_PREFIX) for group in groups):
        return groups - {SERVICE_ACCOUNTS}
    return groups


def _own_groups(name: str, mode: ImpersonationMode) -> frozenset[str]:
    if name:
        return frozenset(implied_groups(name))
    if mode is ImpersonationMode.ASSOCIATED_NODE:
        return frozenset({SERVICE_ACCOUNTS, AUTHENTICATED})
    return frozenset({AUTHENTICATED})


def _roles(rbac: RBACSnapshot, needed: Iterable[Requirement], user: UserInfo) -> tuple[str, ...]:
    """Return the roles that grant a user the permission, one for each requirement."""
    found: dict[str, None] = {}
    for requirement in needed:
        for binding in rbac.bindings:
            is_bound = binding.applies_to(user)
            if is_bound and any(binding.allows(check) for check in requirement):
                where = f"{binding.namespace}/" if binding.namespace else ""
                found[f"{where}{binding.role}"] = None
                break
    return tuple(found)
