"""Findings about bindings: scope, subjects, and combinations of rules of one subject."""

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
    """A rule, and the binding by which a subject holds it."""

    binding: ManifestSource
    location: RuleLocation


@dataclass(slots=True)
class LintScope:
    """All linted objects. `is_complete` says that no other roles and bindings exist."""

    roles: dict[tuple[str, str, str], list[RuleLocation]]
    bindings: Sequence[ManifestSource]
    accounts: frozenset[tuple[str, str]]
    is_complete: bool
    by_subject: dict[Subject, list[BoundRule]] = field(default_factory=dict)

    def locations(self, binding: ManifestSource) -> list[RuleLocation]:
        """Return the rules that a binding grants."""
        reference = binding.content.get("roleRef")
        kind, name = string_at(reference, "kind"), string_at(reference, "name")
        return self.roles.get((kind, binding.namespace if kind == "Role" else "", name), [])


def binding_findings(scope: LintScope) -> Iterator[Finding]:
    """Yield the findings about bindings, and about combinations of several bindings."""
    cluster_wide = {_role_name(binding) for binding in scope.bindings if not binding.namespace}
    for binding in scope.bindings:
        locations = scope.locations(binding)
        if binding.namespace and _role_name(binding) not in cluster_wide:
            yield from _identity_in_namespace(binding, locations)
        yield from _associated_node_subjects(binding, locations)
        if not binding.namespace:
            yield from _cluster_wide_accounts(binding, locations)
        for subject in read_subjects(binding.content):
            held = scope.by_subject.setdefault(qualified_subject(subject, binding.namespace), [])
            held += [BoundRule(binding, location) for location in locations]
    for subject, held in scope.by_subject.items():
        yield from _combination_findings(subject, held)
        yield from _incomplete_grants(subject, held, is_complete=scope.is_complete)
        yield from _accounts_in_other_namespaces(subject, held, scope.accounts)


def _role_name(binding: ManifestSource) -> tuple[str, str]:
    reference = binding.content.get("roleRef")
    return string_at(reference, "kind"), string_at(reference, "name")


def _identity_in_namespace(
    binding: ManifestSource, locations: Sequence[RuleLocation]
) -> Iterator[Finding]:
    for location in locations:
        modes = [
            mode
            for mode in identity_modes(location.rule)
            if mode is not ImpersonationMode.SERVICE_ACCOUNT
        ]
        if modes and not location.is_namespaced:
            yield Finding(
                "namespaced-identity",
                Severity.ERROR,
                binding,
                f"{binding.path}.roleRef",
                f"a RoleBinding never grants {', '.join(location.rule.resources)}: "
                "they are cluster-scoped",
                "write a ClusterRoleBinding for the identities",
            )
            return


def _associated_node_subjects(
    binding: ManifestSource, locations: Sequence[RuleLocation]
) -> Iterator[Finding]:
    if all(
        ImpersonationMode.ASSOCIATED_NODE not in identity_modes(location.rule)
        for location in locations
    ):
        return
    for position, subject in enumerate(read_subjects(binding.content)):
        if not _may_have_node(subject):
            yield Finding(
                "no-own-node",
                Severity.ERROR,
                binding,
                f"{binding.path}.subjects[{position}]",
                "associated-node is for service accounts of a pod on the node; "
                f"{describe_subject(subject)} is not one",
                "bind service accounts, or grant impersonate:arbitrary-node",
            )


def _may_have_node(subject: Subject) -> bool:
    if subject.kind == GROUP:
        return subject.name == AUTHENTICATED or subject.name.startswith(SERVICE_ACCOUNTS)
    return subject.kind == SERVICE_ACCOUNT or service_account(subject.name) is not None


def _cluster_wide_accounts(
    binding: ManifestSource, locations: Sequence[RuleLocation]
) -> Iterator[Finding]:
    for location in locations:
        if (
            ImpersonationMode.SERVICE_ACCOUNT in identity_modes(location.rule)
            and location.rule.names
        ):
            yield location.warning(
                "account-everywhere",
                ".resourceNames",
                f"bound by the ClusterRoleBinding {binding.name}, these names match in every "
                "namespace",
                "write a Role and a RoleBinding in the namespace of the service account",
            )


