"""The tour's second chapter: the KEP's Story 1, an agent that acts as the node it runs on."""

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


def node_agent(stage: TourEnvironment, target: TourServer) -> Chapter:
    """An agent acts as the node it runs on, and as no other."""
    list_as_node = _list_as_node(stage, target)
    refused = replace(list_as_node, allowed=False, granted=(), note="")
    return Chapter(
        "Story 1: a node agent acts as its own node",
        "A DaemonSet's pods share one service account. It may act as the node it runs on, to get "
        "and list pods, and holds no other right. "
        f"Played {stage.place(target)}.",
        [
            *_within_the_grant(list_as_node, refused),
            *_beyond_the_action(refused),
            *_beyond_the_node(refused, stage.people.other_agent),
            *_only_legacy_is_left(refused, stage),
        ],
    )


def _list_as_node(stage: TourEnvironment, target: TourServer) -> Step:
    agent = stage.people.agent
    return Step(
        story="The agent lists the pods of its node, as that node.",
        sender=agent,
        request=stage.kubectl("get", "--raw", PODS_OF_NODE_1),
        impersonation=ImpersonationRequest(NODE_1.username),
        target=target,
        allowed=True,
        shows='"name":"web-1"',
        granted=(
            ReviewedPermission(agent, "impersonate-on:associated-node:list", "pods"),
            _is_its_node(agent),
        ),
        note="its token says that it runs on node-1",
    )


def _within_the_grant(list_as_node: Step, refused: Step) -> list[Step]:
    agent = refused.sender
    get = "impersonate-on:associated-node:get"
    return [
        replace(
            refused,
            story="The agent lists the pods of its node, as itself.",
            impersonation=None,
            shows='cannot list resource "pods"',
            missing=(ReviewedPermission(agent, "list", "pods"),),
        ),
        list_as_node,
        replace(
            list_as_node,
            story="The agent gets one pod of its node, as that node.",
            request=HttpRequest(f"{PODS}/web-1"),
            granted=(
                ReviewedPermission(agent, get, "pods", namespace="default"),
                _is_its_node(agent),
                ReviewedPermission(NODE_1, "get", "pods", namespace="default", name="web-1"),
            ),
        ),
    ]


def _beyond_the_action(refused: Step) -> list[Step]:
    delete = "impersonate-on:associated-node:delete"
    return [
        replace(
            refused,
            story="The agent gets a pod of another node, as its own.",
            request=HttpRequest(f"{PODS}/web-2"),
            shows='User "system:node:node-1" cannot get resource "pods"',
            granted=(_is_its_node(refused.sender),),
            missing=(ReviewedPermission(NODE_1, "get", "pods", namespace="default", name="web-2"),),
        ),
        replace(
            refused,
            story="The agent deletes a pod of its node, as that node.",
            request=HttpRequest(f"{PODS}/web-1", method="DELETE"),
            shows=f'cannot {delete} resource "pods"',
            granted=(
                ReviewedPermission(NODE_1, "delete", "pods", namespace="default", name="web-1"),
            ),
            missing=(ReviewedPermission(refused.sender, delete, "pods", namespace="default"),),
        ),
    ]


def _beyond_the_node(refused: Step, other_agent: TourUser) -> list[Step]:
    return [
        replace(
            refused,
            story="The agent acts as another node.",
            impersonation=ImpersonationRequest("system:node:node-2"),
            shows=f'cannot {ARBITRARY_LIST} resource "pods"',
            missing=(ReviewedPermission(refused.sender, ARBITRARY_LIST, "pods"),),
            note="it does not run on node-2, so only a grant for arbitrary nodes would do",
        ),
        replace(
            refused,
            story="Another pod of the same service account, on node-2, acts as node-1.",
            sender=other_agent,
            shows=f'cannot {ARBITRARY_LIST} resource "pods"',
            missing=(ReviewedPermission(other_agent, ARBITRARY_LIST, "pods"),),
            note="its token says that it runs on node-2",
        ),
    ]


def _only_legacy_is_left(refused: Step, stage: TourEnvironment) -> list[Step]:
    legacy = ReviewedPermission(refused.sender, "impersonate", "users", name=NODE_1.username)
    return [
        replace(
            refused,
            story="The agent gives its node a group.",
            impersonation=ImpersonationRequest(NODE_1.username, ("dev",)),
            shows='cannot impersonate resource "users"',
            missing=(legacy,),
            note="constrained modes take a node as it is; what is left is legacy impersonation",
        ),
        replace(
            refused,
            story="The first list again, asked of the cluster without the feature.",
            target=stage.plain,
            shows='cannot impersonate resource "users"',
            missing=(legacy,),
            note="there, impersonation is all or nothing",
        ),
    ]


def _is_its_node(agent: TourUser) -> ReviewedPermission:
    return ReviewedPermission(
        agent, "impersonate:associated-node", "nodes", group="authentication.k8s.io"
    )
