"""RBAC as the API server's authorizer reads it: rules, who holds them, and what they allow.

Aggregated ClusterRoles are taken as the server has filled them. What other authorizers say, and
the group `system:masters`, which no rule binds, is not in here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.userinfo import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    UserInfo,
    service_account,
    service_account_groups,
)

RBAC_GROUP = "rbac.authorization.k8s.io"
USER, GROUP, SERVICE_ACCOUNT = "User", "Group", "ServiceAccount"
_STAR = "*"
_STAR_SLASH = "*/"

Manifest = Mapping[str, object]
"""An object of the Kubernetes API, as JSON or YAML have it."""


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """Who holds a role. Only service accounts have a namespace."""

    kind: str
    name: str
    namespace: str = ""

    def matches(self, user: UserInfo, binding_namespace: str = "") -> bool:
        """Tell whether an identity is meant.

        A service account without a namespace is one of the binding's own.
        """
        if self.kind == USER:
            return user.name == self.name
        if self.kind == GROUP:
            return self.name in user.groups
        namespace = self.namespace or binding_namespace
        if self.kind != SERVICE_ACCOUNT or not namespace:
            return False
        return user.name == f"system:serviceaccount:{namespace}:{self.name}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role. A rule without names is about all of them."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def allows(self, check: AccessCheck) -> bool:
        """Tell whether the rule answers a check with yes, wherever it is bound."""
        if not _names_one(self.verbs, check.verb):
            return False
        if not check.is_resource:
            return any(path_matches(path, check.path) for path in self.paths)
        return (
            _names_one(self.groups, check.group)
            and any(resource_matches(resource, check) for resource in self.resources)
            and (not self.names or check.name in self.names)
        )


@dataclass(frozen=True, slots=True)
class Binding:
    """Rules, and whom they are given; a namespace says where, none of it everywhere.

    `role` and `name` are what people call them.
    """

    name: str
    namespace: str
    role: str
    subjects: tuple[Subject, ...]
    rules: tuple[Rule, ...]

    def allows(self, check: AccessCheck) -> bool:
        """Tell whether whoever is bound here may do this; who asks is not looked at."""
        is_here = not self.namespace or (check.is_resource and self.namespace == check.namespace)
        return is_here and any(rule.allows(check) for rule in self.rules)

    def applies_to(self, user: UserInfo) -> bool:
        """Tell whether an identity is bound here."""
        return any(subject.matches(user, self.namespace) for subject in self.subjects)


@dataclass(frozen=True, slots=True)
class RBACSnapshot:
    """All bindings of a cluster, with the rules of their roles."""

    bindings: tuple[Binding, ...] = ()

    def allows(self, check: AccessCheck) -> bool:
        """Tell whether a rule answers a check with yes, for the user it asks about."""
        return any(
            binding.allows(check) and binding.applies_to(check.user) for binding in self.bindings
        )

    def first_allowing(self, check: AccessCheck) -> Iterator[tuple[Binding, Subject]]:
        """Give everyone to whom the check would be answered with yes, whomever it asks about."""
        for binding in self.bindings:
            if binding.allows(check):
                for subject in binding.subjects:
                    yield binding, qualified_subject(subject, binding.namespace)


def subject_of(user: UserInfo) -> Subject:
    """Return the subject that is this identity and nobody else."""
    account = service_account(user.name)
    if account is None:
        return Subject(USER, user.name)
    return Subject(SERVICE_ACCOUNT, account.name, account.namespace)


def resource_matches(resource: str, check: AccessCheck) -> bool:
    """Tell whether a rule's resource covers the resource and subresource that are asked for.

    `*` is everything and `*/sub` is this subresource of everything; `pods/*` is neither.
    """
    if resource == _STAR:
        return True
    if not check.subresource:
        return resource == check.resource
    return resource in {f"{check.resource}/{check.subresource}", f"*/{check.subresource}"}


def path_matches(pattern: str, path: str) -> bool:
    """Tell whether a rule's path covers the one that is asked for; stars count at its end only."""
    if pattern in {_STAR, path}:
        return True
    return pattern.endswith(_STAR) and path.startswith(pattern.rstrip(_STAR))


