"""The third chapter of the demo: Story 2 of the KEP, a deputy that opens consoles for users."""

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


def deputy(environment: TourEnvironment, target: TourServer) -> Chapter:
    """Return the chapter about a deputy that may only open consoles for users."""
    as_alice = _console_for_alice(environment, target)
    denied = replace(as_alice, allowed=False, granted=())
    return Chapter(
        "Story 2: a deputy opens virtual machine consoles for its users",
        "The deputy may impersonate any user, but only to get consoles in the namespace default. "
        "It cannot do anything that the impersonated user may not do. "
        f"Requests are sent {environment.describe_target(target)}.",
        [
            *_within_the_grant(as_alice, denied),
            *_beyond_the_user(denied, environment.users.bob),
            *_beyond_the_action(denied, environment.users.alice),
            *_beyond_the_identity(denied),
        ],
    )


def _console_for_alice(environment: TourEnvironment, target: TourServer) -> Step:
    sender, alice = environment.users.deputy, environment.users.alice
    return Step(
        description="The deputy, impersonating alice, gets a console.",
        sender=sender,
        request=environment.kubectl("get", "--raw", CONSOLE.format("default")),
        impersonation=ImpersonationRequest("alice"),
        target=target,
        allowed=True,
        expected_text='"x-remote-user": ["alice"]',
        granted=(
            _console(sender, ON_GET),
            _impersonates(sender, "users", "alice"),
            _console(alice, "get"),
        ),
    )


def _within_the_grant(as_alice: Step, denied: Step) -> list[Step]:
    return [
        replace(
            denied,
            description="The deputy gets a console without impersonation.",
            impersonation=None,
            expected_text='cannot get resource "virtualmachines/console"',
            missing=(_console(denied.sender, "get"),),
        ),
        as_alice,
        replace(
            as_alice,
            description="The deputy, impersonating alice, opens the console and sends a command.",
            request=ConsoleRequest(CONSOLE.format("default")),
            expected_text='"echo": "uname -a"',
        ),
    ]


def _beyond_the_user(denied: Step, bob: TourUser) -> list[Step]:
    return [
        replace(
            denied,
            description="The deputy, impersonating bob, gets a console.",
            impersonation=ImpersonationRequest("bob"),
            expected_text='User "bob" cannot get resource "virtualmachines/console"',
            granted=(_console(denied.sender, ON_GET), _impersonates(denied.sender, "users", "bob")),
            missing=(_console(bob, "get"),),
        )
    ]


def _beyond_the_action(denied: Step, alice: TourUser) -> list[Step]:
    sender = denied.sender
    return [
        replace(
            denied,
            description="The deputy, impersonating alice, lists pods.",
            request=HttpRequest(PODS),
            expected_text=f'cannot {ON_LIST} resource "pods"',
            granted=(ReviewedPermission(alice, "list", "pods", namespace="default"),),
            missing=(ReviewedPermission(sender, ON_LIST, "pods", namespace="default"),),
        ),
        replace(
            denied,
            description="The deputy, impersonating alice, gets a console in another namespace.",
            request=HttpRequest(CONSOLE.format(OTHER_NAMESPACE)),
            expected_text=f'cannot {ON_GET} resource "virtualmachines/console"',
            granted=(_console(alice, "get", OTHER_NAMESPACE),),
            missing=(_console(sender, ON_GET, OTHER_NAMESPACE),),
        ),
    ]


def _beyond_the_identity(denied: Step) -> list[Step]:
    sender = denied.sender
    return [
        replace(
            denied,
            description="The deputy impersonates alice and adds a group.",
            impersonation=ImpersonationRequest("alice", ("dev",)),
            expected_text='groups.authentication.k8s.io "dev" is forbidden',
            missing=(_impersonates(sender, "groups", "dev"),),
        ),
        replace(
            denied,
            description="The deputy impersonates alice and adds the group system:masters.",
            impersonation=ImpersonationRequest("alice", ("system:masters",)),
            expected_text="impersonating the system:masters group is not allowed",
            note="no constrained grant includes this group, not even the resource name *",
        ),
        replace(
            denied,
            description="The deputy impersonates a service account.",
            impersonation=ImpersonationRequest("system:serviceaccount:default:robot"),
            expected_text="cannot impersonate-on:serviceaccount:get",
            missing=(_console(sender, "impersonate-on:serviceaccount:get"),),
            note="the mode user-info covers users; service accounts and nodes have other modes",
        ),
    ]


def _impersonates(sender: TourUser, resource: str, name: str) -> ReviewedPermission:
    return ReviewedPermission(
        sender, "impersonate:user-info", resource, group="authentication.k8s.io", name=name
    )


def _console(sender: TourUser, verb: str, namespace: str = "default") -> ReviewedPermission:
    return ReviewedPermission(
        sender, verb, "virtualmachines/console", group=GROUP, namespace=namespace
    )
