"""What audit events add up to, and what of it needs which grant."""

from contextlib import suppress
from typing import Any

import pytest

from proxy.analysis.usage.collector import UsageCollector, UsageCount, UsageLimits
from proxy.analysis.usage.events import ASSOCIATED_NODE, UsedRequest
from proxy.analysis.usage.grants import MigrationPlan, plan_migration, required_grants
from proxy.core.audit.annotations import DOMAIN
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.truncation import format_truncated_values, truncated_value
from proxy.core.userinfo import UserInfo

ROBOT = "system:serviceaccount:ci:robot"
LIST_PODS = UsedRequest("list", resource="pods")
NODE_KEY = "authentication.kubernetes.io/node-name"


def event(  # noqa: PLR0913 - each a part of an event
    target: str = "alice",
    *,
    caller: str = "bob",
    groups: tuple[str, ...] = ("system:authenticated",),
    constraint: str = "",
    stage: str = "ResponseComplete",
    code: int = 200,
    verb: str = "list",
    uri: str = "/api/v1/pods",
    **more: Any,
) -> dict[str, Any]:
    reference = {"resource": "pods", **more.pop("ref", {})}
    made: dict[str, Any] = {
        "kind": "Event",
        "stage": stage,
        "verb": verb,
        "requestURI": uri,
        "user": {"username": caller, **more.pop("user", {})},
        "impersonatedUser": {"username": target, "groups": list(groups), **more.pop("became", {})},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": "2026-11-16T04:00:00.000000Z",
        **more,
    }
    if reference["resource"]:
        made["objectRef"] = reference
    if constraint:
        made["authenticationMetadata"] = {"impersonationConstraint": constraint}
    return made


def usage_of(*events: object, limits: UsageLimits | None = None) -> UsageCollector:
    usage = UsageCollector(limits)
    for one in events:
        usage.add(one)
    return usage


def identities(usage: UsageCollector, mode: str, caller: str = "bob") -> dict[UserInfo, UsageCount]:
    return usage.impersonators[caller].modes[mode].identities


def outlook(usage: UsageCollector, caller: str = "bob") -> MigrationPlan:
    return plan_migration(caller, usage.impersonators[caller])


def rules(found: MigrationPlan) -> list[tuple[str, ...]]:
    """Return each rule as its scope, its verbs, and what it is about."""
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


def test_legacy_and_constrained_requests_are_counted_apart() -> None:
    usage = usage_of(
        event(),
        event(code=403),
        event(constraint="impersonate:user-info"),
        event(stage="RequestReceived"),
    )

    assert identities(usage, "user-info") == {UserInfo("alice"): UsageCount(2, 1, 1)}
    assert usage.impersonators["bob"].modes["user-info"].actions[LIST_PODS].counts == {
        "": UsageCount(2, 1, 1)
    }


def test_a_grant_for_an_identity_and_its_action() -> None:
    usage = usage_of(event(ref={"resource": "pods", "namespace": "web"}))

    assert rules(outlook(usage)) == [
        ("*", "impersonate:user-info", "users", "alice"),
        ("web", "impersonate-on:user-info:list", "pods", ""),
    ]
    assert outlook(usage).broken == []


def test_every_identity_and_every_action_is_granted() -> None:
    usage = usage_of(event(), event("carol"), event(verb="watch"))

    assert rules(outlook(usage)) == [
        ("*", "impersonate-on:user-info:list impersonate-on:user-info:watch", "pods", ""),
        ("*", "impersonate:user-info", "users", "alice carol"),
    ]
    assert any("each of these identities" in note for note in outlook(usage).notes)


def test_what_constrained_modes_did_needs_no_grant() -> None:
    usage = usage_of(event(constraint="impersonate:user-info"))

    assert outlook(usage) == MigrationPlan()


def test_what_is_granted_already_is_not_granted_again() -> None:
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
    assert nothing_granted.grants == outlook(usage).grants
    assert (all_granted.missing, all_granted.grants) == ([], [])
    assert some_granted.missing == ["impersonate:user-info users.authentication.k8s.io carol"]
    assert "watch" not in str(some_granted.grants)


def test_the_groups_of_an_impersonator_are_known() -> None:
    usage = usage_of(event(user={"groups": ["ops", 7]}))

    assert usage.impersonators["bob"].groups == ("ops",)


def test_what_the_target_itself_may_not_do_is_not_granted() -> None:
    usage = usage_of(event(), event("carol", code=403), event(verb="delete", code=403))

    assert rules(outlook(usage)) == [
        ("*", "impersonate-on:user-info:list", "pods", ""),
        ("*", "impersonate:user-info", "users", "alice"),
    ]


def test_a_watch_that_has_not_ended_is_granted() -> None:
    usage = usage_of(event(verb="watch", stage="ResponseStarted"))

    assert ("*", "impersonate-on:user-info:watch", "pods", "") in rules(outlook(usage))
    assert usage.impersonators["bob"].requests == UsageCount(has_started_legacy=True)


