"""Test cases of intents: what the grants must allow, and neighbours that they must not."""

from typing import Any

import pytest

from proxy.core.authorization.access_check import CheckResult
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import Allowed, Ask, evaluate
from proxy.core.rbac.intent.cases import ExpectedDecision, expected_decisions
from proxy.core.rbac.intent.parser import read_intent
from proxy.core.rbac.model import Binding, RBACSnapshot, Rule, read_rbac
from proxy.core.userinfo import NODE_NAME_KEY, UserInfo, make_extra
from tests.core.rbac.intent.documents import (
    ACCOUNTS,
    ANY_USER,
    ASSOCIATED_NODE,
    NODES,
    USERS,
)

GET_POD: dict[str, Any] = {
    **USERS,
    "impersonators": [{"user": "jane"}],
    "targets": [{"user": "alice"}],
    "actions": [{"verbs": ["get"], "resources": ["pods"]}],
    "discovery": False,
}
DELETE_POD = {**GET_POD, "name": "other", "actions": [{"verbs": ["delete"], "resources": ["pods"]}]}


def is_decided_allowed(rbac: RBACSnapshot, case: ExpectedDecision) -> bool:
    """Return whether impersonation is allowed if RBAC is the only authorizer."""
    attempts = plan_attempts(
        case.caller, case.wanted_user, case.request_info, rules=ImpersonationRules()
    )
    evaluation = evaluate(attempts)
    try:
        question = next(evaluation)
        while True:
            is_allowed = isinstance(question, Ask) and rbac.allows(question.check)
            question = evaluation.send(CheckResult(is_allowed))
    except StopIteration as stop:
        return isinstance(stop.value, Allowed)


INTENTS = [
    pytest.param([USERS], id="users"),
    pytest.param([NODES], id="nodes"),
    pytest.param([ACCOUNTS], id="accounts"),
    pytest.param([ASSOCIATED_NODE], id="associated node"),
    pytest.param([ANY_USER], id="any user"),
    pytest.param(
        [{**USERS, "impersonators": [{"group": "system:authenticated"}]}], id="every caller"
    ),
    pytest.param(
        [
            USERS,
            {
                **USERS,
                "name": "other",
                "targets": [{"user": "bob"}],
                "actions": [{"verbs": ["delete"], "resources": ["pods"]}],
            },
            {**NODES, "name": "nodes"},
        ],
        id="several",
    ),
]


@pytest.mark.parametrize("documents", INTENTS)
def test_grants_of_an_intent_decide_every_case_as_expected(
    documents: list[dict[str, Any]],
) -> None:
    intents = [read_intent(document) for document in documents]
    rbac = read_rbac([manifest for intent in intents for manifest in intent.objects()])

    cases = expected_decisions(intents)

    assert {case.is_allowed for case in cases} == {True, False}
    for case in cases:
        assert is_decided_allowed(rbac, case) == case.is_allowed, case


def test_cases_detect_a_grant_that_is_too_wide_and_one_that_is_missing() -> None:
    intent = read_intent(USERS)
    everything = Rule(("*",), ("*",), ("*",))
    wide = RBACSnapshot((Binding("b", "", "ClusterRole/r", intent.impersonators, (everything,)),))

    too_wide = [
        case
        for case in expected_decisions([intent])
        if is_decided_allowed(wide, case) != case.is_allowed
    ]
    missing = [
        case
        for case in expected_decisions([intent])
        if is_decided_allowed(RBACSnapshot(), case) != case.is_allowed
    ]

    assert {"another verb, delete", "another namespace", "another user"} <= {
        case.description for case in too_wide
    }
    assert {case.description for case in missing} == {"meant"}


def described(*documents: dict[str, Any]) -> dict[str, list[ExpectedDecision]]:
    """Return the cases by description."""
    found: dict[str, list[ExpectedDecision]] = {}
    for case in expected_decisions([read_intent(document) for document in documents]):
        found.setdefault(case.description, []).append(case)
    return found


