"""Who may act as somebody: everyone to whom RBAC opens all checks of a mode.

RBAC names users and groups, and nobody can list who is in a group. So the answer is a set of
holders: whoever bears a holder's name, and is in its groups, may do it; and whoever may do it is
described by one of them.
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

NATIVE = ImpersonationRules(protected_groups=frozenset())
"""As the API server decides for whoever comes to it directly; the proxy may be stricter."""

ANY_NODE = ANY
"""A node that no rule names: whoever may be this one may be any."""

_ANYBODY = UserInfo(UNNAMED_USER)
_AN_ACCOUNT = "system:serviceaccount:understudy:nobody"
_OF_ONE_NAMESPACE = f"{SERVICE_ACCOUNTS}:"

Requirement = tuple[AccessCheck, ...]
"""Checks of which one must be answered with yes."""


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """Whoever is called so (without a name: anybody who is logged in) and is in all the groups.

    `roles` are those by which it is allowed; none of them is needed in `system:masters`.
    """

    mode: ImpersonationMode
    name: str
    groups: tuple[str, ...]
    roles: tuple[str, ...] = ()


Found = tuple[UserInfo, Holder]
"""As whom, and who may."""


def holders(
    rbac: RBACSnapshot, mode: ImpersonationMode, wanted_user: UserInfo, request_info: RequestInfo
) -> list[Holder]:
    """Return who may act as somebody in a mode that applies, nobody twice."""
    needed = requirements(mode, wanted_user, request_info)
    if needed is None:
        return []
    opened = [_opened(rbac, requirement, mode) for requirement in needed]
    names = sorted(set().union(*(names for names, _ in opened)) | _always(mode))
    anybody = _group_sets("", opened, mode)
    found = [("", groups) for groups in anybody]
    for name in names:
        own = _own_groups(name, mode)
        # Who is not logged in is not anybody who is.
        wider = [] if name == ANONYMOUS else anybody
        found += [
            (name, groups)
            for groups in _group_sets(name, opened, mode)
            if not any(other <= _closure(groups) | own for other in wider)
        ]
    return [
        Holder(
            mode,
            name,
            tuple(sorted(groups)),
            _roles(rbac, needed, _identity(mode, name, groups)),
        )
        for name, groups in found
        if name != ANONYMOUS or not groups
    ]


def identity_holders(
    rbac: RBACSnapshot, wanted_user: UserInfo, request_info: RequestInfo
) -> list[Found]:
    """Return who may act as an identity, in whatever mode."""
    extra = make_extra({NODE_NAME_KEY: [node_name(wanted_user.name) or ""]})
    # Somebody to whom every mode applies that applies to anybody.
    caller = Caller(UserInfo(_AN_ACCOUNT, extra=extra))
    return [
        (wanted_user, holder)
        for mode in applicable_modes(caller, wanted_user)
        for holder in holders(rbac, mode, wanted_user, request_info)
    ]


def node_holders(rbac: RBACSnapshot, request_info: RequestInfo) -> list[Found]:
    """Return who may act as any node, or as the own one."""
    node = UserInfo(f"system:node:{ANY_NODE}")
    # A node without its group is no node; only legacy has to be asked for the group.
    with_group = replace(node, groups=(NODES,))
    constrained = [
        one for one in identity_holders(rbac, node, request_info) if _is_constrained(one)
    ]
    return [*constrained, *identity_holders(rbac, with_group, request_info)]


def masters_impersonators(rbac: RBACSnapshot) -> list[Found]:
    """Return who may put on the group that no rule binds, and with which user; legacy alone can."""
    users = {name for binding in rbac.bindings for name in _legacy_users(binding)}
    anything = RequestInfo("get", "/")
    found: dict[tuple[str, tuple[str, ...]], Found] = {}
    for user in (UNNAMED_USER, *sorted(users)):
        wanted_user = UserInfo(user, groups=(MASTERS,))
        for holder in holders(rbac, ImpersonationMode.LEGACY, wanted_user, anything):
            if MASTERS not in holder.groups:
                found.setdefault((holder.name, holder.groups), (wanted_user, holder))
    return list(found.values())


def _is_constrained(found: Found) -> bool:
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
    """Return what must be allowed, about nobody in particular; None if nothing helps."""
    attempt = Attempt(mode, _ANYBODY, wanted_user, request_info, NATIVE)
    needed: list[Requirement] = [(check,) for check in request_checks(attempt)]
    for step in identity_steps(attempt):
        if isinstance(step, ForbiddenStep):
            return None
        if isinstance(step, WildcardCheck):
            # Everything of the kind, or each item alone.
            needed += [(step.check, item) for item in step.individual_checks()]
        else:
            needed.append((step,))
    return needed


def user_of_caller(holder: Holder, wanted_user: UserInfo) -> UserInfo:
    """Return a holder as it would come to the API server."""
    user = _identity(holder.mode, holder.name, holder.groups)
    if holder.mode is not ImpersonationMode.ASSOCIATED_NODE:
        return user
    extra = make_extra({NODE_NAME_KEY: [node_name(wanted_user.name) or ""]})
    return replace(user, name=holder.name or _AN_ACCOUNT, extra=extra)


def _identity(mode: ImpersonationMode, name: str, groups: Iterable[str]) -> UserInfo:
    """Return somebody who is this holder and nothing else."""
    all_groups = _closure(groups) | _own_groups(name, mode)
    return UserInfo(name or UNNAMED_USER, groups=tuple(sorted(all_groups)))


def _always(mode: ImpersonationMode) -> set[str]:
    # Who is not logged in is in another group than everybody else.
    return set() if mode is ImpersonationMode.ASSOCIATED_NODE else {ANONYMOUS}


def _opened(
    rbac: RBACSnapshot, requirement: Requirement, mode: ImpersonationMode
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names and the groups to which a requirement is open."""
    # No rule is asked about this group.
    names, groups = set(), set() if mode is ImpersonationMode.ASSOCIATED_NODE else {MASTERS}
    for check in requirement:
        for _, subject in rbac.first_allowing(check):
            if subject.kind == GROUP:
                groups.add(subject.name)
            elif (name := _username(subject)) is not None:
                names.add(name)
    if mode is ImpersonationMode.ASSOCIATED_NODE:
        names = {name for name in names if service_account(name) is not None}
        groups = {one for one in groups if one == AUTHENTICATED or one.startswith(SERVICE_ACCOUNTS)}
    return frozenset(names), frozenset(groups)


