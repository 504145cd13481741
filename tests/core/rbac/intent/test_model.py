"""Intents: read with every problem told, and compiled to what they mean and no more."""

from typing import Any

import pytest

from proxy.core.authorization.access_check import CheckResult
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import Allowed, Ask, evaluate
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.intent.cases import ExpectedDecision, expected_decisions
from proxy.core.rbac.intent.model import Intent, existing_warnings, union_warnings
from proxy.core.rbac.intent.parser import IntentError, read_intent
from proxy.core.rbac.model import (
    Binding,
    RBACSnapshot,
    Rule,
    Subject,
    read_rbac,
)
from proxy.core.rbac.resources import BUILT_IN, APIResource
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import UserInfo, make_extra

DESK: dict[str, Any] = {
    "name": "desk",
    "mode": "user-info",
    "impersonators": [{"serviceAccount": "tools/desk"}, {"user": "jane"}, {"group": "support"}],
    "targets": [{"user": "alice", "groups": ["dev"], "uid": "7", "extras": {"a.io/b": ["1"]}}],
    "actions": [
        {"verbs": ["get", "list"], "resources": ["pods", "pods/log", "nodes"]},
        {"verbs": ["create"], "resources": ["pods/exec"], "names": ["web-0"]},
        {"verbs": ["get"], "paths": ["/healthz/*"]},
    ],
    "namespaces": ["shop"],
}
NODES = {
    **DESK,
    "mode": "arbitrary-node",
    "targets": [{"node": "n1"}, {"node": "*"}],
}
ACCOUNTS = {
    **DESK,
    "mode": "serviceaccount",
    "targets": [{"serviceAccount": "bank/teller"}, {"serviceAccount": "shop/*"}],
}
OWN = {
    **{key: value for key, value in DESK.items() if key != "targets"},
    "mode": "associated-node",
    "impersonators": [{"serviceAccount": "tools/desk"}, {"group": "system:serviceaccounts"}],
}
ANYONE = {
    **DESK,
    "targets": [{"user": "*", "groups": ["*"], "uid": "*", "extras": {"a.io/b": ["*"]}}],
    "namespaces": "*",
    "discovery": False,
}


def rules_of(document: dict[str, Any]) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for binding in read_rbac(read_intent(document).objects()).bindings:
        found.setdefault(binding.namespace, []).extend(binding.rules)
    return found


def on(*verbs: str, mode: str = "user-info", **more: Any) -> Rule:
    return Rule(tuple(f"impersonate-on:{mode}:{verb}" for verb in verbs), **more)


def test_an_intent_becomes_identities_actions_streams_watches_and_discovery() -> None:
    own = {"groups": ("authentication.k8s.io",), "verbs": ("impersonate:user-info",)}

    assert rules_of(DESK) == {
        "": [
            on("get", "list", "watch", groups=("",), resources=("nodes",)),
            Rule(**own, resources=("groups",), names=("dev",)),
            Rule(**own, resources=("uids",), names=("7",)),
            Rule(**own, resources=("userextras/a.io/b",), names=("1",)),
            Rule(**own, resources=("users",), names=("alice",)),
            on(
                "get",
                paths=(
                    "/api",
                    "/api/*",
                    "/apis",
                    "/apis/*",
                    "/healthz/*",
                    "/openapi",
                    "/openapi/*",
                    "/version",
                ),
            ),
        ],
        "shop": [
            on("get", "list", "watch", groups=("",), resources=("pods",)),
            on("create", "get", groups=("",), resources=("pods/exec",), names=("web-0",)),
            on("get", groups=("",), resources=("pods/log",)),
        ],
    }


def test_with_exact_verbs_nothing_is_added() -> None:
    exact = {**DESK, "exactVerbs": True, "discovery": False}

    assert rules_of(exact)["shop"] == [
        on("get", "list", groups=("",), resources=("pods",)),
        on("create", groups=("",), resources=("pods/exec",), names=("web-0",)),
        on("get", groups=("",), resources=("pods/log",)),
    ]
    assert rules_of(exact)[""][-1] == on("get", paths=("/healthz/*",))


