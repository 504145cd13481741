"""Usage counts of audit events, and their limits."""

import pytest

from proxy.analysis.usage.collector import UsageCollector, UsageCount, UsageLimits
from proxy.analysis.usage.events import ASSOCIATED_NODE, UsedRequest
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.userinfo import UserInfo
from tests.support.impersonation_events import NODE_KEY, event, truncation_of, usage_of

ROBOT = "system:serviceaccount:ci:robot"
LIST_PODS = UsedRequest("list", resource="pods")


def identities(usage: UsageCollector, mode: str, caller: str = "bob") -> dict[UserInfo, UsageCount]:
    return usage.impersonators[caller].modes[mode].identities


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


def test_the_groups_of_an_impersonator_are_known() -> None:
    usage = usage_of(event(user={"groups": ["ops", 7]}))

    assert usage.impersonators["bob"].groups == ("ops",)


def test_all_nodes_of_an_agent_are_its_own_node() -> None:
    usage = usage_of(
        *(
            event(f"system:node:{node}", caller=ROBOT, user={"extra": {NODE_KEY: [node]}})
            for node in ("n1", "n2")
        )
    )

    assert identities(usage, "associated-node", ROBOT) == {ASSOCIATED_NODE: UsageCount(2)}


def test_identities_over_the_limit_are_counted_but_not_listed() -> None:
    limits = UsageLimits(entries=6)
    usage = usage_of(*(event(f"user-{number}") for number in range(10)), limits=limits)
    usage.add(event(caller="carol"))

    bob = usage.impersonators["bob"]
    assert bob.requests.legacy == 10
    assert len(identities(usage, "user-info")) + bob.over_limit == 10
    assert bob.over_limit > 0
    assert usage.over_limit == 1
    assert UserInfo("user-9") not in identities(usage, "user-info")


def test_long_name_takes_several_entries() -> None:
    usage = usage_of(event("x" * 10_000), limits=UsageLimits(entries=10))

    assert identities(usage, "user-info") == {}
    assert usage.impersonators["bob"].over_limit == 1


def test_widened_action_counts_its_namespaces_together() -> None:
    events = [event(ref={"namespace": f"n{number}"}) for number in range(4)]

    usage = usage_of(*events, limits=UsageLimits(namespaces=3))

    counted = usage.impersonators["bob"].modes["user-info"].actions[LIST_PODS]
    assert (counted.is_widened, counted.counts) == (True, {"": UsageCount(4)})


def test_paths_over_the_limit_are_not_listed() -> None:
    events = [event(verb="get", ref={"resource": ""}, uri=f"/path-{number}") for number in range(9)]

    usage = usage_of(*events, limits=UsageLimits(paths=3))

    assert len(usage.impersonators["bob"].modes["user-info"].actions) == 3
    assert usage.impersonators["bob"].over_limit == 6


@pytest.mark.parametrize("made", [None, [], "Event", {}], ids=["null", "list", "text", "empty"])
def test_document_that_is_not_an_event_is_an_error(made: object) -> None:
    with pytest.raises(InvalidAuditEvent):
        usage_of(made)


def test_impersonators_can_be_chosen_and_left_out() -> None:
    chosen = UsageCollector(only=frozenset({"bob"}))
    others = UsageCollector(excluded=frozenset({"bob"}))

    for usage in (chosen, others):
        usage.add(event())
        usage.add(event(caller="carol"))

    assert list(chosen.impersonators) == ["bob"]
    assert list(others.impersonators) == ["carol"]


@pytest.mark.parametrize(
    "path", ["user.groups", "impersonatedUser.username", "impersonatedUser.groups", "objectRef"]
)
def test_nothing_is_granted_by_a_name_that_was_cut(path: str) -> None:
    usage = usage_of(event(), event("carol", annotations=truncation_of(path)))

    assert usage.truncated == 1
    assert list(identities(usage, "user-info")) == [UserInfo("alice")]
