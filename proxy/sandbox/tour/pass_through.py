"""The first chapter of the demo: requests through the proxy without impersonation."""

from dataclasses import replace

from proxy.sandbox.tour.environment import TourEnvironment
from proxy.sandbox.tour.requests import HttpRequest
from proxy.sandbox.tour.runner import (
    Chapter,
    ReviewedPermission,
    Step,
    TourUser,
)

SELF_SUBJECT_REVIEW = HttpRequest(
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    method="POST",
    body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
)


def pass_through(environment: TourEnvironment) -> Chapter:
    """Return the chapter about requests that are forwarded as their caller."""
    alice, robot = environment.users.alice, environment.users.robot
    steps = [
        *_requests_of(environment, alice, "a client certificate"),
        *_requests_of(environment, robot, "a service account token"),
        Step(
            description="The robot creates a SelfSubjectReview: it contains nothing of the proxy.",
            sender=robot,
            request=SELF_SUBJECT_REVIEW,
            target=environment.understudy,
            allowed=True,
            expected_text=f'"username":"{robot.username}"',
            note="the proxy impersonates the authenticated caller, with every group and extra",
        ),
    ]
    return Chapter(
        "Pass-through: requests without impersonation",
        "The upstream API server has no constrained impersonation. Understudy verifies client "
        "certificates itself and tokens by a TokenReview, and forwards each request as its caller.",
        steps,
    )


def _requests_of(environment: TourEnvironment, user: TourUser, credential: str) -> list[Step]:
    version = Step(
        description=f"{_capitalized_title(user)}, with {credential}, gets the version.",
        sender=user,
        request=environment.kubectl("get", "--raw", "/version"),
        target=environment.understudy,
        allowed=True,
        expected_text='"gitVersion"',
        note="every authenticated user may",
    )
    return [
        version,
        replace(
            version,
            description=f"{_capitalized_title(user)} lists pods.",
            request=environment.kubectl("get", "pods"),
            expected_text="web-1",
            granted=(ReviewedPermission(user, "list", "pods", namespace="default"),),
            note="",
        ),
        replace(
            version,
            description=f"{_capitalized_title(user)} lists secrets.",
            request=environment.kubectl("get", "secrets"),
            allowed=False,
            expected_text=f'User "{user.username}" cannot list resource "secrets"',
            missing=(ReviewedPermission(user, "list", "secrets", namespace="default"),),
            note="",
        ),
    ]


def _capitalized_title(user: TourUser) -> str:
    return user.title[0].upper() + user.title[1:]