def test_a_star_is_everyone_by_a_rule_without_names() -> None:
    identities = [rule for rule in rules_of(ANYONE)[""] if rule.verbs[0] == "impersonate:user-info"]

    assert [rule.resources for rule in identities] == [
        ("groups", "uids", "userextras/a.io/b", "users")
    ]
    assert identities[0].names == ()


def test_nodes_and_service_accounts_are_granted_in_their_own_modes() -> None:
    assert (
        Rule(("impersonate:arbitrary-node",), ("authentication.k8s.io",), ("nodes",))
        in rules_of(NODES)[""]
    )
    accounts = rules_of(ACCOUNTS)
    assert accounts["bank"] == [
        Rule(
            ("impersonate:serviceaccount",),
            ("authentication.k8s.io",),
            ("serviceaccounts",),
            ("teller",),
        )
    ]
    assert (
        Rule(("impersonate:serviceaccount",), ("authentication.k8s.io",), ("serviceaccounts",))
        in accounts["shop"]
    )
    assert (
        Rule(("impersonate:associated-node",), ("authentication.k8s.io",), ("nodes",))
        in rules_of(OWN)[""]
    )


def test_resources_that_only_a_cluster_knows_have_their_scope() -> None:
    custom = BUILT_IN.extended(
        [APIResource("acme.io", "zebras"), APIResource("acme.io", "zebras/run")]
    )
    deed = {"verbs": ["create"], "resources": ["zebras.acme.io", "zebras.acme.io/run"]}
    document = {**DESK, "actions": [deed], "discovery": False}

    known, unknown = read_intent(document, custom), read_intent(document)

    assert [request_info.namespace for request_info in known.actions()] == ["", ""]
    assert [request_info.namespace for request_info in unknown.actions()] == ["shop", "shop"]


def test_an_action_may_name_its_own_namespaces() -> None:
    deed = {"verbs": ["delete"], "resources": ["pods"], "namespaces": ["bank"]}

    assert set(rules_of({**DESK, "actions": [deed]})) == {"", "bank"}