def test_names_are_not_granted_and_discovery_is_granted_whole() -> None:
    usage = usage_of(
        event(verb="get", ref={"resource": "pods", "name": "web-1"}),
        event(verb="get", ref={"resource": ""}, uri="/apis/apps/v1?timeout=32s"),
        event(verb="get", ref={"resource": ""}, uri="/version"),
    )

    assert rules(outlook(usage))[0] == ("*", "impersonate-on:user-info:get", "pods", "")
    assert rules(outlook(usage))[-1] == (
        "*",
        "impersonate-on:user-info:get",
        "/apis/* /version",
        "",
    )


@pytest.mark.parametrize("verb", ["get", "create"])
def test_streams_are_granted_by_both_verbs(verb: str) -> None:
    usage = usage_of(event(verb=verb, ref={"resource": "pods", "subresource": "exec"}))

    verbs = "impersonate-on:user-info:create impersonate-on:user-info:get"
    assert ("*", verbs, "pods/exec", "") in rules(outlook(usage))


@pytest.mark.parametrize(
    ("made", "mode", "wanted_user"),
    [
        (
            event(
                "system:serviceaccount:a:b",
                groups=(
                    "system:serviceaccounts",
                    "system:serviceaccounts:a",
                    "system:authenticated",
                ),
            ),
            "serviceaccount",
            UserInfo("system:serviceaccount:a:b"),
        ),
        (
            event("system:serviceaccount:a:b", groups=("other", "system:authenticated")),
            "none",
            UserInfo("system:serviceaccount:a:b", groups=("other",)),
        ),
        (event("system:node:n1"), "arbitrary-node", UserInfo("system:node:n1")),
        (
            event("system:node:n1", groups=("system:nodes", "system:authenticated")),
            "none",
            UserInfo("system:node:n1", groups=("system:nodes",)),
        ),
        (
            event(
                "system:node:n1",
                groups=("system:nodes", "system:authenticated"),
                constraint="impersonate:arbitrary-node",
            ),
            "arbitrary-node",
            UserInfo("system:node:n1"),
        ),
        (
            event("root", groups=("system:masters", "system:authenticated")),
            "none",
            UserInfo("root", groups=("system:masters",)),
        ),
        (
            event(
                became={
                    "extra": {
                        "example.com/k": ["v"],
                        "original-user.kube-understudy.io/name": ["bob"],
                    }
                }
            ),
            "user-info",
            UserInfo("alice", extra=(("example.com/k", ("v",)),)),
        ),
        (
            event("system:anonymous", groups=("system:unauthenticated",)),
            "user-info",
            UserInfo("system:anonymous"),
        ),
    ],
    ids=[
        "account",
        "account with group",
        "node",
        "node with group",
        "node by mode",
        "masters",
        "extras",
        "anonymous",
    ],
)
def test_who_was_asked_for_is_told_without_what_is_implied(
    made: dict[str, Any], mode: str, wanted_user: UserInfo
) -> None:
    usage = usage_of(made)

    assert list(identities(usage, mode)) == [wanted_user]


def test_all_nodes_of_an_agent_are_its_own_node() -> None:
    usage = usage_of(
        *(
            event(f"system:node:{node}", caller=ROBOT, user={"extra": {NODE_KEY: [node]}})
            for node in ("n1", "n2")
        )
    )

    assert identities(usage, "associated-node", ROBOT) == {ASSOCIATED_NODE: UsageCount(2)}
    assert rules(outlook(usage, ROBOT)) == [
        ("*", "impersonate-on:associated-node:list", "pods", ""),
        ("*", "impersonate:associated-node", "nodes", ""),
    ]


def test_a_user_that_claims_a_node_runs_on_none() -> None:
    usage = usage_of(event("system:node:n1", user={"extra": {NODE_KEY: ["n1"]}}))

    assert list(usage.impersonators["bob"].modes) == ["arbitrary-node"]


def test_what_no_grant_mends_is_told_with_its_reason() -> None:
    usage = usage_of(
        event("root", groups=("system:masters", "system:authenticated")),
        event("system:node:n1", groups=("system:nodes", "system:authenticated")),
        event(),
    )

    found = outlook(usage)

    assert [(one.what, one.requests) for one in found.broken] == [
        ("root; groups system:masters", 1),
        ("system:node:n1; groups system:nodes", 1),
    ]
    assert found.broken[0].reason == "impersonating the system:masters group is not allowed"
    assert "by name alone" in found.broken[1].remedy
    assert "root" not in str(found.grants)
    assert '"impersonate"' not in str(found.grants).replace("'", '"')


def test_a_path_that_only_a_wider_rule_could_name_is_broken() -> None:
    usage = usage_of(event(verb="get", ref={"resource": ""}, uri="/odd*"), event())

    assert [one.what for one in outlook(usage).broken] == ["get /odd*"]
    assert "/odd" not in str(outlook(usage).grants)


