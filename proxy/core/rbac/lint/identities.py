"""Rules about who may be impersonated, constrained and legacy, that do not do what they say."""

from collections.abc import Iterator

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.policy import validate_extra
from proxy.core.rbac.lint.finding import (
    AUTHENTICATION,
    LEGACY_VERB,
    STAR,
    Finding,
    RuleLocation,
    identity_modes,
    listed,
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


def identity_findings(place: RuleLocation) -> Iterator[Finding]:
    """Give what is wrong with one rule about identities."""
    modes = identity_modes(place.rule)
    if modes:
        yield from _group(place)
        yield from _scope(place, modes)
        yield from _resources(place, modes)
        yield from _names(place, modes)
    if modes or LEGACY_VERB in place.rule.verbs:
        yield from _extras(place, is_constrained=bool(modes))
    if LEGACY_VERB in place.rule.verbs:
        yield from _legacy(place)


def _group(place: RuleLocation) -> Iterator[Finding]:
    rule = place.rule
    if rule.paths:
        yield place.error(
            "identity-path",
            ".nonResourceURLs",
            "identities are resources, not paths",
            f"write apiGroups: [{AUTHENTICATION}] and resources",
        )
    elif {AUTHENTICATION, STAR}.isdisjoint(rule.groups):
        yield place.error(
            "identity-group",
            ".apiGroups",
            f"identities are asked for in the API group {AUTHENTICATION}, "
            f"not in {listed(repr(group) for group in rule.groups)}",
            f"write apiGroups: [{AUTHENTICATION}]",
        )


def _scope(place: RuleLocation, modes: list[ImpersonationMode]) -> Iterator[Finding]:
    if place.is_namespaced and any(mode is not ImpersonationMode.SERVICE_ACCOUNT for mode in modes):
        yield place.error(
            "namespaced-identity",
            "",
            "users, groups, uids, extras and nodes are in no namespace, so a Role never opens them",
            "write a ClusterRole and bind it with a ClusterRoleBinding",
        )


def _resources(place: RuleLocation, modes: list[ImpersonationMode]) -> Iterator[Finding]:
    known = {resource for mode in modes for resource in _RESOURCES[mode]}
    for position, resource in enumerate(place.rule.resources):
        kind = resource.partition("/")[0]
        if resource in known or resource == STAR or resource.startswith(f"{STAR}/"):
            continue
        if ImpersonationMode.USER_INFO in modes and kind == _EXTRAS:
            continue
        verbs = listed(mode.identity_verb for mode in modes)
        also = [f"{_EXTRAS}/KEY"] if ImpersonationMode.USER_INFO in modes else []
        yield place.error(
            "identity-resource",
            f".resources[{position}]",
            f"{resource} is never asked for with {verbs}",
            f"write {listed([*sorted(known), *also])}",
        )


def _names(place: RuleLocation, modes: list[ImpersonationMode]) -> Iterator[Finding]:
    rule = place.rule
    if ImpersonationMode.ASSOCIATED_NODE in modes and rule.names and STAR not in rule.names:
        yield place.error(
            "associated-node-names",
            ".resourceNames",
            "the own node is asked for by the name *, so a rule with names never matches",
            "take resourceNames away: only the node that the caller runs on is opened anyway",
        )
    for position, name in enumerate(rule.names):
        fault = _name_fault(rule.resources, name)
        if fault is not None:
            code, why, remedy = fault
            yield place.error(code, f".resourceNames[{position}]", why, remedy)


def _name_fault(resources: tuple[str, ...], name: str) -> tuple[str, str, str] | None:
    if resources == ("groups",) and name in {MASTERS, ""}:
        why = f"the constrained modes never let anybody be in {name or 'the empty group'}"
        return "masters", why, "take it away"
    if resources == ("users",) and node_name(name) is not None:
        mode = "arbitrary-node"
        return _own_mode(name, f"impersonate:{mode} on nodes, name {node_name(name)}")
    account = service_account(name)
    if resources == ("users",) and account is not None:
        where = f"in the namespace {account.namespace}, name {account.name}"
        return _own_mode(name, f"impersonate:serviceaccount on serviceaccounts {where}")
    if resources in {("nodes",), ("serviceaccounts",)} and name != STAR and not is_subdomain(name):
        bare = name.rpartition(":")[2].rpartition("/")[2]
        why = f"{resources[0]} are asked for by their bare name"
        return "identity-name", why, f"write {bare}"
    return None


def _own_mode(name: str, rule: str) -> tuple[str, str, str]:
    why = f"{name} has a mode of its own and is never asked for as a user"
    return "identity-name", why, f"write a rule for {rule}"


def _extras(place: RuleLocation, *, is_constrained: bool) -> Iterator[Finding]:
    for position, resource in enumerate(place.rule.resources):
        kind, _, key = resource.partition("/")
        if kind != _EXTRAS:
            continue
        fault = None
        if key == STAR:
            fault = (
                "userextras/* is no pattern: it opens no key, and matches only the question that "
                "is asked ahead for four and more extras"
            )
        elif not key:
            fault = "extras are asked for with their key, as userextras/KEY"
        elif is_constrained:
            fault = validate_extra(((key, ("any",)),))
        if fault is not None:
            where = f".resources[{position}]"
            yield place.error("userextras", where, fault, "write userextras/KEY for each key")


def _legacy(place: RuleLocation) -> Iterator[Finding]:
    rule = place.rule
    for position, resource in enumerate(rule.resources):
        is_core = resource in _LEGACY_CORE
        if not is_core and resource.partition("/")[0] not in {"uids", _EXTRAS}:
            continue
        group = "" if is_core else AUTHENTICATION
        if {group, STAR}.isdisjoint(rule.groups):
            yield place.error(
                "legacy-group",
                f".resources[{position}]",
                f"the legacy verb impersonate is asked for {resource} in the API group {group!r}",
                f"write a rule for {resource} with apiGroups: [{group!r}]",
            )
        if place.is_namespaced and resource != "serviceaccounts":
            yield place.error(
                "namespaced-identity",
                f".resources[{position}]",
                f"{resource} are in no namespace, so a Role never opens them",
                "write a ClusterRole and bind it with a ClusterRoleBinding",
            )