PROBLEMS = [
    pytest.param("text", ["$: must be a mapping of name"], id="no mapping"),
    pytest.param({**DESK, "namespace": 1}, ["$.namespace: is unknown"], id="unknown key"),
    pytest.param({**DESK, "name": "a/b"}, ["$.name: must not contain / or %"], id="name"),
    pytest.param({**DESK, "name": 5}, ["$.name: must be a string"], id="a number"),
    pytest.param(
        {**DESK, "mode": "legacy"}, ["$.mode: must be one of associated-node"], id="legacy"
    ),
    pytest.param({**DESK, "impersonators": []}, ["$.impersonators: must be a list"], id="nobody"),
    pytest.param(
        {**DESK, "impersonators": [{"user": "a", "group": "b"}, "x", {"serviceAccount": "desk"}]},
        [
            "$.impersonators[0]: must name one of user, group and serviceAccount",
            "$.impersonators[1]: must be a mapping of user, group, serviceAccount",
            "$.impersonators[2].serviceAccount: must be NAMESPACE/NAME",
        ],
        id="impersonators",
    ),
    pytest.param(
        {**DESK, "targets": ["x", {"user": ""}, {"user": "a", "groups": "b", "extras": []}]},
        [
            "$.targets[0]: must be a mapping of user, uid, groups, extras",
            "$.targets[1].user: must be a string",
            "$.targets[2].groups: must be a list of strings",
            "$.targets[2].extras: must be a mapping of keys",
        ],
        id="targets",
    ),
    pytest.param(
        {**DESK, "targets": [{"user": "system:node:n1"}]},
        ["$.targets[0]: user-info mode does not apply to system:node:n1"],
        id="a node as a user",
    ),
    pytest.param(
        {**DESK, "targets": [{"user": "a"}, {"user": "b", "groups": ["system:masters"]}]},
        ["$.targets[1]: impersonating the system:masters group is not allowed"],
        id="masters",
    ),
    pytest.param(
        {**DESK, "targets": [{"user": "a", "extras": {"scopes": ["x"]}}]},
        ["$.targets[0]: impersonating an invalid key in extra"],
        id="an extra key",
    ),
    pytest.param(
        {**NODES, "targets": [{"node": "system:node:n1"}]},
        ["$.targets[0].node: system:node:n1 is not a node name"],
        id="a node with its prefix",
    ),
    pytest.param(
        {
            **ACCOUNTS,
            "targets": [{"serviceAccount": "teller"}, {"serviceAccount": "a/b", "uid": "1"}],
        },
        [
            "$.targets[0].serviceAccount: must be NAMESPACE/NAME",
            "$.targets[1].uid: is unknown",
        ],
        id="accounts",
    ),
    pytest.param(
        {**OWN, "targets": []}, ["$.targets: associated-node has no targets"], id="own node"
    ),
    pytest.param(
        {**OWN, "impersonators": [{"user": "jane"}]},
        ["$.impersonators[0]: associated-node mode does not apply"],
        id="a user has no node",
    ),
    pytest.param({**DESK, "actions": "x"}, ["$.actions: must be a list"], id="no actions"),
    pytest.param(
        {**DESK, "actions": ["x", {"verbs": ["get"]}, {"verbs": "get", "paths": ["/x"]}]},
        [
            "$.actions[0]: must be a mapping of verbs",
            "$.actions[1]: must have either resources or paths",
            "$.actions[2].verbs: must be a list of strings",
        ],
        id="actions",
    ),
    pytest.param(
        {**DESK, "actions": [{"verbs": ["exec"], "resources": ["pod/exec", "deployments", "*"]}]},
        [
            "$.actions[0].verbs[0]: exec: no request has this verb",
            "$.actions[0].resources[0]: pod/exec: there is no such resource; "
            "did you mean pods/exec?",
            "$.actions[0].resources[1]: deployments: there is no such resource; "
            "did you mean deployments.apps?",
            "$.actions[0].resources[2]: *: must be RESOURCE[.GROUP][/SUBRESOURCE]",
        ],
        id="verbs and resources",
    ),
    pytest.param(
        {**DESK, "actions": [{"verbs": ["get"], "resources": ["zebras"]}]},
        ["$.actions[0].resources[0]: zebras: there is no such resource"],
        id="nothing like it",
    ),
    pytest.param(
        {**DESK, "actions": [{"verbs": ["create"], "resources": ["pods"], "names": ["x"]}]},
        ["$.actions[0].names: requests with the verb create have no name"],
        id="names with create",
    ),
    pytest.param(
        {**DESK, "actions": [{"verbs": ["list"], "resources": ["pods", "pods/log"]}]},
        ["$.actions[0].verbs: no request has the verb list on pods/log"],
        id="a list of a subresource",
    ),
    pytest.param(
        {
            **DESK,
            "actions": [{"verbs": ["get"], "paths": ["x", "/a*b"], "names": [], "namespaces": []}],
        },
        [
            "$.actions[0].names: is not allowed with paths",
            "$.actions[0].namespaces: is not allowed with paths",
            "$.actions[0].paths[0]: must begin with /",
            "$.actions[0].paths[1]: must begin with /; * is a wildcard only at its end",
        ],
        id="paths",
    ),
    pytest.param(
        {**DESK, "actions": [{"verbs": [], "paths": []}]},
        ["$.actions[0].paths: must not be empty", "$.actions[0].verbs: must not be empty"],
        id="empty lists",
    ),
    pytest.param(
        {**{key: value for key, value in DESK.items() if key != "namespaces"}},
        ["$.actions[0]: needs namespaces", "$.actions[1]: needs namespaces"],
        id="no namespaces",
    ),
    pytest.param(
        {**DESK, "namespaces": ["Shop"]},
        ["$.namespaces[0]: Shop: is not a valid name"],
        id="namespace",
    ),
    pytest.param({**DESK, "discovery": "yes"}, ["$.discovery: must be true or false"], id="flag"),
]


