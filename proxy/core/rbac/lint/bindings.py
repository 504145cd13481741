"""Mistakes that no rule shows alone: who is given what, where, and together with what else."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.intent.model import is_legacy
from proxy.core.rbac.lint.finding import (
    LEGACY_VERB,
    STAR,
    Finding,
    ManifestSource,
    RuleLocation,
    Severity,
    action_verbs,
    identity_modes,
)
from proxy.core.rbac.model import (
    GROUP,
    SERVICE_ACCOUNT,
    Rule,
    Subject,
    describe_subject,
    qualified_subject,
    read_subjects,
    string_at,
)
from proxy.core.userinfo import AUTHENTICATED, SERVICE_ACCOUNTS, service_account


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule, and the binding by which somebody holds it."""

    binding: ManifestSource
    location: RuleLocation


@dataclass(slots=True)
class LintScope:
    """Everything that is looked at together. `is_complete` says that there is nothing besides."""

    roles: dict[tuple[str, str, str], list[RuleLocation]]
    bindings: Sequence[ManifestSource]
    accounts: frozenset[tuple[str, str]]
    is_complete: bool
    by_subject: dict[Subject, list[BoundRule]] = field(default_factory=dict)

    def locations(self, binding: ManifestSource) -> list[RuleLocation]:
        """Return the rules that a binding gives."""
        reference = binding.content.get("roleRef")
        kind, name = string_at(reference, "kind"), string_at(reference, "name")
        return self.roles.get((kind, binding.namespace if kind == "Role" else "", name), [])


def binding_findings(holdings: LintScope) -> Iterator[Finding]:
    """Give what is wrong with bindings, and with what somebody holds by several."""
    wide = {_role_name(one) for one in holdings.bindings if not one.namespace}
    for binding in holdings.bindings:
        places = holdings.locations(binding)
        if binding.namespace and _role_name(binding) not in wide:
            yield from _identity_in_namespace(binding, places)
        yield from _own_nodes(binding, places)
        if not binding.namespace:
            yield from _accounts_everywhere(binding, places)
        for subject in read_subjects(binding.content):
            held = holdings.by_subject.setdefault(qualified_subject(subject, binding.namespace), [])
            held += [BoundRule(binding, place) for place in places]
    for subject, held in holdings.by_subject.items():
        yield from _together(subject, held)
        yield from _halves(subject, held, is_complete=holdings.is_complete)
        yield from _accounts_elsewhere(subject, held, holdings.accounts)


def _role_name(binding: ManifestSource) -> tuple[str, str]:
    reference = binding.content.get("roleRef")
    return string_at(reference, "kind"), string_at(reference, "name")


def _identity_in_namespace(
    binding: ManifestSource, places: Sequence[RuleLocation]
) -> Iterator[Finding]:
    for place in places:
        modes = [
            mode
            for mode in identity_modes(place.rule)
            if mode is not ImpersonationMode.SERVICE_ACCOUNT
        ]
        if modes and not place.is_namespaced:
            yield Finding(
                "namespaced-identity",
                Severity.ERROR,
                binding,
                f"{binding.path}.roleRef",
                f"a RoleBinding never opens {', '.join(place.rule.resources)}: "
                "they are in no namespace",
                "write a ClusterRoleBinding for the identities",
            )
            return


def _own_nodes(binding: ManifestSource, places: Sequence[RuleLocation]) -> Iterator[Finding]:
    if all(ImpersonationMode.ASSOCIATED_NODE not in identity_modes(place.rule) for place in places):
        return
    for position, subject in enumerate(read_subjects(binding.content)):
        if not _may_have_node(subject):
            yield Finding(
                "no-own-node",
                Severity.ERROR,
                binding,
                f"{binding.path}.subjects[{position}]",
                "associated-node is for service accounts in a pod on the node; "
                f"{describe_subject(subject)} never is one",
                "bind service accounts, or grant impersonate:arbitrary-node",
            )


def _may_have_node(subject: Subject) -> bool:
    if subject.kind == GROUP:
        return subject.name == AUTHENTICATED or subject.name.startswith(SERVICE_ACCOUNTS)
    return subject.kind == SERVICE_ACCOUNT or service_account(subject.name) is not None


def _accounts_everywhere(
    binding: ManifestSource, places: Sequence[RuleLocation]
) -> Iterator[Finding]:
    for place in places:
        if ImpersonationMode.SERVICE_ACCOUNT in identity_modes(place.rule) and place.rule.names:
            yield place.warning(
                "account-everywhere",
                ".resourceNames",
                f"bound by the ClusterRoleBinding {binding.name}, these names count in every "
                "namespace",
                "write a Role and a RoleBinding in the namespace of the service account",
            )


