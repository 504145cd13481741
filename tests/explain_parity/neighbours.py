"""Requests beside a request: each differs in one thing that RBAC can tell apart."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from proxy.core.errors import Refusal
from proxy.core.http.headers import identity_headers
from proxy.core.requestinfo.request_info import Action, parse_action
from proxy.core.userinfo import (
    Identity,
    extra_of,
    node_name,
    service_account,
)

Header = tuple[bytes, bytes]

# Makes a watch an error of its own, told at once, after it was authorized as a watch.
NO_STREAM = b"resourceVersionMatch=NotOlderThan"
_DRY = b"dryRun=All"


@dataclass(frozen=True, slots=True)
class Question:
    """A request, apart from who sends it."""

    method: bytes
    target: bytes
    wanted: Identity

    @property
    def action(self) -> Action:
        """What it does."""
        return parse_action(self.method, self.target)

    @property
    def headers(self) -> tuple[Header, ...]:
        """Ask for the wanted identity, with nothing implied."""
        return tuple(identity_headers(self.wanted))

    @property
    def path(self) -> bytes:
        """The target without its query."""
        return self.target.partition(b"?")[0]


def neighbours(question: Question) -> dict[str, Question]:
    """Return what lies beside a request, by what is different there."""
    found = {**dict(_actions(question)), **dict(_identities(question))}
    return {what: one for what, one in found.items() if _is_other(question, one)}


def _actions(question: Question) -> Iterator[tuple[str, Question]]:
    action, path = question.action, question.path
    if not action.is_resource:
        yield "verb", replace(question, method=_other_method(question.method))
        yield "path", replace(question, target=path.rstrip(b"/") + b"/neighbour")
        return
    if action.verb == "list":
        yield "verb", replace(question, target=path + b"?watch=1&" + NO_STREAM)
    else:
        method = _other_method(question.method)
        yield "verb", replace(question, method=method, target=path + b"?" + _DRY)
    if action.name and path.endswith(b"/" + action.name.encode()):
        yield "name", replace(question, target=path + b"-neighbour")
        yield "subresource", replace(question, target=path + b"/neighbour")
    elif action.subresource and path.endswith(b"/" + action.subresource.encode()):
        yield "subresource", replace(question, target=path + b"neighbour")
    inside = b"/namespaces/%b/" % action.namespace.encode()
    if action.namespace and inside in path:
        yield "namespace", replace(question, target=path.replace(inside, b"/namespaces/beside/", 1))
    elif not action.namespace and action.resource == "pods" and not action.name:
        yield "resource", replace(question, target=path.replace(b"pods", b"podtemplates"))


def _identities(question: Question) -> Iterator[tuple[str, Question]]:
    wanted = question.wanted
    yield "target", replace(question, wanted=replace(wanted, name=_other_name(wanted.name)))
    yield "group", replace(question, wanted=replace(wanted, groups=(*wanted.groups, "beside")))
    uid = f"{wanted.uid}-beside" if wanted.uid else "beside"
    yield "uid", replace(question, wanted=replace(wanted, uid=uid))
    extra = extra_of({**dict(wanted.extra), "beside.example/key": ("value",)})
    yield "extra", replace(question, wanted=replace(wanted, extra=extra))


def _other_name(name: str) -> str:
    if node_name(name) is not None:
        return "system:node:beside"
    account = service_account(name)
    if account is not None:
        return f"system:serviceaccount:{account.namespace}:beside"
    return f"{name}-beside"


def _other_method(method: bytes) -> bytes:
    return b"GET" if method in {b"PATCH", b"OPTIONS"} else b"PATCH"


def _is_other(question: Question, other: Question) -> bool:
    try:
        action = other.action
    except Refusal:
        return False
    same_action = replace(action, path="", fields=(), labels=()) == replace(
        question.action, path="", fields=(), labels=()
    )
    if not action.is_resource:
        same_action = action == question.action
    return not (same_action and other.wanted == question.wanted)
