"""A denied request, its neighbours, and the grant that explain prints: before it and after it."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from proxy.core.impersonation.policy import validate_extra
from proxy.core.userinfo import MASTERS, UserInfo
from proxy.sandbox.api_client import ApiClient, APIResponse, Manifest
from proxy.sandbox.objects import create_namespace, path_of
from tests.explain_parity.command import Desk, Document
from tests.explain_parity.neighbours import Question, neighbours
from tests.support.impersonation import REVIEWS, is_refused_impersonation, poll

Send = Callable[[Question], APIResponse]

# What explain says when no grant helps, and what must be so if it is right.
HOPELESS: dict[str, Callable[[Question], bool]] = {
    "the system:masters group": lambda question: MASTERS in question.wanted_user.groups,
    "the empty string group": lambda question: "" in question.wanted_user.groups,
    " in extra is not allowed": lambda question: (
        validate_extra(question.wanted_user.extra) is not None
    ),
    "no constrained mode applies": lambda question: (
        question.wanted_user.name.startswith(("system:node:", "system:serviceaccount:"))
        and not question.wanted_user.has_only_name
    ),
    "a rule for a group called *": lambda question: "*" in question.wanted_user.groups,
    "a rule for a resource or an API group called *": lambda question: (
        "*" in {question.request_info.group, question.request_info.resource}
    ),
    "a rule for the path": lambda question: question.path.endswith(b"*"),
    "there can be no role in a namespace called": lambda question: (
        re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", question.request_info.namespace) is None
    ),
}


@dataclass(slots=True)
class Tally:
    """What was seen so far."""

    fixed: int = 0
    hopeless: Counter[str] = field(default_factory=Counter)
    neighbours: Counter[str] = field(default_factory=Counter)
    """Stayed denied, by what is different there."""
    opened: int = 0
    """Became allowed because all that they had lacked was in the grant."""

    def __str__(self) -> str:
        return (
            f"{self.fixed} fixed, {sum(self.hopeless.values())} hopeless {dict(self.hopeless)}, "
            f"{self.neighbours.total()} neighbours stayed denied {dict(self.neighbours)}, "
            f"{self.opened} had lacked nothing else"
        )


@dataclass(frozen=True, slots=True)
class Bench:
    """Where trials are held: the cluster behind the proxy, and where advice is asked for."""

    admin: ApiClient
    desk: Desk
    tally: Tally

    def hold(self, caller: UserInfo, question: Question, send: Send, *, has_rights: bool) -> None:
        """Try one request that the proxy denies, and fail if the advice was wrong."""
        told = self._explain(caller, question)
        assert not told["mayAct"], (question, told)
        response = send(question)
        assert told["answer"]["message"] == response.json()["message"], (
            told["answer"],
            response.body,
        )
        opened = self.tally.opened
        self.judge(caller, question, send, told)
        assert has_rights or self.tally.opened == opened, (question, told["grant"])

    def judge(self, caller: UserInfo, question: Question, send: Send, told: Document) -> None:
        """Hold what was told against what happens."""
        if not told["grant"]:
            self._check_hopeless(question, told)
            return
        beside = {
            what: one
            for what, one in neighbours(question).items()
            if is_refused_impersonation(send(one))
        }
        lacking = {what: self._lacking(caller, one) for what, one in beside.items()}
        check_constrained(told["grant"])
        self._apply(told)

        after = send(question)

        assert not is_refused_impersonation(after), (question, told["grant"], after.body)
        self.tally.fixed += 1
        granted = _checks(told)
        for what, one in beside.items():
            if is_refused_impersonation(send(one)):
                self.tally.neighbours[what] += 1
                continue
            # RBAC is a union: whoever lacked nothing but what was just granted has it now.
            assert lacking[what], (what, one, told["grant"])
            assert lacking[what] <= granted, (what, one, told["grant"])
            self.tally.opened += 1

    def _explain(self, caller: UserInfo, question: Question) -> Document:
        return self.desk.explain(caller, question.wanted_user, question.method, question.target)

    def _lacking(self, caller: UserInfo, question: Question) -> frozenset[str]:
        return _checks(self._explain(caller, question))

    def _check_hopeless(self, question: Question, told: Document) -> None:
        reason = told["noGrant"]
        kind = next((kind for kind in HOPELESS if kind in reason), None)
        assert kind is not None, told
        assert HOPELESS[kind](question), (question, told)
        self.tally.hopeless[kind.strip()] += 1

    def _apply(self, told: Document) -> None:
        for namespace in {one["metadata"].get("namespace") for one in told["grant"]} - {None}:
            if self.admin.request("GET", f"/api/v1/namespaces/{namespace}").status == 404:
                create_namespace(self.admin, namespace)
        for manifest in told["grant"]:
            collection = path_of(manifest).rpartition("/")[0]
            response = self.admin.request("POST", collection, body=manifest)
            assert response.status == 201, (manifest, response.body)
        for review in _missing(told):
            poll(partial(self._is_allowed, review), f"not seen: {review}")

    def _is_allowed(self, review: Document) -> bool:
        answer = self.admin.call("POST", REVIEWS, body=_as_review(review))
        return bool(answer["status"]["allowed"])


def check_constrained(grant: Sequence[Manifest]) -> None:
    """Fail if a grant holds the unrestricted verb, a star, or anything else than it must."""
    for role in grant:
        for rule in role.get("rules", ()):
            assert "impersonate" not in rule["verbs"], grant
            assert all(verb.startswith("impersonate") for verb in rule["verbs"]), grant
            for part in ("verbs", "apiGroups", "resources"):
                assert "*" not in rule.get(part, ()), grant


def _missing(told: Document) -> list[Document]:
    """Return the reviews of the grant's mode that were answered with no, stars left out."""
    (trial,) = [one for one in told["modes"] if one["mode"] == told["grantMode"]]
    reviews: list[Document] = [*trial["reviews"], *trial["neededBeyond"]]
    return [one for one in reviews if not one["allowed"] and not _is_star(one)]


def _is_star(review: Document) -> bool:
    attributes = review["attributes"]
    return attributes.get("name") == "*" and attributes.get("resource") in {"groups", "userextras"}


def _checks(told: Document) -> frozenset[str]:
    if told["grantMode"] is None:
        return frozenset()
    # RBAC is blind for selectors and versions.
    unseen = ("fieldSelector", "labelSelector", "version")
    return frozenset(
        repr({key: value for key, value in one["attributes"].items() if key not in unseen})
        for one in _missing(told)
    )


def _as_review(review: Document) -> Document:
    attributes, user = dict(review["attributes"]), review["user"]
    for selector in ("fieldSelector", "labelSelector"):
        attributes.pop(selector, None)
    about = "nonResourceAttributes" if "path" in attributes else "resourceAttributes"
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user["username"],
            "groups": user["groups"],
            "extra": user["extra"],
            about: attributes,
        },
    }
