"""From what somebody needs to the smallest RBAC objects that give it, and nothing but it.

Which checks a mode needs is the plan's knowledge alone: here each check becomes the one rule that
answers it, and rules are merged only where the merged one allows the same.

    need = Need(subject_of(caller), Mode.USER_INFO, Identity("alice"), (action,))
    objects = grant_objects([need])             # plain dicts, ready to be written as YAML
    objects = objects_for(subject, missing)     # the same, from checks that were answered with no

Legacy impersonation is never granted.
"""

from collections.abc import Iterable, Mapping, Sequence
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

_VERSION = f"{RBAC_GROUP}/v1"
_MANAGED_BY = {"app.kubernetes.io/managed-by": "understudy"}
_LONGEST_STEM = 120
_DIGEST_LENGTH = 8
_STAR = "*"
_IDENTITY_VERBS = frozenset(mode.identity_verb for mode in ImpersonationMode)

ANY = "any.understudy.invalid"
"""In an identity of a need with patterns: every name of its kind, by a rule without names."""

GrantObject = dict[str, object]
"""A role or a binding: texts, lists and dicts, as YAML writes them."""


class UngrantableError(OperatorError):
    """No constrained grant can allow this; the message says why."""


@dataclass(frozen=True, slots=True)
class GrantRequirement:
    """Whom somebody must be able to act as, in a mode, and for what.

    In associated-node mode any node stands for the impersonator's own. `is_upgrade` says that the
    actions are requests to switch protocols. `has_patterns` says that a star at the end of a path
    is meant as a rule means it, and that ANY is everyone; otherwise a star is the request's own,
    which no rule can name alone.
    """

    subject: Subject
    mode: ImpersonationMode
    wanted_user: UserInfo
    actions: tuple[RequestInfo, ...]
    rules: ImpersonationRules = field(default_factory=ImpersonationRules)
    is_upgrade: bool = False
    has_patterns: bool = False


def grant_objects(
    needs: Iterable[GrantRequirement], *, name: str | None = None
) -> list[GrantObject]:
    """Return roles, each followed by its binding, that allow all needs and no more than they must.

    Somebody's identities and actions are separate rules, so within one mode each identity goes with
    each action. Without a name, objects are named after who is given what: the same again is the
    same objects, and another grant never takes their place. Raises Ungrantable.
    """
    checks: dict[Subject, dict[AccessCheck, None]] = {}
    for need in needs:
        checks.setdefault(need.subject, {}).update(dict.fromkeys(needed_checks(need)))
    return _objects(checks, name)


def rbac_objects_for(
    subject: Subject, checks: Iterable[AccessCheck], *, patterns: Iterable[AccessCheck] = ()
) -> list[GrantObject]:
    """Return the objects that have exactly these checks answered with yes. Raises Ungrantable.

    A star at the end of a pattern's path is meant as a rule means it.
    """
    needed = tuple(checks)
    for check in needed:
        _refuse_unnameable(check, has_patterns=False)
    return _objects({subject: (*needed, *patterns)}, None)


def _objects(
    checks: Mapping[Subject, Iterable[AccessCheck]], name: str | None
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
        objects += _role_and_binding(label, namespace, rules, subjects)
    return objects


def needed_checks(need: GrantRequirement) -> tuple[AccessCheck, ...]:
    """Return every check that must be answered with yes, each once. Raises Ungrantable."""
    checks: dict[AccessCheck, None] = {}
    for request_info in need.actions:
        checks.update(dict.fromkeys(checks_of(_attempt(need, request_info))))
    for check in checks:
        _refuse_unnameable(check, has_patterns=need.has_patterns)
    if not need.has_patterns:
        return tuple(checks)
    return tuple(replace(check, name="") if check.name == ANY else check for check in checks)


def checks_of(attempt: Attempt) -> tuple[AccessCheck, ...]:
    """Return all checks of one attempt, each item on its own. Raises Ungrantable.

    Permission for everything of a kind is never asked for: it is more than the items together.
    """
    if attempt.mode is ImpersonationMode.LEGACY:
        raise UngrantableError("only legacy impersonation could allow this, and it is not proposed")
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
        f"{need.mode} mode does not apply to {need.wanted_user.name}{_because(need)}"
    )


def _because(need: GrantRequirement) -> str:
    if need.mode is ImpersonationMode.USER_INFO:
        return ": nodes and service accounts have modes of their own"
    if not need.wanted_user.has_only_name:
        return " with groups, a uid or extras"
    if (
        need.mode is ImpersonationMode.ASSOCIATED_NODE
        and node_name(need.wanted_user.name) is not None
    ):
        return " for whoever is no service account"
    return ""


def _caller(need: GrantRequirement) -> Caller:
    """Return somebody to whom the mode applies if it can apply to the subject at all."""
    user = _somebody(need.subject)
    if need.mode is ImpersonationMode.ASSOCIATED_NODE:
        node = node_name(need.wanted_user.name) or ""
        extra = make_extra({NODE_NAME_KEY: [node]})
        user = UserInfo(user.name, groups=user.groups, extra=extra)
    return Caller(user)


def _somebody(subject: Subject) -> UserInfo:
    if subject.kind == SERVICE_ACCOUNT:
        return UserInfo(f"system:serviceaccount:{subject.namespace}:{subject.name}")
    if subject.kind == GROUP:
        # Groups hold users of any kind, service accounts too.
        return UserInfo("system:serviceaccount:any:any", groups=(subject.name,))
    return UserInfo(subject.name)


def _refuse_unnameable(check: AccessCheck, *, has_patterns: bool) -> None:
    """Refuse what no rule can name without naming more, or cannot name at all."""
    if check.path.endswith(_STAR) and not has_patterns:
        raise UngrantableError(f"a rule for the path {check.path} would allow more than this path")
    if _STAR in {check.group, check.resource}:
        raise UngrantableError(
            "a rule for a resource or an API group called * would allow all of them"
        )
    if check.resource == "groups" and check.name == _STAR and check.verb in _IDENTITY_VERBS:
        # Four groups and more are asked for as `*` first, whatever they are called.
        raise UngrantableError("a rule for a group called * would allow any groups, four at a time")
    # A namespace has the form that it has in the name of a service account.
    if check.namespace and not service_account(f"system:serviceaccount:{check.namespace}:any"):
        raise UngrantableError(f"there can be no role in a namespace called {check.namespace!r}")


def _role_and_binding(
    name: str, namespace: str, rules: Sequence[Rule], subjects: Sequence[Subject]
) -> list[GrantObject]:
    kind = "Role" if namespace else "ClusterRole"
    metadata: dict[str, object] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = dict(_MANAGED_BY)
    reference: GrantObject = {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}
    role: GrantObject = {"apiVersion": _VERSION, "kind": kind, "metadata": metadata}
    role["rules"] = [_rule_object(rule) for rule in rules]
    binding: GrantObject = {"apiVersion": _VERSION, "kind": f"{kind}Binding"}
    binding["metadata"] = {**metadata, "labels": dict(_MANAGED_BY)}
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
    said = repr((namespace, [str(rule) for rule in rules], [str(one) for one in subjects]))
    digest = sha256(said.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_LENGTH]
    return f"{name or f'understudy:{_stem(subjects[0])}'}:{digest}"


def _stem(subject: Subject) -> str:
    """Return a subject's name as part of an object's: no slash, no percent sign, not too long."""
    kept = [letter if letter.isascii() and letter.isprintable() else "-" for letter in subject.name]
    return "".join(kept).translate(str.maketrans("/% ", "---"))[:_LONGEST_STEM]