def read_rbac(objects: Iterable[Manifest]) -> RBACSnapshot:
    """Return the bindings of a cluster from its roles and bindings; other objects are left out.

    A binding whose role is missing gives nothing, and so does whatever has not the right shape.
    """
    known = [thing for thing in objects if isinstance(thing.get("metadata"), Mapping)]
    roles = {_key(thing): _rules(thing) for thing in known if _kind(thing).endswith("Role")}
    return RBACSnapshot(
        tuple(_binding(thing, roles) for thing in known if _kind(thing).endswith("RoleBinding"))
    )


def string_list(value: object) -> tuple[str, ...]:
    """Return the texts of a list, whatever else is in it or is there instead."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def read_rule(rule: Manifest) -> Rule:
    """Return a rule as it stands in a role."""
    return Rule(
        string_list(rule.get("verbs")),
        string_list(rule.get("apiGroups")),
        string_list(rule.get("resources")),
        string_list(rule.get("resourceNames")),
        string_list(rule.get("nonResourceURLs")),
    )


def read_subjects(thing: Manifest) -> tuple[Subject, ...]:
    """Return the subjects of a binding."""
    return tuple(
        Subject(string_at(entry, "kind"), string_at(entry, "name"), string_at(entry, "namespace"))
        for entry in mapping_list(thing.get("subjects"))
    )


def mapping_list(value: object) -> tuple[Manifest, ...]:
    """Return the mappings of a list."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(item for item in value if isinstance(item, Mapping))


def string_at(thing: object, key: str) -> str:
    """Return the text at a key, or an empty one."""
    value = thing.get(key) if isinstance(thing, Mapping) else None
    return value if isinstance(value, str) else ""


def _binding(thing: Manifest, roles: Mapping[tuple[str, str, str], tuple[Rule, ...]]) -> Binding:
    reference, metadata = thing.get("roleRef"), thing["metadata"]
    namespace = string_at(metadata, "namespace")
    kind, role = string_at(reference, "kind"), string_at(reference, "name")
    rules = roles.get((kind, namespace if kind == "Role" else "", role), ())
    return Binding(
        string_at(metadata, "name"), namespace, f"{kind}/{role}", read_subjects(thing), rules
    )


def _rules(thing: Manifest) -> tuple[Rule, ...]:
    return tuple(read_rule(rule) for rule in mapping_list(thing.get("rules")))


def _key(thing: Manifest) -> tuple[str, str, str]:
    metadata = thing["metadata"]
    return _kind(thing), string_at(metadata, "namespace"), string_at(metadata, "name")


def _kind(thing: Manifest) -> str:
    is_ours = string_at(thing, "apiVersion").startswith(f"{RBAC_GROUP}/")
    return string_at(thing, "kind") if is_ours else ""


def qualified_subject(subject: Subject, namespace: str) -> Subject:
    """Return a subject of a binding with the namespace that it has there."""
    if subject.kind != SERVICE_ACCOUNT or subject.namespace:
        return subject
    return Subject(subject.kind, subject.name, namespace)


def _names_one(listed: tuple[str, ...], asked: str) -> bool:
    return asked in listed or _STAR in listed


UNNAMED_USER = "understudy:nobody"
"""A user whom no rule names: somebody of whom only the groups are known."""


def user_for_subject(subject: Subject) -> UserInfo:
    """Return the identity of whoever is this subject and nothing else."""
    if subject.kind == GROUP:
        return user_in_groups((subject.name,))
    name = subject.name
    if subject.kind == SERVICE_ACCOUNT:
        name = f"system:serviceaccount:{subject.namespace}:{subject.name}"
    return UserInfo(name, groups=implied_groups(name))


def user_in_groups(groups: tuple[str, ...]) -> UserInfo:
    """Return somebody who is in these groups, and logged in unless they say otherwise."""
    logged_in = () if UNAUTHENTICATED in groups or AUTHENTICATED in groups else (AUTHENTICATED,)
    return UserInfo(UNNAMED_USER, groups=(*groups, *logged_in))


def implied_groups(username: str) -> tuple[str, ...]:
    """Return the groups that come with a name alone, by whatever credential it is proved."""
    if username == ANONYMOUS:
        return (UNAUTHENTICATED,)
    account = service_account(username)
    own = () if account is None else service_account_groups(account.namespace)
    return (*own, AUTHENTICATED)


def describe_subject(subject: Subject) -> str:
    """Return a subject in words."""
    if subject.kind == SERVICE_ACCOUNT:
        return f"service account {subject.namespace}/{subject.name}"
    return f"{'user' if subject.kind == USER else 'group'} {subject.name}"