def _together(subject: Subject, held: Sequence[BoundRule]) -> Iterator[Finding]:
    """Give what makes somebody's constrained rights pointless."""
    identities = [one for one in held if identity_modes(one.location.rule)]
    if not identities:
        return
    for one in held:
        rule = one.location.rule
        overruled = next((other for other in identities if _overrules(one, other)), None)
        if overruled is not None:
            where = overruled.location.source
            verb = rule.verbs.index(LEGACY_VERB if LEGACY_VERB in rule.verbs else STAR)
            yield one.location.warning(
                "legacy-overrules",
                f".verbs[{verb}]",
                f"{describe_subject(subject)} holds this legacy right too ({one.binding.name}), "
                f"which is bound to no action, so {where.kind} {where.name} constrains nothing",
                "take the legacy right away when the constrained ones suffice",
            )
        elif STAR in rule.verbs:
            where = identities[0].location.source
            yield one.location.warning(
                "star-verb",
                f".verbs[{rule.verbs.index(STAR)}]",
                f"{describe_subject(subject)} may act as others ({where.kind} {where.name}), "
                "and the verb * lets it do all of this as them, in every mode",
                "name the verbs that are meant",
            )


def _overrules(legacy: BoundRule, identity: BoundRule) -> bool:
    """Tell whether a legacy right opens what a constrained one opens, for every action."""
    rule, constrained = legacy.location.rule, identity.location.rule
    if not is_legacy(rule) or _opened_by(rule).isdisjoint(identity_modes(constrained)):
        return False
    is_elsewhere = legacy.binding.namespace not in {"", identity.binding.namespace}
    are_others = rule.names and constrained.names and set(rule.names).isdisjoint(constrained.names)
    return not is_elsewhere and not are_others


def _opened_by(legacy: Rule) -> set[ImpersonationMode]:
    """Return the modes whose targets a legacy rule opens; a group alone opens nobody."""
    opened: set[ImpersonationMode] = set()
    if not {"users", STAR}.isdisjoint(legacy.resources):
        opened |= {
            ImpersonationMode.USER_INFO,
            ImpersonationMode.ARBITRARY_NODE,
            ImpersonationMode.ASSOCIATED_NODE,
        }
    if not {"serviceaccounts", STAR}.isdisjoint(legacy.resources):
        opened.add(ImpersonationMode.SERVICE_ACCOUNT)
    return opened


def _halves(subject: Subject, held: Sequence[BoundRule], *, is_complete: bool) -> Iterator[Finding]:
    identities = {mode: one for one in held for mode in identity_modes(one.location.rule)}
    actions = {mode: one for one in held for mode, _ in action_verbs(one.location.rule)}
    if any(STAR in one.location.rule.verbs for one in held):
        return
    for mode in ImpersonationMode:
        if (mode in identities) == (mode in actions):
            continue
        present, lacked = ("identity", "action") if mode in identities else ("action", "identity")
        one = identities.get(mode) or actions[mode]
        severity = Severity.WARNING if is_complete else Severity.NOTE
        yield Finding(
            "half-a-grant",
            severity,
            one.binding,
            f"{one.binding.path}.roleRef",
            f"{describe_subject(subject)} is given no {lacked} in {mode} mode"
            f"{'' if is_complete else ' here'}, so its {present} alone opens nothing",
            "grant both: understudy grant writes them together",
        )


def _accounts_elsewhere(
    subject: Subject, held: Sequence[BoundRule], accounts: frozenset[tuple[str, str]]
) -> Iterator[Finding]:
    """Give the names of service accounts that are opened in another namespace than they live in."""
    acted_in = {
        one.binding.namespace
        for one in held
        for mode, _ in action_verbs(one.location.rule)
        if mode is ImpersonationMode.SERVICE_ACCOUNT
    }
    for one in held:
        here = one.binding.namespace
        if not here or ImpersonationMode.SERVICE_ACCOUNT not in identity_modes(one.location.rule):
            continue
        for position, name in enumerate(one.location.rule.names):
            others = sorted(namespace for namespace, known in accounts if known == name)
            # Without the account itself to look at: the impersonator's own namespace is the usual
            # mistake, if everything is done in another.
            is_guess = (
                not others and here == subject.namespace and acted_in and here not in acted_in
            )
            if (others and here not in others) or is_guess:
                yield one.location.warning(
                    "account-elsewhere",
                    f".resourceNames[{position}]",
                    f"{name} is opened in the namespace {here} only; "
                    f"is it not in {', '.join(others or sorted(acted_in))}?",
                    "put Role and RoleBinding into the namespace of the service account",
                )
