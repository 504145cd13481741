"""RBAC as kube-apiserver's authorizer evaluates it: rules, bindings, subjects.

Aggregated ClusterRoles are used as the server has filled them. Other authorizers are not modelled,
and neither is the group `system:masters`, which is authorized without any rule.
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
"""A Kubernetes object, parsed from JSON or YAML."""


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """A subject of a binding. Only service accounts have a namespace."""

    kind: str
    name: str
    namespace: str = ""

    def matches(self, user: UserInfo, binding_namespace: str = "") -> bool:
        """Return whether the subject matches a user.

        A service account without a namespace belongs to the namespace of the binding.
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
    """One rule of a role. A rule without resource names applies to all names."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def allows(self, check: AccessCheck) -> bool:
        """Return whether the rule allows a check, regardless of where it is bound."""
        if not _contains(self.verbs, check.verb):
            return False
        if not check.is_resource:
            return any(path_matches(path, check.path) for path in self.paths)
        return (
            _contains(self.groups, check.group)
            and any(resource_matches(resource, check) for resource in self.resources)
            and (not self.names or check.name in self.names)
        )


@dataclass(frozen=True, slots=True)
class Binding:
    """Subjects and the rules that they are given. Without a namespace it is cluster-wide.

    `role` and `name` are display names.
    """

    name: str
    namespace: str
    role: str
    subjects: tuple[Subject, ...]
    rules: tuple[Rule, ...]

    def allows(self, check: AccessCheck) -> bool:
        """Return whether the rules allow a check here, regardless of its user."""
        is_in_scope = not self.namespace or (
            check.is_resource and self.namespace == check.namespace
        )
        return is_in_scope and any(rule.allows(check) for rule in self.rules)

    def applies_to(self, user: UserInfo) -> bool:
        """Return whether a user is among the subjects."""
        return any(subject.matches(user, self.namespace) for subject in self.subjects)


@dataclass(frozen=True, slots=True)
class RBACSnapshot:
    """All bindings of a cluster, with the rules of their roles."""

    bindings: tuple[Binding, ...] = ()

    def allows(self, check: AccessCheck) -> bool:
        """Return whether a binding allows a check for its user."""
        return any(
            binding.allows(check) and binding.applies_to(check.user) for binding in self.bindings
        )

    def subjects_allowing(self, check: AccessCheck) -> Iterator[tuple[Binding, Subject]]:
        """Yield every binding and subject that allow a check, regardless of its user."""
        for binding in self.bindings:
            if binding.allows(check):
                for subject in binding.subjects:
                    yield binding, qualified_subject(subject, binding.namespace)


def subject_of(user: UserInfo) -> Subject:
    """Return the subject that matches exactly this user."""
    account = service_account(user.name)
    if account is None:
        return Subject(USER, user.name)
    return Subject(SERVICE_ACCOUNT, account.name, account.namespace)


def resource_matches(resource: str, check: AccessCheck) -> bool:
    """Return whether a rule's resource matches the resource and subresource of a check.

    `*` matches everything and `*/sub` this subresource of everything. `pods/*` is not a pattern.
    """
    if resource == _STAR:
        return True
    if not check.subresource:
        return resource == check.resource
    return resource in {f"{check.resource}/{check.subresource}", f"*/{check.subresource}"}


def path_matches(pattern: str, path: str) -> bool:
    """Return whether a rule's path matches a path. Stars are wildcards at the end only."""
    if pattern in {_STAR, path}:
        return True
    return pattern.endswith(_STAR) and path.startswith(pattern.rstrip(_STAR))


def read_rbac(objects: Iterable[Manifest]) -> RBACSnapshot:
    """Return the bindings of a cluster from its roles and bindings. Other objects are ignored.

    A binding to a missing role grants nothing, and neither does a malformed object.
    """
    manifests = [manifest for manifest in objects if isinstance(manifest.get("metadata"), Mapping)]
    roles = {
        _key(manifest): _rules(manifest)
        for manifest in manifests
        if _kind(manifest).endswith("Role")
    }
    return RBACSnapshot(
        tuple(
            _binding(manifest, roles)
            for manifest in manifests
            if _kind(manifest).endswith("RoleBinding")
        )
    )


