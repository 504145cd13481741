"""The runner of the demo: sends real requests, and verifies the grants that explain the results.

A step states the expected outcome and the grants that explain it. The runner sends its request to a
server, compares the outcome, and verifies the grants by SubjectAccessReviews. The printed text is
therefore always true. The chapters are in `pass_through.py`, `node_agent.py` and `deputy.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Protocol

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import Credential

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class TourServer(Protocol):
    """A server that the demo can use: an API server, or the proxy in front of one."""

    @property
    def url(self) -> str:
        """The URL of the server."""
        ...

    @property
    def ca_pem(self) -> bytes:
        """The CA of its certificate."""
        ...

    def client(self, credential: Credential = None) -> ApiClient:
        """Return a client that uses this credential."""
        ...

    def kubeconfig_for(self, credential: Credential, *, name: str = ...) -> Path:
        """Write a kubeconfig and return its path."""
        ...


@dataclass(frozen=True, slots=True)
class TourUser:
    """A user of the demo: the name in printed texts, and the user info at the API server."""

    title: str
    username: str
    groups: tuple[str, ...] = ()
    credential: Credential = None


@dataclass(frozen=True, slots=True)
class ImpersonationRequest:
    """The user and groups that a request wants to impersonate."""

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
    """The outcome of a request, and the text of its response."""

    allowed: bool
    text: str


class TourRequest(Protocol):
    """One kind of request."""

    def lines(self, wanted: ImpersonationRequest | None) -> list[str]:
        """Return the command or the request as text."""
        ...

    def send(
        self, target: TourServer, sender: TourUser, wanted: ImpersonationRequest | None
    ) -> StepOutcome:
        """Send the request and return its outcome; raise SandboxError without a response."""
        ...


@dataclass(frozen=True, slots=True)
class ReviewedPermission:
    """One permission that a user has or lacks, checked by a SubjectAccessReview."""

    user: TourUser
    verb: str
    resource: str
    _: KW_ONLY
    group: str = ""
    namespace: str = ""
    name: str = ""

    def describe(self) -> str:
        """Return the permission as text."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f' "{self.name}"' if self.name else ""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{name}{place}"

    def check(self, admin: ApiClient) -> tuple[bool, str]:
        """Return whether the permission is granted, and the authorizer's reason."""
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
    """One request with its expected outcome."""

    description: str
    """A sentence that describes the request."""
    sender: TourUser
    request: TourRequest
    impersonation: ImpersonationRequest | None = None
    target: TourServer
    allowed: bool
    expected_text: str
    """Text that the response must contain, to prove that it is the expected one."""
    granted: tuple[ReviewedPermission, ...] = ()
    """Permissions that exist, and together explain an allowed request."""
    missing: tuple[ReviewedPermission, ...] = ()
    """Permissions that do not exist; any of them explains a denied request."""
    note: str = ""
    """A reason that is not a grant."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """The steps of one story."""

    title: str
    introduction: str
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True)
class Reason:
    """A permission with the cluster's reason."""

    permission: ReviewedPermission
    granted_by: str | None
    """None: no grant exists."""


class TourFailed(SandboxError):
    """A step of the demo had an unexpected outcome."""


def run_tour(
    chapters: Iterable[Chapter],
    *,
    admin: ApiClient,
    on_chapter: Callable[[Chapter], None],
    on_step: Callable[[int, Step, StepOutcome, list[Reason]], None],
) -> int:
    """Run every step and return their number; raise TourFailed at the first unexpected outcome.

    `on_chapter` is called before the steps of a chapter, and `on_step` after each step.
    """
    number = 0
    for chapter in chapters:
        on_chapter(chapter)
        for step in chapter.steps:
            number += 1
            outcome, reasons = _run_step(number, step, admin)
            on_step(number, step, outcome, reasons)
    return number


def _run_step(number: int, step: Step, admin: ApiClient) -> tuple[StepOutcome, list[Reason]]:
    place = f"step {number} ({step.description.rstrip('.')})"
    outcome = step.request.send(step.target, step.sender, step.impersonation)
    if outcome.allowed != step.allowed:
        expected, actual = ("allowed", "denied") if step.allowed else ("denied", "allowed")
        raise TourFailed(f"{place} must be {expected} but was {actual}: {_one_line(outcome.text)}")
    if step.expected_text not in outcome.text:
        raise TourFailed(
            f"{place} must show {step.expected_text!r} but shows {_one_line(outcome.text)}"
        )
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
