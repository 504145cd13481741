"""Minimal RBAC objects for required impersonations. They grant these and nothing else.

Only `core/impersonation/checks.py` knows which checks a mode needs. Here each check becomes the one
rule that allows it. Rules are merged only if the merged rule allows exactly the same.

    need = GrantRequirement(
        subject_of(caller), ImpersonationMode.USER_INFO, UserInfo("alice"), (request_info,)
    )
    objects = grant_objects([need])                 # plain dicts, ready to be written as YAML
    objects = rbac_objects_for(subject, missing)    # the same, from denied checks

Legacy impersonation is never granted.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from hashlib import sha256

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.errors import OperatorError
from proxy.core.impersonation.checks import (
    Attempt,
    ForbiddenStep,
    ImpersonationRules,
    WildcardCheck,
    identity_steps,
    plan_attempts,
    request_checks,
)
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.model import (
    GROUP,
    RBAC_GROUP,
    SERVICE_ACCOUNT,
    Rule,
    Subject,
)
from proxy.core.rbac.rule_builder import scoped_rules
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
    node_name,
    service_account,
)

MANAGED_BY_LABEL, MANAGER = "app.kubernetes.io/managed-by", "understudy"
_DOMAIN = "kube-understudy.io"
CALLER_ANNOTATION, TARGET_ANNOTATION = f"{_DOMAIN}/caller", f"{_DOMAIN}/as"
PURPOSE_ANNOTATION, MADE_AT_ANNOTATION = f"{_DOMAIN}/for", f"{_DOMAIN}/made-at"
_VERSION = f"{RBAC_GROUP}/v1"
_MANAGED_BY = {MANAGED_BY_LABEL: MANAGER}
_MAX_STEM_LENGTH = 120
# The API server limits all annotations of an object to 256 KiB.
_MAX_ANNOTATION_LENGTH = 1000
_DIGEST_LENGTH = 8
_STAR = "*"
_IDENTITY_VERBS = frozenset(mode.identity_verb for mode in ImpersonationMode)

ANY = "any.understudy.invalid"
"""Placeholder in a requirement with patterns: every name of its kind, by a rule without names."""

GrantObject = dict[str, object]
"""A role or a binding: strings, lists and dicts, as in YAML."""


class UngrantableError(OperatorError):
    """No constrained grant can allow this. The message says why."""


@dataclass(frozen=True, slots=True)
class GrantRequirement:
    """A user that a subject must be able to impersonate, in a mode, and for which requests.

    In associated-node mode any node stands for the subject's own. `is_upgrade` says that the
    actions are upgrade requests. With `has_patterns`, a star at the end of a path is a wildcard,
    and ANY stands for all names. Otherwise a star is part of the request's path, and no rule can
    name that path alone.
    """

    subject: Subject
    mode: ImpersonationMode
    wanted_user: UserInfo
    request_infos: tuple[RequestInfo, ...]
    rules: ImpersonationRules = field(default_factory=ImpersonationRules)
    is_upgrade: bool = False
    has_patterns: bool = False


@dataclass(frozen=True, slots=True)
class GrantPurpose:
    """What a grant is for, as annotations of its objects. Empty fields are left out."""

    caller: str = ""
    target: str = ""
    purpose: str = ""
    made_by: str = ""
    made_at: str = ""

    def annotations(self) -> dict[str, str]:
        """Return the annotations."""
        values = {
            CALLER_ANNOTATION: self.caller,
            TARGET_ANNOTATION: self.target,
            PURPOSE_ANNOTATION: self.purpose,
            f"{_DOMAIN}/made-by": self.made_by,
            MADE_AT_ANNOTATION: self.made_at,
        }
        return {key: _bounded(value) for key, value in values.items() if value}


def _bounded(value: str) -> str:
    if len(value) <= _MAX_ANNOTATION_LENGTH:
        return value
    return f"{value[:_MAX_ANNOTATION_LENGTH]}..."


_NO_PURPOSE = GrantPurpose()


def grant_objects(
    needs: Iterable[GrantRequirement],
    *,
    name: str | None = None,
    purpose: GrantPurpose = _NO_PURPOSE,
) -> list[GrantObject]:
    """Return roles, each followed by its binding, that allow all requirements and as little more.

    Identities and actions of a subject are separate rules. So within one mode, each identity is
    allowed for each action. Without a name, objects are named after subjects and rules: an equal
    grant gets equal objects, and a different grant never replaces them. Raises UngrantableError.
    """
    checks: dict[Subject, dict[AccessCheck, None]] = {}
    for need in needs:
        checks.setdefault(need.subject, {}).update(dict.fromkeys(needed_checks(need)))
    return _objects(checks, name, purpose)


def rbac_objects_for(
    subject: Subject,
    checks: Iterable[AccessCheck],
    *,
    patterns: Iterable[AccessCheck] = (),
    name: str | None = None,
    purpose: GrantPurpose = _NO_PURPOSE,
) -> list[GrantObject]:
    """Return the objects that allow exactly these checks. Raises UngrantableError.

    A star at the end of a pattern's path is a wildcard.
    """
    needed = tuple(checks)
    for check in needed:
        _require_nameable(check, has_patterns=False)
    return _objects({subject: (*needed, *patterns)}, name, purpose)


def _objects(
    checks: Mapping[Subject, Iterable[AccessCheck]], name: str | None, purpose: GrantPurpose
) -> list[GrantObject]:
    holders: dict[tuple[str, tuple[Rule, ...]], list[Subject]] = {}
    for subject in sorted(checks):
        for namespace, rules in scoped_rules(checks[subject]).items():
            holders.setdefault((namespace, rules), []).append(subject)
    objects: list[GrantObject] = []
    taken: set[tuple[str, str]] = set()
    for (namespace, rules), subjects in sorted(holders.items(), key=lambda item: item[0][0]):
        chosen = name if name and (namespace, name) not in taken else None
        label = chosen or _name(name, namespace, rules, subjects)
        taken.add((namespace, label))
        metadata = _metadata(label, namespace, purpose)
        objects += _role_and_binding(metadata, rules, subjects)
    return objects


def needed_checks(need: GrantRequirement) -> tuple[AccessCheck, ...]:
    """Return every check that must be allowed, without duplicates. Raises UngrantableError."""
    checks: dict[AccessCheck, None] = {}
    for request_info in need.request_infos:
        checks.update(dict.fromkeys(checks_of(_attempt(need, request_info))))
    for check in checks:
        _require_nameable(check, has_patterns=need.has_patterns)
    if not need.has_patterns:
        return tuple(checks)
    return tuple(replace(check, name="") if check.name == ANY else check for check in checks)


def checks_of(attempt: Attempt) -> tuple[AccessCheck, ...]:
    """Return all checks of one attempt, each item on its own. Raises UngrantableError.

    Permission for all of a kind is never included: it is more than all the items together.
    """
    if attempt.mode is ImpersonationMode.LEGACY:
        raise UngrantableError(
            "only legacy impersonation could allow this, and it is never granted"
        )
    checks = request_checks(attempt)
    for step in identity_steps(attempt):
        if isinstance(step, ForbiddenStep):
            raise UngrantableError(step.reason)
        checks += step.individual_checks() if isinstance(step, WildcardCheck) else (step,)
    return tuple(checks)


def _attempt(need: GrantRequirement, request_info: RequestInfo) -> Attempt:
    attempts = plan_attempts(
        _caller(need), need.wanted_user, request_info, rules=need.rules, is_upgrade=need.is_upgrade
    )
    for attempt in attempts:
        if attempt.mode is need.mode:
            return attempt
    raise UngrantableError(
        f"{need.mode} mode does not apply to {need.wanted_user.name}{_inapplicable_reason(need)}"
    )


def _inapplicable_reason(need: GrantRequirement) -> str:
    if need.mode is ImpersonationMode.USER_INFO:
        return ": nodes and service accounts have their own modes"
    if not need.wanted_user.has_only_name:
        return " with groups, a uid or extras"
    if (
        need.mode is ImpersonationMode.ASSOCIATED_NODE
        and node_name(need.wanted_user.name) is not None
    ):
        return " for a subject that is not a service account"
    return ""


def _caller(need: GrantRequirement) -> Caller:
    """Return a caller to which the mode applies if it can apply to the subject at all."""
    user = _user_of(need.subject)
    if need.mode is ImpersonationMode.ASSOCIATED_NODE:
        node = node_name(need.wanted_user.name) or ""
        extra = make_extra({NODE_NAME_KEY: [node]})
        user = UserInfo(user.name, groups=user.groups, extra=extra)
    return Caller(user)


def _user_of(subject: Subject) -> UserInfo:
    if subject.kind == SERVICE_ACCOUNT:
        return UserInfo(f"system:serviceaccount:{subject.namespace}:{subject.name}")
    if subject.kind == GROUP:
        # A group may contain users of any kind, including service accounts.
        return UserInfo("system:serviceaccount:any:any", groups=(subject.name,))
    return UserInfo(subject.name)


def _require_nameable(check: AccessCheck, *, has_patterns: bool) -> None:
    """Raise UngrantableError if no rule can name exactly this."""
    if check.path.endswith(_STAR) and not has_patterns:
        raise UngrantableError(f"a rule for the path {check.path} would allow more than this path")
    if _STAR in {check.group, check.resource}:
        raise UngrantableError(
            "a rule for a resource or an API group called * would allow all of them"
        )
    if check.resource == "groups" and check.name == _STAR and check.verb in _IDENTITY_VERBS:
        # For four groups and more, the check for `*` is sent first, whatever their names are.
        raise UngrantableError("a rule for a group called * would allow any four groups together")
    # A namespace is validated as part of a service account's user name.
    if check.namespace and not service_account(f"system:serviceaccount:{check.namespace}:any"):
        raise UngrantableError(f"there can be no role in a namespace called {check.namespace!r}")


def _metadata(name: str, namespace: str, purpose: GrantPurpose) -> GrantObject:
    metadata: GrantObject = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = dict(_MANAGED_BY)
    if annotations := purpose.annotations():
        metadata["annotations"] = annotations
    return metadata


def _role_and_binding(
    metadata: GrantObject, rules: Sequence[Rule], subjects: Sequence[Subject]
) -> list[GrantObject]:
    kind = "Role" if "namespace" in metadata else "ClusterRole"
    reference: GrantObject = {"apiGroup": RBAC_GROUP, "kind": kind, "name": metadata["name"]}
    role: GrantObject = {"apiVersion": _VERSION, "kind": kind, "metadata": metadata}
    role["rules"] = [_rule_object(rule) for rule in rules]
    binding: GrantObject = {"apiVersion": _VERSION, "kind": f"{kind}Binding"}
    binding["metadata"] = deepcopy(metadata)
    binding["roleRef"] = reference
    binding["subjects"] = [_subject_object(subject) for subject in subjects]
    return [role, binding]


def _rule_object(rule: Rule) -> GrantObject:
    if rule.paths:
        return {"nonResourceURLs": list(rule.paths), "verbs": list(rule.verbs)}
    written: GrantObject = {"apiGroups": list(rule.groups), "resources": list(rule.resources)}
    if rule.names:
        written["resourceNames"] = list(rule.names)
    written["verbs"] = list(rule.verbs)
    return written


def _subject_object(subject: Subject) -> GrantObject:
    if subject.kind == SERVICE_ACCOUNT:
        return {"kind": subject.kind, "name": subject.name, "namespace": subject.namespace}
    return {"kind": subject.kind, "apiGroup": RBAC_GROUP, "name": subject.name}


def _name(
    name: str | None, namespace: str, rules: Sequence[Rule], subjects: Sequence[Subject]
) -> str:
    content = repr(
        (namespace, [str(rule) for rule in rules], [str(subject) for subject in subjects])
    )
    digest = sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_LENGTH]
    return f"{name or f'understudy:{_stem(subjects[0])}'}:{digest}"


def _stem(subject: Subject) -> str:
    """Return a subject's name as part of an object name: no slash, no percent sign, bounded."""
    kept = [letter if letter.isascii() and letter.isprintable() else "-" for letter in subject.name]
    return "".join(kept).translate(str.maketrans("/% ", "---"))[:_MAX_STEM_LENGTH]