def string_list(value: object) -> tuple[str, ...]:
    """Return the strings of a list. Other items are ignored, and so is a value that is no list."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def read_rule(rule: Manifest) -> Rule:
    """Parse a rule of a role."""
    return Rule(
        string_list(rule.get("verbs")),
        string_list(rule.get("apiGroups")),
        string_list(rule.get("resources")),
        string_list(rule.get("resourceNames")),
        string_list(rule.get("nonResourceURLs")),
    )


def read_subjects(manifest: Manifest) -> tuple[Subject, ...]:
    """Parse the subjects of a binding."""
    return tuple(
        Subject(string_at(entry, "kind"), string_at(entry, "name"), string_at(entry, "namespace"))
        for entry in mapping_list(manifest.get("subjects"))
    )


def mapping_list(value: object) -> tuple[Manifest, ...]:
    """Return the mappings of a list. Other items are ignored."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(item for item in value if isinstance(item, Mapping))


def string_at(manifest: object, key: str) -> str:
    """Return the string at a key, or an empty string."""
    value = manifest.get(key) if isinstance(manifest, Mapping) else None
    return value if isinstance(value, str) else ""


def _binding(manifest: Manifest, roles: Mapping[tuple[str, str, str], tuple[Rule, ...]]) -> Binding:
    reference, metadata = manifest.get("roleRef"), manifest["metadata"]
    namespace = string_at(metadata, "namespace")
    kind, role = string_at(reference, "kind"), string_at(reference, "name")
    rules = roles.get((kind, namespace if kind == "Role" else "", role), ())
    return Binding(
        string_at(metadata, "name"), namespace, f"{kind}/{role}", read_subjects(manifest), rules
    )


def _rules(manifest: Manifest) -> tuple[Rule, ...]:
    return tuple(read_rule(rule) for rule in mapping_list(manifest.get("rules")))


def _key(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return _kind(manifest), string_at(metadata, "namespace"), string_at(metadata, "name")


def _kind(manifest: Manifest) -> str:
    is_rbac = string_at(manifest, "apiVersion").startswith(f"{RBAC_GROUP}/")
    return string_at(manifest, "kind") if is_rbac else ""


def qualified_subject(subject: Subject, namespace: str) -> Subject:
    """Return a subject with the namespace that it inherits from its binding."""
    if subject.kind != SERVICE_ACCOUNT or subject.namespace:
        return subject
    return Subject(subject.kind, subject.name, namespace)


def _contains(listed: tuple[str, ...], value: str) -> bool:
    return value in listed or _STAR in listed


UNNAMED_USER = "understudy:nobody"
"""A user name that no rule contains, for a user of which only the groups are known."""


def user_for_subject(subject: Subject) -> UserInfo:
    """Return a user that matches this subject and no other."""
    if subject.kind == GROUP:
        return user_in_groups((subject.name,))
    name = subject.name
    if subject.kind == SERVICE_ACCOUNT:
        name = f"system:serviceaccount:{subject.namespace}:{subject.name}"
    return UserInfo(name, groups=implied_groups(name))


def user_in_groups(groups: tuple[str, ...]) -> UserInfo:
    """Return a user in these groups, authenticated unless the groups say otherwise."""
    implied = () if UNAUTHENTICATED in groups or AUTHENTICATED in groups else (AUTHENTICATED,)
    return UserInfo(UNNAMED_USER, groups=(*groups, *implied))


def implied_groups(username: str) -> tuple[str, ...]:
    """Return the groups that a user name implies, regardless of the credential."""
    if username == ANONYMOUS:
        return (UNAUTHENTICATED,)
    account = service_account(username)
    own = () if account is None else service_account_groups(account.namespace)
    return (*own, AUTHENTICATED)


def describe_subject(subject: Subject) -> str:
    """Return a subject as text for messages."""
    if subject.kind == SERVICE_ACCOUNT:
        return f"service account {subject.namespace}/{subject.name}"
    return f"{'user' if subject.kind == USER else 'group'} {subject.name}"
