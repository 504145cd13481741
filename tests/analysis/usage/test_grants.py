"""Migration from legacy impersonation: grants, ungrantable uses and notes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from proxy.analysis.cluster import Cluster, open_cluster
from proxy.analysis.usage.collector import UsageCollector, UsageLimits
from proxy.analysis.usage.events import ASSOCIATED_NODE, UsedRequest
from proxy.analysis.usage.grants import (
    MigrationPlan,
    describe_identity,
    describe_request,
    existing_grants,
    plan_migration,
    required_grants,
)
from proxy.core.userinfo import UserInfo, make_extra
from tests.support.impersonation_events import NODE_KEY, event, usage_of

ROBOT = "system:serviceaccount:ci:robot"


def plan_of(usage: UsageCollector, caller: str = "bob") -> MigrationPlan:
    return plan_migration(caller, usage.impersonators[caller])


def rules(found: MigrationPlan) -> list[tuple[str, ...]]:
    """Return each rule as its scope, its verbs, and its objects and names."""
    grants: list[Any] = found.grants
    return [
        (
            role["metadata"].get("namespace", "*"),
            " ".join(rule["verbs"]),
            " ".join(rule.get("nonResourceURLs") or rule["resources"]),
            " ".join(rule.get("resourceNames", ())),
        )
        for role in grants
        if role["kind"].endswith("Role")
        for rule in role["rules"]
    ]


def test_used_identity_and_used_action_are_granted() -> None:
    usage = usage_of(event(ref={"resource": "pods", "namespace": "web"}))

    assert rules(plan_of(usage)) == [
        ("*", "impersonate:user-info", "users", "alice"),
        ("web", "impersonate-on:user-info:list", "pods", ""),
    ]
    assert plan_of(usage).broken == []


def test_every_identity_and_every_action_is_granted() -> None:
    usage = usage_of(event(), event("carol"), event(verb="watch"))

    assert rules(plan_of(usage)) == [
        ("*", "impersonate-on:user-info:list impersonate-on:user-info:watch", "pods", ""),
        ("*", "impersonate:user-info", "users", "alice carol"),
    ]
    assert any("each of these identities" in note for note in plan_of(usage).notes)


def test_use_of_a_constrained_mode_needs_no_grant() -> None:
    usage = usage_of(event(constraint="impersonate:user-info"))

    assert plan_of(usage) == MigrationPlan()


def test_permission_that_is_already_granted_is_not_granted_again() -> None:
    usage = usage_of(event(), event("carol"), event(verb="watch"))
    bob = usage.impersonators["bob"]
    checks = [check for one in required_grants("bob", bob, MigrationPlan()) for check in one.checks]

    nothing_granted = plan_migration("bob", bob, frozenset())
    all_granted = plan_migration("bob", bob, frozenset(checks))
    some_granted = plan_migration("bob", bob, {one for one in checks if one.name != "carol"})

    assert nothing_granted.missing == [
        "impersonate-on:user-info:list pods",
        "impersonate-on:user-info:watch pods",
        "impersonate:user-info users.authentication.k8s.io alice",
        "impersonate:user-info users.authentication.k8s.io carol",
    ]
    assert nothing_granted.grants == plan_of(usage).grants
    assert (all_granted.missing, all_granted.grants) == ([], [])
    assert some_granted.missing == ["impersonate:user-info users.authentication.k8s.io carol"]
    assert "watch" not in str(some_granted.grants)


def test_request_that_the_target_itself_lacks_permission_for_is_not_granted() -> None:
    usage = usage_of(event(), event("carol", code=403), event(verb="delete", code=403))

    assert rules(plan_of(usage)) == [
        ("*", "impersonate-on:user-info:list", "pods", ""),
        ("*", "impersonate:user-info", "users", "alice"),
    ]


def test_watch_that_has_not_ended_is_granted() -> None:
    usage = usage_of(event(verb="watch", stage="ResponseStarted"))

    assert ("*", "impersonate-on:user-info:watch", "pods", "") in rules(plan_of(usage))


def test_names_are_not_granted_and_discovery_is_granted_by_a_pattern() -> None:
    usage = usage_of(
        event(verb="get", ref={"resource": "pods", "name": "web-1"}),
        event(verb="get", ref={"resource": ""}, uri="/apis/apps/v1?timeout=32s"),
        event(verb="get", ref={"resource": ""}, uri="/version"),
    )

    assert rules(plan_of(usage))[0] == ("*", "impersonate-on:user-info:get", "pods", "")
    assert rules(plan_of(usage))[-1] == (
        "*",
        "impersonate-on:user-info:get",
        "/apis/* /version",
        "",
    )


@pytest.mark.parametrize("verb", ["get", "create"])
def test_streams_are_granted_by_both_verbs(verb: str) -> None:
    usage = usage_of(event(verb=verb, ref={"resource": "pods", "subresource": "exec"}))

    verbs = "impersonate-on:user-info:create impersonate-on:user-info:get"
    assert ("*", verbs, "pods/exec", "") in rules(plan_of(usage))


def test_use_that_no_grant_replaces_has_its_reason_and_remedy() -> None:
    usage = usage_of(
        event("root", groups=("system:masters", "system:authenticated")),
        event("system:node:n1", groups=("system:nodes", "system:authenticated")),
        event(),
    )

    found = plan_of(usage)

    assert [(one.what, one.requests) for one in found.broken] == [
        ("root; groups system:masters", 1),
        ("system:node:n1; groups system:nodes", 1),
    ]
    assert found.broken[0].reason == "impersonating the system:masters group is not allowed"
    assert "by name alone" in found.broken[1].remedy
    assert "root" not in str(found.grants)
    assert '"impersonate"' not in str(found.grants).replace("'", '"')


def test_path_that_only_a_wider_rule_could_name_is_not_granted() -> None:
    usage = usage_of(event(verb="get", ref={"resource": ""}, uri="/odd*"), event())

    assert [one.what for one in plan_of(usage).broken] == ["get /odd*"]
    assert "/odd" not in str(plan_of(usage).grants)


def test_too_many_namespaces_are_granted_as_all_with_a_note() -> None:
    events = [event(ref={"resource": "pods", "namespace": f"n{number}"}) for number in range(4)]

    few = usage_of(*events[:3], limits=UsageLimits(namespaces=3))
    many = usage_of(*events, limits=UsageLimits(namespaces=3))

    assert {scope for scope, *_ in rules(plan_of(few))} == {"*", "n0", "n1", "n2"}
    assert {scope for scope, *_ in rules(plan_of(many))} == {"*"}
    assert any("granted in all: list pods" in note for note in plan_of(many).notes)


def test_other_subresources_and_verbs_are_granted_as_used() -> None:
    usage = usage_of(
        event(verb="get", ref={"subresource": "log"}),
        event(verb="delete", ref={"subresource": "exec"}),
        event(verb="get", ref={"apiGroup": "example.com", "subresource": "exec"}),
    )

    assert "user-info:create" not in str(plan_of(usage).grants)


def test_associated_nodes_are_granted_without_a_name_and_with_a_note() -> None:
    usage = usage_of(
        *(
            event(f"system:node:{node}", caller=ROBOT, user={"extra": {NODE_KEY: [node]}})
            for node in ("n1", "n2")
        )
    )

    plan = plan_of(usage, ROBOT)

    assert rules(plan) == [
        ("*", "impersonate-on:associated-node:list", "pods", ""),
        ("*", "impersonate:associated-node", "nodes", ""),
    ]
    assert any("will have the group system:nodes" in note for note in plan.notes)


def test_requests_over_the_limit_are_in_a_note_and_not_granted() -> None:
    usage = usage_of(
        *(event(f"user-{number}") for number in range(10)), limits=UsageLimits(entries=6)
    )

    plan = plan_of(usage)

    over_limit = usage.impersonators["bob"].over_limit
    assert over_limit > 0
    assert any(note.startswith(f"{over_limit} requests exceed") for note in plan.notes)
    assert "user-9" not in str(plan.grants)


def test_note_names_five_widened_actions_and_counts_the_others() -> None:
    events = [
        event(ref={"resource": f"kind{kind}", "namespace": f"n{number}"})
        for kind in range(7)
        for number in range(2)
    ]

    notes = plan_of(usage_of(*events, limits=UsageLimits(namespaces=1))).notes

    assert notes == [
        "user-info: used in too many namespaces (--namespaces), so granted in all: list kind0, "
        "list kind1, list kind2, list kind3, list kind4, and 2 more"
    ]


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (UserInfo("alice"), "alice"),
        (
            UserInfo("alice", "7", ("a", ""), make_extra({"k": ["v"], "l": ["w"]})),
            'alice; uid 7; groups a, ""; extras k, l',
        ),
        (ASSOCIATED_NODE, "the node it runs on"),
    ],
    ids=["name", "every part", "node"],
)
def test_identity_is_described_in_one_line(user: UserInfo, text: str) -> None:
    assert describe_identity(user) == text


@pytest.mark.parametrize(
    ("request_info", "text"),
    [
        (UsedRequest("get", path="/version"), "/version"),
        (UsedRequest("get", resource="pods"), "pods"),
        (UsedRequest("get", "apps", "deployments", "scale"), "deployments.apps/scale"),
    ],
    ids=["path", "core", "group"],
)
def test_request_is_described_in_the_notation_of_kubectl(
    request_info: UsedRequest, text: str
) -> None:
    assert describe_request(request_info) == text


@asynccontextmanager
async def cluster_that_allows(*names: str) -> AsyncIterator[tuple[Cluster, list[Any]]]:
    """Yield a cluster that allows only checks of members of `ops` for these names, and its log."""
    reviewed: list[Any] = []

    async def review(request: web.Request) -> web.Response:
        spec = (await request.json())["spec"]
        reviewed.append(spec)
        allowed = "ops" in spec["groups"] and spec["resourceAttributes"]["name"] in names
        return web.json_response({"status": {"allowed": allowed}}, status=201)

    app = web.Application()
    app.router.add_post("/{path:.*}", review)
    async with TestServer(app) as server:
        kubeconfig = {
            "current-context": "one",
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": str(server.make_url("/"))[:-1]}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        async with open_cluster(kubeconfig) as cluster:
            yield cluster, reviewed


async def test_existing_grants_are_the_checks_that_the_cluster_allows_with_the_groups() -> None:
    usage = usage_of(
        event(user={"groups": ["ops"]}),
        event("carol", user={"groups": ["ops"]}),
        event(caller="dave"),
    )

    async with cluster_that_allows("alice") as (cluster, reviewed):
        granted = await existing_grants(cluster, usage)

    assert [check.name for check in granted["bob"]] == ["alice"]
    assert granted["dave"] == frozenset()
    assert {(spec["user"], *spec["groups"]) for spec in reviewed} == {("bob", "ops"), ("dave",)}
    plan = plan_migration("bob", usage.impersonators["bob"], granted["bob"])
    assert plan.missing == [
        "impersonate-on:user-info:list pods",
        "impersonate:user-info users.authentication.k8s.io carol",
    ]