@pytest.mark.parametrize(("document", "expected"), PROBLEMS)
def test_every_problem_is_told_with_its_place(document: object, expected: list[str]) -> None:
    with pytest.raises(IntentError) as refused:
        read_intent(document)

    lines = refused.value.lines
    assert len(lines) == len(expected), lines
    for line, beginning in zip(lines, expected, strict=True):
        assert line.startswith(beginning)


INTENTS = [
    pytest.param([DESK], id="users"),
    pytest.param([NODES], id="nodes"),
    pytest.param([ACCOUNTS], id="accounts"),
    pytest.param([OWN], id="own node"),
    pytest.param([ANYONE], id="anyone"),
    pytest.param([{**DESK, "impersonators": [{"group": "system:authenticated"}]}], id="everyone"),
    pytest.param(
        [
            DESK,
            {
                **DESK,
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
def test_the_trials_of_an_intent_come_out_as_it_means_by_its_own_grants(
    documents: list[dict[str, Any]],
) -> None:
    intents = [read_intent(document) for document in documents]
    rbac = read_rbac([thing for intent in intents for thing in intent.objects()])

    planned = expected_decisions(intents)

    assert {trial.is_allowed for trial in planned} == {True, False}
    for trial in planned:
        assert decided(rbac, trial) == trial.is_allowed, trial


def test_the_trials_notice_a_grant_that_is_too_wide_and_one_that_is_missing() -> None:
    intent = read_intent(DESK)
    everything = Rule(("*",), ("*",), ("*",))
    wide = RBACSnapshot((Binding("b", "", "ClusterRole/r", intent.impersonators, (everything,)),))

    too_wide = [
        trial for trial in expected_decisions([intent]) if decided(wide, trial) != trial.is_allowed
    ]
    missing = [
        trial
        for trial in expected_decisions([intent])
        if decided(RBACSnapshot(), trial) != trial.is_allowed
    ]

    assert {"another verb, delete", "another namespace", "another user"} <= {
        trial.description for trial in too_wide
    }
    assert {trial.description for trial in missing} == {"meant"}


def decided(rbac: RBACSnapshot, trial: ExpectedDecision) -> bool:
    """Return what becomes of a trial where nobody but RBAC is asked."""
    attempts = plan_attempts(
        trial.caller, trial.wanted_user, trial.request_info, rules=ImpersonationRules()
    )
    evaluation = evaluate(attempts)
    try:
        question = next(evaluation)
        while True:
            is_allowed = isinstance(question, Ask) and rbac.allows(question.check)
            question = evaluation.send(CheckResult(is_allowed))
    except StopIteration as stop:
        return isinstance(stop.value, Allowed)


def intent_of(name: str, targets: tuple[UserInfo, ...], verb: str) -> Intent:
    document = {**DESK, "name": name, "actions": [{"verbs": [verb], "resources": ["pods"]}]}
    intent = read_intent(document)
    return Intent(name, intent.mode, intent.impersonators, targets, intent.permitted_actions)


ALICE = UserInfo("alice", groups=("dev",))
BOB = UserInfo("bob", groups=("ops",))


def test_parts_of_identities_that_mix_are_warned_of() -> None:
    assert union_warnings([intent_of("desk", (ALICE, BOB), "get")]) == [
        "desk: alice may also be impersonated with bob's group ops: "
        "parts of an identity are granted separately",
        "desk: bob may also be impersonated with alice's group dev: "
        "parts of an identity are granted separately",
    ]
    assert (
        union_warnings([intent_of("desk", (ALICE, UserInfo("bob", groups=("dev",))), "get")]) == []
    )


@pytest.mark.parametrize(
    "other",
    [
        UserInfo("bob", "7", groups=("dev",)),
        UserInfo("bob", groups=("dev",), extra=make_extra({"a.io/b": ["1"]})),
    ],
)
def test_uids_and_extras_mix_too(other: UserInfo) -> None:
    assert len(union_warnings([intent_of("desk", (ALICE, other), "get")])) == 1


def test_the_same_user_twice_is_no_mixture() -> None:
    same = (UserInfo("alice", groups=("dev",)), UserInfo("alice", groups=("ops",)))

    assert union_warnings([intent_of("desk", same, "get")]) == []


def test_intents_of_one_impersonator_mix() -> None:
    first, second = intent_of("a", (ALICE,), "get"), intent_of("b", (BOB,), "delete")

    warnings = union_warnings([first, second])

    assert warnings == [
        "service account tools/desk may impersonate alice (a) also to delete pods (b): "
        "within user-info every target is allowed for every action",
        "service account tools/desk may impersonate bob (b) also to get pods (a): "
        "within user-info every target is allowed for every action",
    ]


def test_intents_of_others_or_of_other_modes_do_not_mix() -> None:
    first = intent_of("a", (ALICE,), "get")
    stranger = Intent("b", first.mode, (Subject("User", "eve"),), (BOB,), first.permitted_actions)
    nodes = read_intent({**NODES, "name": "c", "targets": [{"node": "n1"}]})

    assert union_warnings([first, stranger, nodes]) == []
    assert union_warnings([first, intent_of("d", (ALICE,), "delete")]) == []


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        pytest.param(Rule(("impersonate",), ("",), ("users",)), "legacy", id="legacy"),
        pytest.param(Rule(("*",), ("acme.io",), ("zebras",)), "the verb *", id="star"),
        pytest.param(
            Rule(("impersonate:user-info",), ("authentication.k8s.io",), ("users",), ("carol",)),
            "allows users (carol)",
            id="identity",
        ),
        pytest.param(
            Rule(("impersonate:user-info",), ("authentication.k8s.io",), ("users",)),
            "allows users (all names)",
            id="all identities",
        ),
        pytest.param(on("delete", groups=("",), resources=("pods",)), "allows", id="action"),
        pytest.param(on("get", paths=("/x",)), "on /x", id="path"),
        pytest.param(on("get", mode="arbitrary-node", paths=("/x",)), None, id="another mode"),
        pytest.param(Rule(("get",), ("",), ("pods",)), None, id="nothing of the kind"),
    ],
)
def test_rights_that_are_there_already_are_warned_of(rule: Rule, word: str | None) -> None:
    subject = Subject("User", "jane")
    here = RBACSnapshot((Binding("b", "shop", "ClusterRole/r", (subject,), (rule,)),))
    ours = RBACSnapshot((Binding("desk", "", "ClusterRole/desk", (subject,), (rule,)),))
    others = RBACSnapshot((Binding("b", "", "ClusterRole/r", (Subject("User", "eve"),), (rule,)),))

    warnings = existing_warnings([read_intent(DESK)], here)

    assert len(warnings) == (word is not None)
    assert all("user jane already has ClusterRole/r in shop" in one for one in warnings)
    assert all(word and word in one for one in warnings)
    assert existing_warnings([read_intent(DESK)], ours) == []
    assert existing_warnings([read_intent(DESK)], others) == []


def test_the_own_node_mixes_with_nothing() -> None:
    rule = Rule(("impersonate:associated-node",), ("authentication.k8s.io",), ("nodes",))
    subject = Subject("ServiceAccount", "desk", "tools")
    rbac = RBACSnapshot((Binding("b", "", "ClusterRole/r", (subject,), (rule,)),))

    assert existing_warnings([read_intent(OWN)], rbac) == []


def test_an_intent_knows_what_it_means() -> None:
    intent = read_intent(DESK)

    assert intent.covers(parse_request_info(b"GET", b"/api/v1/namespaces/shop/pods?watch=1"))
    assert intent.covers(parse_request_info(b"GET", b"/healthz/etcd"))
    assert not intent.covers(parse_request_info(b"GET", b"/api/v1/namespaces/bank/pods"))
    assert not intent.covers(parse_request_info(b"GET", b"/metrics"))
    assert intent.mode is ImpersonationMode.USER_INFO