def test_every_combination_of_impersonator_target_and_action_is_allowed() -> None:
    document = {
        **GET_POD,
        "impersonators": [{"user": "jane"}, {"user": "joe"}],
        "targets": [{"user": "alice"}, {"user": "bob"}],
        "actions": [{"verbs": ["get", "delete"], "resources": ["pods"]}],
    }

    allowed = described(document)["meant"]

    assert all(case.is_allowed for case in allowed)
    assert sorted(
        (case.caller.user.name, case.wanted_user.name, case.request_info.verb) for case in allowed
    ) == [
        (caller, target, verb)
        for caller in ("jane", "joe")
        for target in ("alice", "bob")
        for verb in ("delete", "get")
    ]


def test_neighbours_differ_in_one_part_and_are_not_allowed() -> None:
    cases = described(GET_POD)
    (meant,) = cases.pop("meant")

    assert set(cases) == {
        "another verb, list",
        "another verb, watch",
        "another verb, create",
        "another verb, update",
        "another verb, patch",
        "another verb, delete",
        "another verb, deletecollection",
        "another resource",
        "another group",
        "a subresource",
        "another namespace",
        "another user",
        "an additional group",
        "system:masters as well",
        "another uid",
        "a node",
        "another service account",
        "another caller",
    }
    for (case,) in cases.values():
        assert not case.is_allowed
        differences = (
            case.caller != meant.caller,
            case.wanted_user != meant.wanted_user,
            case.request_info != meant.request_info,
        )
        assert differences.count(True) == 1


def test_neighbour_by_name_exists_only_for_an_action_with_names() -> None:
    named = {**GET_POD, "actions": [{**GET_POD["actions"][0], "names": ["web-0"]}]}

    assert "another name" not in described(GET_POD)
    assert [case.request_info.name for case in described(named)["meant"]] == ["web-0"]
    assert len(described(named)["another name"]) == 1


def test_neighbours_of_a_path_are_another_method_and_another_path() -> None:
    cases = described({**GET_POD, "actions": [{"verbs": ["get"], "paths": ["/healthz/*"]}]})

    assert [case.request_info.path for case in cases["meant"]] == ["/healthz/any"]
    assert [case.request_info.verb for case in cases["another method"]] == ["put"]
    assert len(cases["another path"]) == 1


def test_neighbour_that_another_intent_of_the_impersonator_allows_is_left_out() -> None:
    other_impersonator = {**DELETE_POD, "impersonators": [{"user": "joe"}]}

    assert "another verb, delete" in described(GET_POD)
    assert "another verb, delete" not in described(GET_POD, DELETE_POD)
    assert "another verb, delete" in described(GET_POD, other_impersonator)


def test_neighbour_that_an_intent_allows_in_another_mode_is_kept() -> None:
    nodes = {**DELETE_POD, "mode": "arbitrary-node", "targets": [{"node": "n1"}]}

    deleted = described(GET_POD, nodes)["another verb, delete"]

    assert [case.wanted_user.name for case in deleted] == ["alice"]


def test_no_case_occurs_twice() -> None:
    cases = expected_decisions([read_intent(USERS), read_intent({**USERS, "name": "again"})])
    keys = {(case.caller, case.wanted_user, case.request_info) for case in cases}

    assert len(keys) == len(cases)
    assert cases == expected_decisions([read_intent(USERS)])


def test_star_in_a_target_is_sampled_as_an_example() -> None:
    meant = described({**ANY_USER, "impersonators": [{"user": "jane"}]})["meant"]

    extra = make_extra({"a.io/b": ["anything"]})
    assert {case.wanted_user for case in meant} == {
        UserInfo("anyone", "any-uid", ("any-group",), extra)
    }


def test_caller_of_the_associated_node_runs_on_the_target() -> None:
    cases = described(ASSOCIATED_NODE)

    for case in cases["meant"]:
        ((key, (node,)),) = case.caller.user.extra
        assert key == NODE_NAME_KEY
        assert case.wanted_user.name == f"system:node:{node}"
    others = cases["a node other than its own"]
    assert {case.wanted_user for case in others}.isdisjoint(
        case.wanted_user for case in cases["meant"]
    )


def test_any_group_includes_another_group_but_never_the_group_of_masters() -> None:
    cases = described({**ANY_USER, "impersonators": [{"user": "jane"}]})

    assert "an additional group" not in cases
    assert [case.is_allowed for case in cases["system:masters as well"]] == [False]
