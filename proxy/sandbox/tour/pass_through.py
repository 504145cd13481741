"""The tour's first chapter: requests without impersonation, through the proxy."""

from dataclasses import replace

from proxy.sandbox.tour.environment import TourEnvironment
from proxy.sandbox.tour.requests import HttpRequest
from proxy.sandbox.tour.runner import (
    Chapter,
    ReviewedPermission,
    Step,
    TourUser,
)

WHO_AM_I = HttpRequest(
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    method="POST",
    body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
)


def first_light(stage: TourEnvironment) -> Chapter:
    """Callers reach the API server through Understudy and are nobody but themselves there."""
    alice, robot = stage.people.alice, stage.people.robot
    steps = [
        *_themselves(stage, alice, "a client certificate"),
        *_themselves(stage, robot, "a service account's token"),
        Step(
            story="The robot asks who it is there: the proxy's own identity shows nowhere.",
            sender=robot,
            request=WHO_AM_I,
            target=stage.understudy,
            allowed=True,
            shows=f'"username":"{robot.username}"',
            note="the proxy acts as the caller it authenticated, with every group and extra",
        ),
    ]
    return Chapter(
        "First light: through Understudy, as yourself",
        "The API server behind it has no constrained impersonation. Certificates are verified by "
        "Understudy, tokens by a TokenReview, and each request runs as its caller.",
        steps,
    )


def _themselves(stage: TourEnvironment, person: TourUser, credential: str) -> list[Step]:
    version = Step(
        story=f"{_name(person)}, with {credential}, asks for the version.",
        sender=person,
        request=stage.kubectl("get", "--raw", "/version"),
        target=stage.understudy,
        allowed=True,
        shows='"gitVersion"',
        note="everybody who is authenticated may",
    )
    return [
        version,
        replace(
            version,
            story=f"{_name(person)} lists pods.",
            request=stage.kubectl("get", "pods"),
            shows="web-1",
            granted=(ReviewedPermission(person, "list", "pods", namespace="default"),),
            note="",
        ),
        replace(
            version,
            story=f"{_name(person)} lists secrets.",
            request=stage.kubectl("get", "secrets"),
            allowed=False,
            shows=f'User "{person.username}" cannot list resource "secrets"',
            missing=(ReviewedPermission(person, "list", "secrets", namespace="default"),),
            note="",
        ),
    ]


def _name(person: TourUser) -> str:
    return person.title[0].upper() + person.title[1:]
