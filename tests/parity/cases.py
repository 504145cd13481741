"""What is asked of both sides: sets of callers with their rights, and the requests they send.

Everything here is a plan: names hold placeholders (see `renaming`), and nothing has been sent.
"""

from dataclasses import dataclass
from enum import StrEnum

from tests.parity.policies import NO_POLICY, Policy
from tests.parity.renaming import TOKEN_USER

Header = tuple[bytes, bytes]

NAMESPACE = "parity"


@dataclass(frozen=True, slots=True)
class RbacRule:
    """A rule of a role. With `paths` it is about paths, otherwise about resources."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def manifest(self) -> dict[str, list[str]]:
        """Return it as it stands in a role."""
        if self.paths:
            return {"verbs": list(self.verbs), "nonResourceURLs": list(self.paths)}
        rule = {
            "verbs": list(self.verbs),
            "apiGroups": list(self.groups),
            "resources": list(self.resources),
        }
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


class Half(StrEnum):
    """Which authorizer decides on both sides."""

    RBAC = "rbac"
    WEBHOOK = "webhook"


class CallerKind(StrEnum):
    """How a caller proves who it is."""

    CERTIFICATE = "certificate"
    STATIC_TOKEN = "static-token"
    SERVICE_ACCOUNT = "service-account"
    POD = "pod"
    """A service account whose token is bound to a Pod on a Node."""
    NOBODY = "nobody"
    """Shows a token that nobody issued."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a caller is allowed: as RBAC rules in one half, as a webhook's policy in the other."""

    cluster_rules: tuple[RbacRule, ...] = ()
    namespaced_rules: tuple[RbacRule, ...] = ()
    """Hold in `NAMESPACE` only."""
    is_bound_to_missing_role: bool = False
    policy: Policy = NO_POLICY


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who sends requests. For a service account `name` is its short name."""

    name: str
    kind: CallerKind = CallerKind.CERTIFICATE
    groups: tuple[str, ...] = ()
    uid: str | None = None
    node: str = ""
    """Of a pod: where it runs."""
    rights: Rights = Rights()

    @property
    def username(self) -> str:
        """The name an authorizer sees."""
        match self.kind:
            case CallerKind.SERVICE_ACCOUNT | CallerKind.POD:
                return f"system:serviceaccount:{NAMESPACE}:{self.name}"
            case CallerKind.STATIC_TOKEN:
                return TOKEN_USER
            case _:
                return self.name


@dataclass(frozen=True, slots=True)
class Case:
    """One request of one caller."""

    caller: Caller
    method: bytes = b"GET"
    target: bytes = b"/api/v1/pods"
    headers: tuple[Header, ...] = ()
    body: bytes | None = None
    row: str = ""
    """The row of the table of check counts that this case is to show, if it was made for one."""
    checks: int | None = None
    """How many checks that row promises."""


@dataclass(frozen=True, slots=True)
class CaseSet:
    """Requests in the order in which both sides get them, and who may send which.

    `steady` cases may build on each other. Each of the `lonely` ones has a caller of its own,
    because what it leaves behind in a server's memory is not the same on both sides.
    """

    half: Half
    steady: tuple[Case, ...]
    lonely: tuple[Case, ...] = ()

    @property
    def cases(self) -> tuple[Case, ...]:
        """All of them, in order."""
        return self.steady + self.lonely

    @property
    def callers(self) -> tuple[Caller, ...]:
        """Everyone who sends something, each once, in order of appearance."""
        return tuple(dict.fromkeys(case.caller for case in self.cases))

    def split(self) -> tuple["CaseSet", "CaseSet"]:
        """Return two sets with half of the callers each, and all that each of them sends."""
        first = frozenset(self.callers[::2])
        return self._of(first), self._of(frozenset(self.callers) - first)

    def _of(self, callers: frozenset[Caller]) -> "CaseSet":
        return CaseSet(
            self.half,
            tuple(case for case in self.steady if case.caller in callers),
            tuple(case for case in self.lonely if case.caller in callers),
        )
