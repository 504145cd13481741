"""Intents: compiled to what they intend and no more, with warnings about combinations."""

from typing import Any

import pytest

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.intent.model import Intent, existing_warnings, union_warnings
from proxy.core.rbac.intent.parser import read_intent
from proxy.core.rbac.model import (
    Binding,
    RBACSnapshot,
    Rule,
    Subject,
    read_rbac,
)
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import UserInfo, make_extra
from tests.core.rbac.intent.documents import (
    ACCOUNTS,
    ANY_USER,
    ASSOCIATED_NODE,
    NODES,
    USERS,
)


def rules_of(document: dict[str, Any]) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for binding in read_rbac(read_intent(document).objects()).bindings:
        found.setdefault(binding.namespace, []).extend(binding.rules)
    return found


def on(*verbs: str, mode: str = "user-info", **more: Any) -> Rule:
    return Rule(tuple(f"impersonate-on:{mode}:{verb}" for verb in verbs), **more)


def test_an_intent_becomes_identities_actions_streams_watches_and_discovery() -> None:
    own = {"groups": ("authentication.k8s.io",), "verbs": ("impersonate:user-info",)}

    assert rules_of(USERS) == {
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
    exact = {**USERS, "exactVerbs": True, "discovery": False}

    assert rules_of(exact)["shop"] == [
        on("get", "list", groups=("",), resources=("pods",)),
        on("create", groups=("",), resources=("pods/exec",), names=("web-0",)),
        on("get", groups=("",), resources=("pods/log",)),
    ]
    assert rules_of(exact)[""][-1] == on("get", paths=("/healthz/*",))


def test_a_star_is_everyone_by_a_rule_without_names() -> None:
    identities = [
        rule for rule in rules_of(ANY_USER)[""] if rule.verbs[0] == "impersonate:user-info"
    ]

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
        in rules_of(ASSOCIATED_NODE)[""]
    )


def test_an_action_may_name_its_own_namespaces() -> None:
    action = {"verbs": ["delete"], "resources": ["pods"], "namespaces": ["bank"]}

    assert set(rules_of({**USERS, "actions": [action]})) == {"", "bank"}


def intent_of(name: str, targets: tuple[UserInfo, ...], verb: str) -> Intent:
    document = {**USERS, "name": name, "actions": [{"verbs": [verb], "resources": ["pods"]}]}
    intent = read_intent(document)
    return Intent(name, intent.mode, intent.impersonators, targets, intent.permitted_actions)


ALICE = UserInfo("alice", groups=("dev",))
BOB = UserInfo("bob", groups=("ops",))


def test_parts_of_identities_that_mix_are_warned_of() -> None:
    assert union_warnings([intent_of("support", (ALICE, BOB), "get")]) == [
        "support: alice may also be impersonated with bob's group ops: "
        "parts of an identity are granted separately",
        "support: bob may also be impersonated with alice's group dev: "
        "parts of an identity are granted separately",
    ]
    assert (
        union_warnings([intent_of("support", (ALICE, UserInfo("bob", groups=("dev",))), "get")])
        == []
    )


@pytest.mark.parametrize(
    "other",
    [
        UserInfo("bob", "7", groups=("dev",)),
        UserInfo("bob", groups=("dev",), extra=make_extra({"a.io/b": ["1"]})),
    ],
)
def test_uids_and_extras_mix_too(other: UserInfo) -> None:
    assert len(union_warnings([intent_of("support", (ALICE, other), "get")])) == 1


def test_the_same_user_twice_is_no_mixture() -> None:
    same = (UserInfo("alice", groups=("dev",)), UserInfo("alice", groups=("ops",)))

    assert union_warnings([intent_of("support", same, "get")]) == []


def test_intents_of_one_impersonator_mix() -> None:
    first, second = intent_of("a", (ALICE,), "get"), intent_of("b", (BOB,), "delete")

    warnings = union_warnings([first, second])

    assert warnings == [
        "service account tools/robot may impersonate alice (a) also to delete pods (b): "
        "within user-info every target is allowed for every action",
        "service account tools/robot may impersonate bob (b) also to get pods (a): "
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
    replaced = RBACSnapshot((Binding("support", "", "ClusterRole/support", (subject,), (rule,)),))
    others = RBACSnapshot((Binding("b", "", "ClusterRole/r", (Subject("User", "eve"),), (rule,)),))

    warnings = existing_warnings([read_intent(USERS)], here)

    assert len(warnings) == (word is not None)
    assert all("user jane already has ClusterRole/r in shop" in one for one in warnings)
    assert all(word and word in one for one in warnings)
    assert existing_warnings([read_intent(USERS)], replaced) == []
    assert existing_warnings([read_intent(USERS)], others) == []


def test_the_own_node_mixes_with_nothing() -> None:
    rule = Rule(("impersonate:associated-node",), ("authentication.k8s.io",), ("nodes",))
    subject = Subject("ServiceAccount", "robot", "tools")
    rbac = RBACSnapshot((Binding("b", "", "ClusterRole/r", (subject,), (rule,)),))

    assert existing_warnings([read_intent(ASSOCIATED_NODE)], rbac) == []


def test_an_intent_knows_what_it_means() -> None:
    intent = read_intent(USERS)

    assert intent.covers(parse_request_info(b"GET", b"/api/v1/namespaces/shop/pods?watch=1"))
    assert intent.covers(parse_request_info(b"GET", b"/healthz/etcd"))
    assert not intent.covers(parse_request_info(b"GET", b"/api/v1/namespaces/bank/pods"))
    assert not intent.covers(parse_request_info(b"GET", b"/metrics"))
    assert intent.mode is ImpersonationMode.USER_INFO
