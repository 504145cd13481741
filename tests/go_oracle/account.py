"""What one request brought about, in the same words for both sides, so that `==` compares them."""

from collections.abc import Iterable
from typing import NamedTuple

from proxy.core.userinfo import UserInfo
from tests.go_oracle.cases import Header
from tests.support.oracle import Attributes, NativeCheck, NativeHead, NativeIdentity, Outcome

_KEPT_ELSEWHERE = frozenset({"Host", "Transfer-Encoding"})


class ReadHead(NamedTuple):
    """A request as read from the wire; header names canonical and sorted, values in order."""

    method: str
    target: str
    headers: tuple[tuple[str, tuple[str, ...]], ...]


class Question(NamedTuple):
    """The attributes of an action or of a check, as an authorizer sees them.

    Requirements have their native operators. Left out, since no review carries them: the path of
    a check on a resource, and whether a selector did not parse, except for the action itself.
    """

    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    path: str
    is_resource: bool
    fields: tuple[tuple[str, str, str], ...] = ()
    labels: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    has_unparsed_selector: bool = False


class Check(NamedTuple):
    """A question about a user."""

    user: UserInfo
    question: Question


class Account(NamedTuple):
    """Everything that can be observed of one request.

    `status` 200 with `ran_as` means that the request went on. `body` is empty then.
    """

    status: int
    body: str = ""
    forbids_guessing: bool = False
    read: ReadHead | None = None
    action: Question | None = None
    is_long_running: bool = False
    checks: tuple[Check, ...] = ()
    ran_as: UserInfo | None = None
    constraint: str = ""


def native_account(outcome: Outcome) -> Account:
    """Return what the API server's code did with a request."""
    attributes = outcome["attributes"]
    ran_as = outcome["ranAs"]
    read = outcome["read"]
    return Account(
        status=outcome["status"],
        body=outcome["body"],
        forbids_guessing=outcome["noSniff"],
        read=None if read is None else _read_head(read),
        action=None if attributes is None else _question(attributes),
        is_long_running=outcome["longRunning"],
        checks=tuple(_check(check) for check in outcome["checks"] or ()),
        ran_as=None if ran_as is None else _identity(ran_as),
        constraint=outcome["constraint"],
    )


def group_headers(headers: Iterable[Header]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return header lines as Go keeps them: without those it acts on and keeps elsewhere."""
    grouped: dict[str, list[str]] = {}
    for name, value in headers:
        canonical = "-".join(part.capitalize() for part in name.decode().split("-"))
        if canonical not in _KEPT_ELSEWHERE:
            grouped.setdefault(canonical, []).append(value.decode("utf-8", "surrogateescape"))
    return tuple((name, tuple(grouped[name])) for name in sorted(grouped))


def _read_head(read: NativeHead) -> ReadHead:
    headers = tuple((entry["name"], tuple(entry["values"])) for entry in read["headers"])
    return ReadHead(read["method"], read["requestURI"], headers)


def _check(check: NativeCheck) -> Check:
    question = _question(check)._replace(has_unparsed_selector=False)
    if question.is_resource:
        question = question._replace(path="")
    return Check(_identity(check["user"]), question)


def _question(attributes: Attributes) -> Question:
    fields = attributes["fields"]
    labels = attributes["labels"]
    return Question(
        verb=attributes["verb"],
        group=attributes["group"],
        version=attributes["version"],
        resource=attributes["resource"],
        subresource=attributes["subresource"],
        namespace=attributes["namespace"],
        name=attributes["name"],
        path=attributes["path"],
        is_resource=attributes["isResource"],
        fields=tuple((one["key"], one["operator"], one["value"]) for one in fields or ()),
        labels=tuple((one["key"], one["operator"], tuple(one["values"])) for one in labels or ()),
        has_unparsed_selector=attributes["fieldsError"] or attributes["labelsError"],
    )


def _identity(identity: NativeIdentity) -> UserInfo:
    return UserInfo(
        name=identity["name"],
        uid=identity["uid"],
        groups=tuple(identity["groups"]),
        extra=tuple((entry["name"], tuple(entry["values"])) for entry in identity["extra"]),
    )
