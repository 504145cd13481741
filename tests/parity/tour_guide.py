"""Callers of the tour, with rights told in words, and a short way to let them ask."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from tests.parity.arena import NODES
from tests.parity.cases import Caller, CallerKind, Case, Half, RbacRule, Rights
from tests.parity.policies import NO, YES, Policy, PolicyRule, Verdict
from tests.parity.renaming import FRESH
from tests.parity.rights import AUTHENTICATION


class Guide:
    """Makes callers that nobody has met yet, and lets them ask."""

    def __init__(self, half: Half) -> None:
        self.half = half
        self._numbers = count()

    def user(self, *allowed: str, name: str = "guest") -> Caller:
        """Return a user with everything these words allow; see `_rights`."""
        return Caller(f"{name}-{next(self._numbers)}-{FRESH}", rights=_rights(self.half, allowed))

    def pod(self, *allowed: str) -> Caller:
        """Return a service account on the first node."""
        return replace(self.user(*allowed, name="pod"), kind=CallerKind.POD, node=NODES[0])

    def denier(self, verdict: Verdict) -> Caller:
        """Return a user to whom a webhook says no in this way."""
        policy = Policy((PolicyRule((verdict,)),))
        return replace(self.user(), rights=Rights(policy=policy))


def ask(
    caller: Caller,
    *headers: tuple[str, str],
    target: str = "/api/v1/pods",
    method: bytes = b"GET",
    row: tuple[str, int] | None = None,
) -> Case:
    """Return a case with header lines as text."""
    lines = tuple((name.encode(), value.encode()) for name, value in headers)
    case = Case(caller, method, target.encode(), lines)
    return case if row is None else replace(case, row=row[0], checks=row[1])


def _rights(half: Half, allowed: tuple[str, ...]) -> Rights:
    """Return rights by words such as `action:MODE`, `identity:MODE:RESOURCE` or `legacy`.

    `each:MODE` is the identity without the star that stands for all of a kind.
    """
    words = [_Word(*word.split(":")) for word in allowed]
    if half is Half.RBAC:
        return Rights(cluster_rules=tuple(rule for word in words for rule in word.rbac_rules()))
    rules = [rule for word in words for rule in word.policy_rules()]
    # The plain verb is the beginning of every other one, so it comes after they are refused.
    rules += [PolicyRule((NO,), "impersonate:"), PolicyRule((NO,), "impersonate-on:")]
    legacy = [
        PolicyRule((YES,), "impersonate", resource=word.resource)
        for word in words
        if word.kind == "legacy"
    ]
    return Rights(policy=Policy((*rules, *legacy)))


class _Word(NamedTuple):
    """One permission of a caller on the tour."""

    kind: str
    mode: str = ""
    resource: str = ""

    def policy_rules(self) -> Iterator[PolicyRule]:
        """Yield what a webhook makes of it."""
        match self.kind:
            case "action":
                yield PolicyRule((YES,), f"impersonate-on:{self.mode}:")
            case "identity":
                yield PolicyRule((YES,), f"impersonate:{self.mode}", resource=self.resource)
            case "each":
                yield PolicyRule((NO,), f"impersonate:{self.mode}", name="*")
                yield PolicyRule((YES,), f"impersonate:{self.mode}")
            case _:
                pass  # legacy comes last, see `_rights`

    def rbac_rules(self) -> Iterator[RbacRule]:
        """Yield what RBAC makes of it."""
        match self.kind:
            case "legacy":
                kinds = ("users", "groups", "serviceaccounts")
                yield RbacRule(
                    ("impersonate",), ("",), (self.resource,) if self.resource else kinds
                )
                if not self.resource:
                    yield RbacRule(("impersonate",), (AUTHENTICATION,), ("*",))
            case "action":
                asked = ("get", "list", "create")
                verbs = tuple(f"impersonate-on:{self.mode}:{verb}" for verb in asked)
                yield RbacRule(verbs, ("*",), ("*",))
                yield RbacRule(verbs, paths=("*",))
            case _:
                resource = self.resource or "*"
                yield RbacRule((f"impersonate:{self.mode}",), (AUTHENTICATION,), (resource,))