def _username(subject: Subject) -> str | None:
    if subject.kind == USER:
        return subject.name
    if subject.kind == SERVICE_ACCOUNT and subject.namespace:
        return f"system:serviceaccount:{subject.namespace}:{subject.name}"
    return None


def _group_sets(
    name: str, opened: Sequence[tuple[frozenset[str], frozenset[str]]], mode: ImpersonationMode
) -> list[frozenset[str]]:
    """Return the smallest sets of groups that open what the name and its own groups do not."""
    own = _own_groups(name, mode)
    sets: list[frozenset[str]] = [frozenset()]
    for names, groups in opened:
        if name in names or not groups.isdisjoint(own):
            continue
        choices = sorted(groups - {UNAUTHENTICATED, AUTHENTICATED})
        sets = _smallest(_extended(sets, groups, choices))
    return sets


def _extended(
    sets: Iterable[frozenset[str]], opening: frozenset[str], choices: Sequence[str]
) -> Iterator[frozenset[str]]:
    for chosen in sets:
        if not opening.isdisjoint(_closure(chosen)):
            yield chosen
            continue
        for group in choices:
            yield chosen | {group}


def _smallest(sets: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """Return the sets of which no other is a part, whatever groups bring with them."""
    found = sorted({_bare(one) for one in sets}, key=lambda one: (len(one), sorted(one)))
    return [
        one for one in found if not any(other != one and other <= _closure(one) for other in found)
    ]


def _closure(groups: Iterable[str]) -> frozenset[str]:
    """Return groups with those that come with them."""
    given = frozenset(groups)
    implies = any(group.startswith(_OF_ONE_NAMESPACE) for group in given)
    return given | {SERVICE_ACCOUNTS} if implies else given


def _bare(groups: frozenset[str]) -> frozenset[str]:
    if any(group.startswith(_OF_ONE_NAMESPACE) for group in groups):
        return groups - {SERVICE_ACCOUNTS}
    return groups


def _own_groups(name: str, mode: ImpersonationMode) -> frozenset[str]:
    if name:
        return frozenset(implied_groups(name))
    if mode is ImpersonationMode.ASSOCIATED_NODE:
        return frozenset({SERVICE_ACCOUNTS, AUTHENTICATED})
    return frozenset({AUTHENTICATED})


def _roles(rbac: RBACSnapshot, needed: Iterable[Requirement], user: UserInfo) -> tuple[str, ...]:
    """Return the roles by which somebody is allowed, one for each requirement."""
    found: dict[str, None] = {}
    for requirement in needed:
        for binding in rbac.bindings:
            held = binding.applies_to(user)
            if held and any(binding.allows(check) for check in requirement):
                where = f"{binding.namespace}/" if binding.namespace else ""
                found[f"{where}{binding.role}"] = None
                break
    return tuple(found)
