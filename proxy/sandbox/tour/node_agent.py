"""The second chapter of the demo: Story 1 of the KEP, an agent that impersonates its own node."""

from dataclasses import replace

from proxy.sandbox.tour.environment import TourEnvironment
from proxy.sandbox.tour.requests import HttpRequest
from proxy.sandbox.tour.runner import (
    Chapter,
    ImpersonationRequest,
    ReviewedPermission,
    Step,
    TourServer,
    TourUser,
)

PODS = "/api/v1/namespaces/default/pods"
PODS_OF_NODE_1 = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1"
NODE_1 = TourUser("node-1", "system:node:node-1", ("system:nodes",))
ARBITRARY_LIST = "impersonate-on:arbitrary-node:list"


def node_agent(environment: TourEnvironment, target: TourServer) -> Chapter:
    """Return the chapter about an agent that may only impersonate the node it runs on."""
    list_as_node = _list_as_node(environment, target)
    denied = replace(list_as_node, allowed=False, granted=(), note="")
    return Chapter(
        "Story 1: a node agent impersonates its own node",
        "A DaemonSet's pods share one service account. It may impersonate the node it runs on, to "
        "get and list pods, and has no other permission. "
        f"Requests are sent {environment.describe_target(target)}.",
        [
            *_within_the_grant(list_as_node, denied),
            *_beyond_the_action(denied),
            *_beyond_the_node(denied, environment.users.other_agent),
            *_legacy_only(denied, environment),
        ],
    )


def _list_as_node(environment: TourEnvironment, target: TourServer) -> Step:
    agent = environment.users.agent
    return Step(
        description="The agent, impersonating its node, lists the pods of the node.",
        sender=agent,
        request=environment.kubectl("get", "--raw", PODS_OF_NODE_1),
        impersonation=ImpersonationRequest(NODE_1.username),
        target=target,
        allowed=True,
        expected_text='"name":"web-1"',
        granted=(
            ReviewedPermission(agent, "impersonate-on:associated-node:list", "pods"),
            _impersonates_its_node(agent),
        ),
        note="the agent's token states that it runs on node-1",
    )


def _within_the_grant(list_as_node: Step, denied: Step) -> list[Step]:
    agent = denied.sender
    get = "impersonate-on:associated-node:get"
    return [
        replace(
            denied,
            description="The agent lists the pods of its node without impersonation.",
            impersonation=None,
            expected_text='cannot list resource "pods"',
            missing=(ReviewedPermission(agent, "list", "pods"),),
        ),
        list_as_node,
        replace(
            list_as_node,
            description="The agent, impersonating its node, gets one pod of the node.",
            request=HttpRequest(f"{PODS}/web-1"),
            granted=(
                ReviewedPermission(agent, get, "pods", namespace="default"),
                _impersonates_its_node(agent),
                ReviewedPermission(NODE_1, "get", "pods", namespace="default", name="web-1"),
            ),
        ),
    ]


def _beyond_the_action(denied: Step) -> list[Step]:
    delete = "impersonate-on:associated-node:delete"
    return [
        replace(
            denied,
            description="The agent, impersonating its node, gets a pod of another node.",
            request=HttpRequest(f"{PODS}/web-2"),
            expected_text='User "system:node:node-1" cannot get resource "pods"',
            granted=(_impersonates_its_node(denied.sender),),
            missing=(ReviewedPermission(NODE_1, "get", "pods", namespace="default", name="web-2"),),
        ),
        replace(
            denied,
            description="The agent, impersonating its node, deletes a pod of the node.",
            request=HttpRequest(f"{PODS}/web-1", method="DELETE"),
            expected_text=f'cannot {delete} resource "pods"',
            granted=(
                ReviewedPermission(NODE_1, "delete", "pods", namespace="default", name="web-1"),
            ),
            missing=(ReviewedPermission(denied.sender, delete, "pods", namespace="default"),),
        ),
    ]


def _beyond_the_node(denied: Step, other_agent: TourUser) -> list[Step]:
    return [
        replace(
            denied,
            description="The agent impersonates another node.",
            impersonation=ImpersonationRequest("system:node:node-2"),
            expected_text=f'cannot {ARBITRARY_LIST} resource "pods"',
            missing=(ReviewedPermission(denied.sender, ARBITRARY_LIST, "pods"),),
            note="the agent does not run on node-2, so it needs a grant for arbitrary nodes",
        ),
        replace(
            denied,
            description="Another pod of the same service account, on node-2, impersonates node-1.",
            sender=other_agent,
            expected_text=f'cannot {ARBITRARY_LIST} resource "pods"',
            missing=(ReviewedPermission(other_agent, ARBITRARY_LIST, "pods"),),
            note="the token of this pod states that it runs on node-2",
        ),
    ]


def _legacy_only(denied: Step, environment: TourEnvironment) -> list[Step]:
    legacy = ReviewedPermission(denied.sender, "impersonate", "users", name=NODE_1.username)
    return [
        replace(
            denied,
            description="The agent impersonates its node and adds a group.",
            impersonation=ImpersonationRequest(NODE_1.username, ("dev",)),
            expected_text='cannot impersonate resource "users"',
            missing=(legacy,),
            note="constrained modes allow no groups for a node; only legacy impersonation remains",
        ),
        replace(
            denied,
            description="The first list again, sent to the API server without the feature.",
            target=environment.plain,
            expected_text='cannot impersonate resource "users"',
            missing=(legacy,),
            note="that API server supports unrestricted impersonation only",
        ),
    ]


def _impersonates_its_node(agent: TourUser) -> ReviewedPermission:
    return ReviewedPermission(
        agent, "impersonate:associated-node", "nodes", group="authentication.k8s.io"
    )