def _combination_findings(subject: Subject, held: Sequence[BoundRule]) -> Iterator[Finding]:
    """Yield the findings that make constrained permissions of a subject pointless."""
    identities = [bound for bound in held if identity_modes(bound.location.rule)]
    if not identities:
        return
    for bound in held:
        rule = bound.location.rule
        overruled = next((other for other in identities if _overrules(bound, other)), None)
        if overruled is not None:
            where = overruled.location.source
            verb = rule.verbs.index(LEGACY_VERB if LEGACY_VERB in rule.verbs else STAR)
            yield bound.location.warning(
                "legacy-overrules",
                f".verbs[{verb}]",
                f"{describe_subject(subject)} also has this legacy permission "
                f"({bound.binding.name}), which is not limited to actions, so "
                f"{where.kind} {where.name} constrains nothing",
                "remove the legacy permission once the constrained ones suffice",
            )
        elif STAR in rule.verbs:
            where = identities[0].location.source
            yield bound.location.warning(
                "star-verb",
                f".verbs[{rule.verbs.index(STAR)}]",
                f"{describe_subject(subject)} may impersonate users ({where.kind} {where.name}), "
                "and the verb * allows all of this while impersonating, in every mode",
                "list the intended verbs",
            )


def _overrules(legacy: BoundRule, identity: BoundRule) -> bool:
    """Return whether a legacy permission allows what a constrained one allows, for any action."""
    rule, constrained = legacy.location.rule, identity.location.rule
    if not is_legacy(rule) or _modes_allowed_by(rule).isdisjoint(identity_modes(constrained)):
        return False
    is_other_namespace = legacy.binding.namespace not in {"", identity.binding.namespace}
    has_other_names = (
        rule.names and constrained.names and set(rule.names).isdisjoint(constrained.names)
    )
    return not is_other_namespace and not has_other_names


def _modes_allowed_by(legacy: Rule) -> set[ImpersonationMode]:
    """Return the modes whose targets a legacy rule allows. A group without a user is no target."""
    modes: set[ImpersonationMode] = set()
    if not {"users", STAR}.isdisjoint(legacy.resources):
        modes |= {
            ImpersonationMode.USER_INFO,
            ImpersonationMode.ARBITRARY_NODE,
            ImpersonationMode.ASSOCIATED_NODE,
        }
    if not {"serviceaccounts", STAR}.isdisjoint(legacy.resources):
        modes.add(ImpersonationMode.SERVICE_ACCOUNT)
    return modes


def _incomplete_grants(
    subject: Subject, held: Sequence[BoundRule], *, is_complete: bool
) -> Iterator[Finding]:
    identities = {mode: bound for bound in held for mode in identity_modes(bound.location.rule)}
    actions = {mode: bound for bound in held for mode, _ in action_verbs(bound.location.rule)}
    if any(STAR in bound.location.rule.verbs for bound in held):
        return
    for mode in ImpersonationMode:
        if (mode in identities) == (mode in actions):
            continue
        present, missing = ("identity", "action") if mode in identities else ("action", "identity")
        bound = identities.get(mode) or actions[mode]
        severity = Severity.WARNING if is_complete else Severity.NOTE
        yield Finding(
            "half-a-grant",
            severity,
            bound.binding,
            f"{bound.binding.path}.roleRef",
            f"{describe_subject(subject)} is granted no {missing} in {mode} mode"
            f"{'' if is_complete else ' here'}, so its {present} alone allows nothing",
            "grant both: understudy grant writes them together",
        )


def _accounts_in_other_namespaces(
    subject: Subject, held: Sequence[BoundRule], accounts: frozenset[tuple[str, str]]
) -> Iterator[Finding]:
    """Yield a finding for each service account that is granted in a namespace not its own."""
    acted_in = {
        bound.binding.namespace
        for bound in held
        for mode, _ in action_verbs(bound.location.rule)
        if mode is ImpersonationMode.SERVICE_ACCOUNT
    }
    for bound in held:
        here = bound.binding.namespace
        if not here or ImpersonationMode.SERVICE_ACCOUNT not in identity_modes(bound.location.rule):
            continue
        for position, name in enumerate(bound.location.rule.names):
            others = sorted(namespace for namespace, known in accounts if known == name)
            # If the account is not among the objects, its namespace is guessed. Granting it in the
            # impersonator's own namespace is the usual mistake, if all actions are in another.
            is_guess = (
                not others and here == subject.namespace and acted_in and here not in acted_in
            )
            if (others and here not in others) or is_guess:
                yield bound.location.warning(
                    "account-elsewhere",
                    f".resourceNames[{position}]",
                    f"{name} is granted in the namespace {here} only; "
                    f"is it in {', '.join(others or sorted(acted_in))}?",
                    "move Role and RoleBinding to the namespace of the service account",
                )