def test_too_many_namespaces_become_all_and_that_is_told() -> None:
    events = [event(ref={"resource": "pods", "namespace": f"n{number}"}) for number in range(4)]

    few = usage_of(*events[:3], limits=UsageLimits(namespaces=3))
    many = usage_of(*events, limits=UsageLimits(namespaces=3))

    assert {scope for scope, *_ in rules(outlook(few))} == {"*", "n0", "n1", "n2"}
    assert {scope for scope, *_ in rules(outlook(many))} == {"*"}
    assert any("granted in all: list pods" in note for note in outlook(many).notes)
    assert many.impersonators["bob"].modes["user-info"].actions[LIST_PODS].counts == {
        "": UsageCount(4)
    }


def test_what_goes_beyond_the_bound_is_counted_and_not_granted() -> None:
    limits = UsageLimits(entries=6)
    usage = usage_of(*(event(f"user-{number}") for number in range(10)), limits=limits)
    usage.add(event(caller="carol"))

    bob = usage.impersonators["bob"]
    assert bob.requests.legacy == 10
    assert len(identities(usage, "user-info")) + bob.over_limit == 10
    assert bob.over_limit > 0
    assert usage.over_limit == 1
    assert any(f"{bob.over_limit} requests" in note for note in outlook(usage).notes)
    assert "user-9" not in str(outlook(usage).grants)


def test_giants_take_the_room_of_many() -> None:
    usage = usage_of(event("x" * 10_000), limits=UsageLimits(entries=10))

    assert identities(usage, "user-info") == {}
    assert usage.impersonators["bob"].over_limit == 1


def test_paths_are_few_or_beyond() -> None:
    events = [event(verb="get", ref={"resource": ""}, uri=f"/path-{number}") for number in range(9)]

    usage = usage_of(*events, limits=UsageLimits(paths=3))

    assert len(usage.impersonators["bob"].modes["user-info"].actions) == 3
    assert usage.impersonators["bob"].over_limit == 6


@pytest.mark.parametrize(
    "made",
    [
        None,
        [],
        "Event",
        {},
        {"kind": "EventList", "stage": "ResponseComplete"},
        event(constraint="impersonate:nonsense"),
        event(ref={"resource": ""}, uri=""),
        event(stage=""),
        event(""),
        event(caller=""),
    ],
)
def test_what_is_no_event_is_told_apart(made: object) -> None:
    with pytest.raises(InvalidAuditEvent):
        usage_of(made)


@pytest.mark.parametrize("odd", [7, None, [], {"username": 7}, {"groups": "g", "extra": [1]}])
def test_odd_values_do_no_harm(odd: object) -> None:
    made = event()
    for name in ("user", "impersonatedUser", "objectRef", "responseStatus", "verb"):
        with suppress(InvalidAuditEvent):
            usage_of({**made, name: odd})


def test_impersonators_can_be_chosen_and_left_out() -> None:
    chosen = UsageCollector(only=frozenset({"bob"}))
    others = UsageCollector(excluded=frozenset({"bob"}))

    for usage in (chosen, others):
        usage.add(event())
        usage.add(event(caller="carol"))

    assert list(chosen.impersonators) == ["bob"]
    assert list(others.impersonators) == ["carol"]


def cut(path: str) -> dict[str, str]:
    return {
        "audit.k8s.io/truncated": "true",
        f"{DOMAIN}/truncated": format_truncated_values([truncated_value(path, "x")]),
    }


@pytest.mark.parametrize(
    "path", ["user.groups", "impersonatedUser.username", "impersonatedUser.groups", "objectRef"]
)
def test_nothing_is_granted_by_a_name_that_was_cut(path: str) -> None:
    usage = usage_of(event(), event("carol", annotations=cut(path)))

    assert usage.truncated == 1
    assert list(identities(usage, "user-info")) == [UserInfo("alice")]


def test_a_cut_after_the_path_says_all_that_a_grant_needs() -> None:
    usage = usage_of(
        event(
            uri=f"/api/v1/pods?labelSelector=x{TRUNCATION_MARKER}", annotations=cut("requestURI")
        ),
        event(
            uri=f"/metrics?x{TRUNCATION_MARKER}",
            ref={"resource": ""},
            annotations=cut("requestURI"),
        ),
        event(
            uri=f"/metrics{TRUNCATION_MARKER}", ref={"resource": ""}, annotations=cut("requestURI")
        ),
        # kube-apiserver leaves out bodies, and says no more than that.
        event(annotations={"audit.k8s.io/truncated": "true"}),
    )

    actions = usage.impersonators["bob"].modes["user-info"].actions
    assert usage.truncated == 1
    assert set(actions) == {LIST_PODS, UsedRequest("list", path="/metrics")}


def test_an_event_that_does_not_say_what_was_cut_is_none() -> None:
    with pytest.raises(InvalidAuditEvent):
        usage_of(event(annotations={f"{DOMAIN}/truncated": "[]"}))
