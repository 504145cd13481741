"""Which checks an impersonation needs: the one plan that serving, tests and explanations share.

Nothing is built before it is asked for, so that a decision known from a moment ago costs no
checks at all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.modes import Mode, applicable_modes
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy, extra_fault
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import (
    MASTERS,
    Caller,
    Identity,
    node_name,
    service_account,
)

_AUTHENTICATION_GROUP = "authentication.k8s.io"
_ASSOCIATED_NODE_KEYS = "authentication.kubernetes.io/associated-node-keys"
_MANY = 4
"""From so many items on, permission for all of them is tried first."""

_TERMINAL_SUBRESOURCES = frozenset({"exec", "attach", "portforward"})


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """The switches of the configuration that change a decision.

    Without `constrained` checks are asked and answers read as servers did before there were modes.
    """

    constrained: bool = True
    legacy: LegacyPolicy = field(default_factory=LegacyPolicy)
    protected_groups: frozenset[str] = frozenset({MASTERS})
    recalls_legacy: bool = False
    upgrade_needs_create: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """All checks of one mode for one request.

    `caller` is whom the authorizer is asked about. `also_creates` asks for the action a second
    time as `create`.
    """

    mode: Mode
    caller: Identity
    wanted: Identity
    action: Action
    rules: DecisionRules
    also_creates: bool = False

    @property
    def recalls_request(self) -> bool:
        """Tell whether the whole attempt may be known from a moment ago."""
        return self.mode is not Mode.LEGACY and not self.action.has_unparsed_selector

    @property
    def recalls_identity(self) -> bool:
        """Tell whether its identity part may be known from a moment ago."""
        return self.mode is not Mode.LEGACY or self.rules.recalls_legacy


@dataclass(frozen=True, slots=True)
class StarCheck:
    """Permission for everything of a kind; without it, each item is checked on its own."""

    check: AccessCheck
    items: tuple[tuple[str, str], ...]

    def individual_checks(self) -> tuple[AccessCheck, ...]:
        """Return the checks that a denied star leaves to be asked, in order."""
        return _each(self.check, self.items)


@dataclass(frozen=True, slots=True)
class RefusedStep:
    """Something no permission opens: the attempt ends here, and nobody is asked."""

    check: AccessCheck
    reason: str


Step = AccessCheck | StarCheck | RefusedStep


def plan_attempts(
    caller: Caller,
    wanted: Identity,
    action: Action,
    *,
    rules: DecisionRules,
    remembered: Mode | None = None,
    is_upgrade: bool = False,
) -> Iterator[Attempt]:
    """Yield the attempts in the order of trial, the mode that last worked for the caller first.

    No attempt at all means that no mode applies which the configuration still allows.
    """
    also_creates = rules.upgrade_needs_create and is_upgrade and opens_terminal(action)
    for mode in _modes_in_order(caller, wanted, rules, remembered):
        reviewed = _reviewed_caller(mode, caller.identity)
        yield Attempt(mode, reviewed, wanted, action, rules, also_creates)


def action_checks(attempt: Attempt) -> list[AccessCheck]:
    """Return the checks on what is done; legacy has none, being bound to no action."""
    if attempt.mode is Mode.LEGACY:
        return []
    verbs = [attempt.action.verb]
    if attempt.also_creates:
        verbs.append("create")
    return [_action_check(attempt, verb) for verb in verbs]


def check_on(action: Action, verb: str, *, user: Identity) -> AccessCheck:
    """Return the check whether a user may use a verb on what an action is about."""
    if not action.is_resource:
        return AccessCheck(user, verb, is_resource=False, path=action.path)
    return AccessCheck(
        user,
        verb,
        group=action.group,
        version=action.version,
        resource=action.resource,
        subresource=action.subresource,
        namespace=action.namespace,
        name=action.name,
        fields=action.fields,
        labels=action.labels,
    )


def opens_terminal(action: Action) -> bool:
    """Tell whether an action is a stream into a pod that is asked for by GET."""
    is_pod = action.resource == "pods" and action.group == ""
    return is_pod and action.subresource in _TERMINAL_SUBRESOURCES and action.verb == "get"


def identity_steps(attempt: Attempt) -> list[Step]:
    """Return the steps on who is impersonated, in the order in which they count."""
    if attempt.mode is Mode.LEGACY:
        return _legacy_steps(attempt)
    steps: list[Step] = [_username_check(attempt)]
    if attempt.wanted.uid:
        steps.append(_identity_check(attempt, "uids", name=attempt.wanted.uid))
    return steps + _constrained_groups(attempt) + _constrained_extras(attempt)


def _modes_in_order(
    caller: Caller, wanted: Identity, rules: DecisionRules, remembered: Mode | None
) -> list[Mode]:
    modes = list(applicable_modes(caller, wanted)) if rules.constrained else [Mode.LEGACY]
    if rules.legacy.action_for(caller.identity) is LegacyAction.DENY:
        modes.remove(Mode.LEGACY)
    if remembered in modes:
        modes.sort(key=lambda mode: mode is not remembered)
    return modes


def _reviewed_caller(mode: Mode, caller: Identity) -> Identity:
    """Return the caller as an authorizer may see it.

    A node's agent is shown without the values of its extras, which differ from pod to pod, but
    with their keys. Its cached decisions are shared between nodes, and that is only safe if no
    authorizer could have based its answer on a node-specific value.
    """
    if mode is not Mode.ASSOCIATED_NODE:
        return caller
    keys = tuple(key for key, _ in caller.extra)
    return Identity(caller.name, caller.uid, caller.groups, ((_ASSOCIATED_NODE_KEYS, keys),))


def _action_check(attempt: Attempt, verb: str) -> AccessCheck:
    return check_on(attempt.action, attempt.mode.action_verb(verb), user=attempt.caller)


def _identity_check(
    attempt: Attempt,
    resource: str,
    *,
    namespace: str = "",
    name: str = "",
    subresource: str = "",
) -> AccessCheck:
    """Return a check on one part of the wanted identity, in the API group of its mode."""
    group, version = _AUTHENTICATION_GROUP, "v1"
    if attempt.mode is Mode.LEGACY and resource not in {"uids", "userextras"}:
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
    username = attempt.wanted.name
    if attempt.mode is Mode.ASSOCIATED_NODE:
        # The decision is shared by all nodes, so it must be valid for all of them.
        return _identity_check(attempt, "nodes", name="*")
    if attempt.mode is Mode.ARBITRARY_NODE:
        return _identity_check(attempt, "nodes", name=node_name(username) or username)
    account = service_account(username)
    if account is None:
        return _identity_check(attempt, "users", name=username)
    return _identity_check(
        attempt, "serviceaccounts", namespace=account.namespace, name=account.name
    )


def _constrained_groups(attempt: Attempt) -> list[Step]:
    groups = attempt.wanted.groups
    if not groups:
        return []
    check = _identity_check(attempt, "groups")
    if "" in groups:
        return [RefusedStep(check, "impersonating the empty string group is not allowed")]
    refused = _protected(groups, attempt.rules.protected_groups | {MASTERS})
    if refused is not None:
        return [_refused_group(attempt, refused)]
    items = _group_items(groups)
    if len(items) >= _MANY:
        return [StarCheck(_identity_check(attempt, "groups", name="*"), items)]
    return list(_each(check, items))


def _constrained_extras(attempt: Attempt) -> list[Step]:
    extra = attempt.wanted.extra
    if not extra:
        return []
    check = _identity_check(attempt, "userextras")
    fault = extra_fault(extra)
    if fault is not None:
        return [RefusedStep(check, fault)]
    items = _extra_items(attempt.wanted)
    # Every key has a value by now, so four keys are four values, too.
    if len(items) >= _MANY:
        star = _identity_check(attempt, "userextras", subresource="*", name="*")
        return [StarCheck(star, items)]
    return list(_each(check, items))


def _legacy_steps(attempt: Attempt) -> list[Step]:
    wanted = attempt.wanted
    refused = _protected(wanted.groups, attempt.rules.protected_groups)
    if refused is not None:
        return [_refused_group(attempt, refused)]
    username = _username_check(attempt)
    uids = [_identity_check(attempt, "uids", name=wanted.uid)] if wanted.uid else []
    groups = _each(_identity_check(attempt, "groups"), _group_items(wanted.groups))
    extras = _each(_identity_check(attempt, "userextras"), _extra_items(wanted))
    if attempt.rules.constrained:
        return [username, *uids, *groups, *extras]
    return [username, *groups, *extras, *uids]


def _protected(groups: Sequence[str], protected: frozenset[str]) -> str | None:
    if MASTERS in groups and MASTERS in protected:
        return MASTERS
    return next((group for group in groups if group in protected), None)


def _refused_group(attempt: Attempt, group: str) -> RefusedStep:
    check = _identity_check(attempt, "groups", name=group)
    return RefusedStep(check, f"impersonating the {group} group is not allowed")


def _group_items(groups: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(("", group) for group in groups)


def _extra_items(wanted: Identity) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, values in wanted.extra for value in values)


def _each(check: AccessCheck, items: Sequence[tuple[str, str]]) -> tuple[AccessCheck, ...]:
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
