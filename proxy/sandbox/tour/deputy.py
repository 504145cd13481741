"""The tour's third chapter: the KEP's Story 2, a deputy that opens consoles for its users."""

from dataclasses import replace

from proxy.sandbox.aggregated.server import GROUP
from proxy.sandbox.tour.environment import OTHER_NAMESPACE, TourEnvironment
from proxy.sandbox.tour.requests import ConsoleRequest, HttpRequest
from proxy.sandbox.tour.runner import (
    Chapter,
    ImpersonationRequest,
    ReviewedPermission,
    Step,
    TourServer,
    TourUser,
)

PODS = "/api/v1/namespaces/default/pods"
CONSOLE = f"/apis/{GROUP}/v1/namespaces/{{}}/virtualmachines/testvm/console"
ON_GET = "impersonate-on:user-info:get"
ON_LIST = "impersonate-on:user-info:list"


def deputy(stage: TourEnvironment, target: TourServer) -> Chapter:
    """A deputy opens consoles for users, and does nothing else in their names."""
    as_alice = _console_for_alice(stage, target)
    refused = replace(as_alice, allowed=False, granted=())
    return Chapter(
        "Story 2: a deputy opens virtual machine consoles for its users",
        "The deputy may act as any user, but only to get consoles in the namespace default. What "
        "a user may not do, the deputy cannot do for them either. "
        f"Played {stage.place(target)}.",
        [
            *_within_the_grant(as_alice, refused),
            *_beyond_the_user(refused, stage.people.bob),
            *_beyond_the_action(refused, stage.people.alice),
            *_beyond_the_identity(refused),
        ],
    )


def _console_for_alice(stage: TourEnvironment, target: TourServer) -> Step:
    person, alice = stage.people.deputy, stage.people.alice
    return Step(
        story="For alice, the deputy asks about a console.",
        sender=person,
        request=stage.kubectl("get", "--raw", CONSOLE.format("default")),
        impersonation=ImpersonationRequest("alice"),
        target=target,
        allowed=True,
        shows='"x-remote-user": ["alice"]',
        granted=(_console(person, ON_GET), _is(person, "users", "alice"), _console(alice, "get")),
    )


def _within_the_grant(as_alice: Step, refused: Step) -> list[Step]:
    return [
        replace(
            refused,
            story="The deputy asks about a console, as itself.",
            impersonation=None,
            shows='cannot get resource "virtualmachines/console"',
            missing=(_console(refused.sender, "get"),),
        ),
        as_alice,
        replace(
            as_alice,
            story="For alice, the deputy opens the console and talks to it.",
            request=ConsoleRequest(CONSOLE.format("default")),
            shows='"echo": "uname -a"',
        ),
    ]


def _beyond_the_user(refused: Step, bob: TourUser) -> list[Step]:
    return [
        replace(
            refused,
            story="For bob, the deputy asks about a console.",
            impersonation=ImpersonationRequest("bob"),
            shows='User "bob" cannot get resource "virtualmachines/console"',
            granted=(_console(refused.sender, ON_GET), _is(refused.sender, "users", "bob")),
            missing=(_console(bob, "get"),),
        )
    ]


def _beyond_the_action(refused: Step, alice: TourUser) -> list[Step]:
    person = refused.sender
    return [
        replace(
            refused,
            story="For alice, the deputy lists pods.",
            request=HttpRequest(PODS),
            shows=f'cannot {ON_LIST} resource "pods"',
            granted=(ReviewedPermission(alice, "list", "pods", namespace="default"),),
            missing=(ReviewedPermission(person, ON_LIST, "pods", namespace="default"),),
        ),
        replace(
            refused,
            story="For alice, the deputy asks about a console of another namespace.",
            request=HttpRequest(CONSOLE.format(OTHER_NAMESPACE)),
            shows=f'cannot {ON_GET} resource "virtualmachines/console"',
            granted=(_console(alice, "get", OTHER_NAMESPACE),),
            missing=(_console(person, ON_GET, OTHER_NAMESPACE),),
        ),
    ]


def _beyond_the_identity(refused: Step) -> list[Step]:
    person = refused.sender
    return [
        replace(
            refused,
            story="The deputy puts alice into a group.",
            impersonation=ImpersonationRequest("alice", ("dev",)),
            shows='groups.authentication.k8s.io "dev" is forbidden',
            missing=(_is(person, "groups", "dev"),),
        ),
        replace(
            refused,
            story="The deputy makes alice a cluster administrator.",
            impersonation=ImpersonationRequest("alice", ("system:masters",)),
            shows="impersonating the system:masters group is not allowed",
            note="no constrained grant can give this group, not even a star",
        ),
        replace(
            refused,
            story="The deputy acts as a service account.",
            impersonation=ImpersonationRequest("system:serviceaccount:default:robot"),
            shows="cannot impersonate-on:serviceaccount:get",
            missing=(_console(person, "impersonate-on:serviceaccount:get"),),
            note="user-info is for users; service accounts and nodes have modes of their own",
        ),
    ]


def _is(person: TourUser, resource: str, name: str) -> ReviewedPermission:
    return ReviewedPermission(
        person, "impersonate:user-info", resource, group="authentication.k8s.io", name=name
    )


def _console(person: TourUser, verb: str, namespace: str = "default") -> ReviewedPermission:
    return ReviewedPermission(
        person, verb, "virtualmachines/console", group=GROUP, namespace=namespace
    )
