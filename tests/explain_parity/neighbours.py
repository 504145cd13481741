"""Requests beside a request: each differs in one thing that RBAC can tell apart."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from proxy.core.errors import StatusError
from proxy.core.http.headers import impersonation_header_lines
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import (
    UserInfo,
    make_extra,
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
    wanted_user: UserInfo

    @property
    def request_info(self) -> RequestInfo:
        """What it does."""
        return parse_request_info(self.method, self.target)

    @property
    def headers(self) -> tuple[Header, ...]:
        """Ask for the wanted identity, with nothing implied."""
        return tuple(impersonation_header_lines(self.wanted_user))

    @property
    def path(self) -> bytes:
        """The target without its query."""
        return self.target.partition(b"?")[0]


def neighbours(question: Question) -> dict[str, Question]:
    """Return what lies beside a request, by what is different there."""
    found = {**dict(_actions(question)), **dict(_identities(question))}
    return {what: one for what, one in found.items() if _is_other(question, one)}


def _actions(question: Question) -> Iterator[tuple[str, Question]]:
    request_info, path = question.request_info, question.path
    if not request_info.is_resource:
        yield "verb", replace(question, method=_other_method(question.method))
        yield "path", replace(question, target=path.rstrip(b"/") + b"/neighbour")
        return
    if request_info.verb == "list":
        yield "verb", replace(question, target=path + b"?watch=1&" + NO_STREAM)
    else:
        method = _other_method(question.method)
        yield "verb", replace(question, method=method, target=path + b"?" + _DRY)
    if request_info.name and path.endswith(b"/" + request_info.name.encode()):
        yield "name", replace(question, target=path + b"-neighbour")
        yield "subresource", replace(question, target=path + b"/neighbour")
    elif request_info.subresource and path.endswith(b"/" + request_info.subresource.encode()):
        yield "subresource", replace(question, target=path + b"neighbour")
    inside = b"/namespaces/%b/" % request_info.namespace.encode()
    if request_info.namespace and inside in path:
        yield "namespace", replace(question, target=path.replace(inside, b"/namespaces/beside/", 1))
    elif not request_info.namespace and request_info.resource == "pods" and not request_info.name:
        yield "resource", replace(question, target=path.replace(b"pods", b"podtemplates"))


def _identities(question: Question) -> Iterator[tuple[str, Question]]:
    wanted_user = question.wanted_user
    yield (
        "target",
        replace(question, wanted_user=replace(wanted_user, name=_other_name(wanted_user.name))),
    )
    yield (
        "group",
        replace(question, wanted_user=replace(wanted_user, groups=(*wanted_user.groups, "beside"))),
    )
    uid = f"{wanted_user.uid}-beside" if wanted_user.uid else "beside"
    yield "uid", replace(question, wanted_user=replace(wanted_user, uid=uid))
    extra = make_extra({**dict(wanted_user.extra), "beside.example/key": ("value",)})
    yield "extra", replace(question, wanted_user=replace(wanted_user, extra=extra))


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
        request_info = other.request_info
    except StatusError:
        return False
    same_action = replace(request_info, path="", fields=(), labels=()) == replace(
        question.request_info, path="", fields=(), labels=()
    )
    if not request_info.is_resource:
        same_action = request_info == question.request_info
    return not (same_action and other.wanted_user == question.wanted_user)
