"""Findings about identity rules, constrained and legacy, that do not work as written."""

from collections.abc import Iterator

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.policy import validate_extra
from proxy.core.rbac.lint.finding import (
    AUTHENTICATION,
    LEGACY_VERB,
    STAR,
    Finding,
    RuleLocation,
    comma_separated,
    identity_modes,
)
from proxy.core.userinfo import (
    MASTERS,
    is_subdomain,
    node_name,
    service_account,
)

_USER_INFO = ("users", "groups", "uids")
_RESOURCES = {
    ImpersonationMode.USER_INFO: _USER_INFO,
    ImpersonationMode.SERVICE_ACCOUNT: ("serviceaccounts",),
    ImpersonationMode.ARBITRARY_NODE: ("nodes",),
    ImpersonationMode.ASSOCIATED_NODE: ("nodes",),
}
_LEGACY_CORE = ("users", "groups", "serviceaccounts")
_EXTRAS = "userextras"


def identity_findings(location: RuleLocation) -> Iterator[Finding]:
    """Yield the findings about one identity rule."""
    modes = identity_modes(location.rule)
    if modes:
        yield from _group(location)
        yield from _scope(location, modes)
        yield from _resources(location, modes)
        yield from _names(location, modes)
    if modes or LEGACY_VERB in location.rule.verbs:
        yield from _extras(location, is_constrained=bool(modes))
    if LEGACY_VERB in location.rule.verbs:
        yield from _legacy(location)


def _group(location: RuleLocation) -> Iterator[Finding]:
    rule = location.rule
    if rule.paths:
        yield location.error(
            "identity-path",
            ".nonResourceURLs",
            "identities are resources, not paths",
            f"write apiGroups: [{AUTHENTICATION}] and resources",
        )
    elif {AUTHENTICATION, STAR}.isdisjoint(rule.groups):
        yield location.error(
            "identity-group",
            ".apiGroups",
            f"identities are checked in the API group {AUTHENTICATION}, "
            f"not in {comma_separated(repr(group) for group in rule.groups)}",
            f"write apiGroups: [{AUTHENTICATION}]",
        )


def _scope(location: RuleLocation, modes: list[ImpersonationMode]) -> Iterator[Finding]:
    if location.is_namespaced and any(
        mode is not ImpersonationMode.SERVICE_ACCOUNT for mode in modes
    ):
        yield location.error(
            "namespaced-identity",
            "",
            "users, groups, uids, extras and nodes are cluster-scoped, so a Role never grants them",
            "write a ClusterRole and bind it with a ClusterRoleBinding",
        )


def _resources(location: RuleLocation, modes: list[ImpersonationMode]) -> Iterator[Finding]:
    known = {resource for mode in modes for resource in _RESOURCES[mode]}
    for position, resource in enumerate(location.rule.resources):
        kind = resource.partition("/")[0]
        if resource in known or resource == STAR or resource.startswith(f"{STAR}/"):
            continue
        if ImpersonationMode.USER_INFO in modes and kind == _EXTRAS:
            continue
        verbs = comma_separated(mode.identity_verb for mode in modes)
        also = [f"{_EXTRAS}/KEY"] if ImpersonationMode.USER_INFO in modes else []
        yield location.error(
            "identity-resource",
            f".resources[{position}]",
            f"no check for {resource} has the verb {verbs}",
            f"write {comma_separated([*sorted(known), *also])}",
        )


def _names(location: RuleLocation, modes: list[ImpersonationMode]) -> Iterator[Finding]:
    rule = location.rule
    if ImpersonationMode.ASSOCIATED_NODE in modes and rule.names and STAR not in rule.names:
        yield location.error(
            "associated-node-names",
            ".resourceNames",
            "the check for the associated node has the name *, so a rule with names never matches",
            "remove resourceNames: the mode allows only the node that the caller runs on",
        )
    for position, name in enumerate(rule.names):
        fault = _name_fault(rule.resources, name)
        if fault is not None:
            code, why, remedy = fault
            yield location.error(code, f".resourceNames[{position}]", why, remedy)


def _name_fault(resources: tuple[str, ...], name: str) -> tuple[str, str, str] | None:
    if resources == ("groups",) and name in {MASTERS, ""}:
        why = f"the constrained modes never allow {name or 'the empty group'}"
        return "masters", why, "remove it"
    if resources == ("users",) and node_name(name) is not None:
        mode = "arbitrary-node"
        return _own_mode(name, f"impersonate:{mode} on nodes, name {node_name(name)}")
    account = service_account(name)
    if resources == ("users",) and account is not None:
        where = f"in the namespace {account.namespace}, name {account.name}"
        return _own_mode(name, f"impersonate:serviceaccount on serviceaccounts {where}")
    if resources in {("nodes",), ("serviceaccounts",)} and name != STAR and not is_subdomain(name):
        bare = name.rpartition(":")[2].rpartition("/")[2]
        why = f"{resources[0]} are checked by their bare name"
        return "identity-name", why, f"write {bare}"
    return None


def _own_mode(name: str, rule: str) -> tuple[str, str, str]:
    why = f"{name} has its own mode and is never checked as a user"
    return "identity-name", why, f"write a rule for {rule}"


def _extras(location: RuleLocation, *, is_constrained: bool) -> Iterator[Finding]:
    for position, resource in enumerate(location.rule.resources):
        kind, _, key = resource.partition("/")
        if kind != _EXTRAS:
            continue
        fault = None
        if key == STAR:
            fault = (
                "userextras/* is not a pattern: it grants no key, and matches only the check that "
                "is sent first for four and more extras"
            )
        elif not key:
            fault = "extras are checked with their key, as userextras/KEY"
        elif is_constrained:
            fault = validate_extra(((key, ("any",)),))
        if fault is not None:
            where = f".resources[{position}]"
            yield location.error("userextras", where, fault, "write userextras/KEY for each key")


def _legacy(location: RuleLocation) -> Iterator[Finding]:
    rule = location.rule
    for position, resource in enumerate(rule.resources):
        is_core = resource in _LEGACY_CORE
        if not is_core and resource.partition("/")[0] not in {"uids", _EXTRAS}:
            continue
        group = "" if is_core else AUTHENTICATION
        if {group, STAR}.isdisjoint(rule.groups):
            yield location.error(
                "legacy-group",
                f".resources[{position}]",
                f"the legacy verb impersonate on {resource} is checked in the API group {group!r}",
                f"write a rule for {resource} with apiGroups: [{group!r}]",
            )
        if location.is_namespaced and resource != "serviceaccounts":
            yield location.error(
                "namespaced-identity",
                f".resources[{position}]",
                f"{resource} are cluster-scoped, so a Role never grants them",
                "write a ClusterRole and bind it with a ClusterRoleBinding",
            )
