"""The tour's machinery: requests that are asked for real, and the grants that decided them.

A step says what must happen and why. It is played against a server, its outcome is compared with
what was promised, and the reasons are asked of the cluster too, so the tour never tells a story
that is not true. Chapters are in `tour_first_light.py`, `tour_node_agent.py`, `tour_deputy.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Protocol

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import Credential

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class TourServer(Protocol):
    """A server that the tour can be played on: an API server, or the proxy before one."""

    @property
    def url(self) -> str:
        """Where it listens."""
        ...

    @property
    def ca_pem(self) -> bytes:
        """The authority of its certificate."""
        ...

    def client(self, credential: Credential = None) -> ApiClient:
        """Return a client that shows this credential."""
        ...

    def kubeconfig_for(self, credential: Credential, *, name: str = ...) -> Path:
        """Write a kubeconfig and return its path."""
        ...


@dataclass(frozen=True, slots=True)
class TourUser:
    """Someone in the tour: how a sentence calls them, and who they are to the API server."""

    title: str
    username: str
    groups: tuple[str, ...] = ()
    credential: Credential = None


@dataclass(frozen=True, slots=True)
class ImpersonationRequest:
    """The identity that a request asks to act as."""

    username: str
    groups: tuple[str, ...] = ()

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of a plain HTTP request."""
        groups = [("Impersonate-Group", group) for group in self.groups]
        return [("Impersonate-User", self.username), *groups]

    def flags(self) -> list[str]:
        """Return the flags of kubectl."""
        return [f"--as={self.username}", *(f"--as-group={group}" for group in self.groups)]


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What a request came to, and everything it said."""

    allowed: bool
    text: str


class TourRequest(Protocol):
    """One way to ask."""

    def lines(self, wanted: ImpersonationRequest | None) -> list[str]:
        """Return what a person would type or send."""
        ...

    def send(
        self, target: TourServer, sender: TourUser, wanted: ImpersonationRequest | None
    ) -> StepOutcome:
        """Ask, and return what came of it; raise SandboxError when there was no answer."""
        ...


@dataclass(frozen=True, slots=True)
class ReviewedPermission:
    """One permission that someone has, or lacks: a SubjectAccessReview."""

    user: TourUser
    verb: str
    resource: str
    _: KW_ONLY
    group: str = ""
    namespace: str = ""
    name: str = ""

    def describe(self) -> str:
        """Return the permission in words."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f' "{self.name}"' if self.name else ""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{name}{place}"

    def check(self, admin: ApiClient) -> tuple[bool, str]:
        """Return whether it is granted, and the authorizer's reason."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": self.user.username,
                "groups": [*self.user.groups, "system:authenticated"],
                "resourceAttributes": attributes,
            },
        }
        status = admin.call("POST", REVIEWS, body=review)["status"]
        return status["allowed"], status.get("reason", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request with its promised outcome."""

    story: str
    """What is asked, in a sentence."""
    sender: TourUser
    request: TourRequest
    impersonation: ImpersonationRequest | None = None
    target: TourServer
    allowed: bool
    shows: str
    """Text that the answer must contain: proof that it is the answer we mean."""
    granted: tuple[ReviewedPermission, ...] = ()
    """Permissions that exist, and together explain an allowed request."""
    missing: tuple[ReviewedPermission, ...] = ()
    """Permissions that do not exist; any of them explains a denied request."""
    note: str = ""
    """A reason that is not a grant."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """Steps that tell one story."""

    title: str
    opening: str
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True)
class Reason:
    """A permission with what the cluster says about it."""

    permission: ReviewedPermission
    granted_by: str | None
    """None: nothing grants it."""


class TourPrinter(Protocol):
    """Whoever tells the tour to a person."""

    def open_chapter(self, chapter: Chapter) -> None:
        """Tell that a chapter begins."""
        ...

    def print_step(
        self, number: int, step: Step, outcome: StepOutcome, reasons: list[Reason]
    ) -> None:
        """Tell a step that went as promised."""
        ...


class TourFailed(SandboxError):
    """A step of the tour did not go as it must."""


def run_tour(chapters: Iterable[Chapter], *, admin: ApiClient, narrator: TourPrinter) -> int:
    """Play every step and return their number; raise TourFailed at the first wrong one."""
    number = 0
    for chapter in chapters:
        narrator.open_chapter(chapter)
        for step in chapter.steps:
            number += 1
            outcome, reasons = _play_step(number, step, admin)
            narrator.print_step(number, step, outcome, reasons)
    return number


def _play_step(number: int, step: Step, admin: ApiClient) -> tuple[StepOutcome, list[Reason]]:
    place = f"step {number} ({step.story.rstrip('.')})"
    outcome = step.request.send(step.target, step.sender, step.impersonation)
    if outcome.allowed != step.allowed:
        promised, came = ("allowed", "denied") if step.allowed else ("denied", "allowed")
        raise TourFailed(f"{place} must be {promised} but was {came}: {_one_line(outcome.text)}")
    if step.shows not in outcome.text:
        raise TourFailed(f"{place} must show {step.shows!r} but says {_one_line(outcome.text)}")
    return outcome, [
        *(_confirm(place, permission, admin, is_granted=True) for permission in step.granted),
        *(_confirm(place, permission, admin, is_granted=False) for permission in step.missing),
    ]


def _confirm(
    place: str, permission: ReviewedPermission, admin: ApiClient, *, is_granted: bool
) -> Reason:
    allowed, reason = permission.check(admin)
    if allowed != is_granted:
        must = "must be granted but is not" if is_granted else "must not be granted but is"
        raise TourFailed(f"{place}: {permission.describe()} {must}: {reason or 'no reason given'}")
    return Reason(permission, reason if allowed else None)


def _one_line(text: str) -> str:
    return " ".join(text.split())
