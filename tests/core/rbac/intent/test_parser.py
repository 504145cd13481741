"""Parser of intents: values of a valid document, and every problem of an invalid one."""

from typing import Any

import pytest

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.grants import ANY
from proxy.core.rbac.intent.model import PermittedAction
from proxy.core.rbac.intent.parser import IntentError, read_intent
from proxy.core.rbac.model import Subject
from proxy.core.rbac.resources import BUILT_IN, APIResource
from proxy.core.userinfo import UserInfo, make_extra
from tests.core.rbac.intent.documents import (
    ACCOUNTS,
    ANY_USER,
    ASSOCIATED_NODE,
    NODES,
    USERS,
)

POD = APIResource("", "pods", is_namespaced=True)
POD_EXEC = APIResource("", "pods/exec", is_namespaced=True)
GET_PODS: dict[str, Any] = {"verbs": ["get"], "resources": ["pods"]}


def test_document_becomes_an_intent_with_every_part() -> None:
    intent = read_intent({**USERS, "actions": USERS["actions"][1:]})

    assert (intent.name, intent.mode) == ("support", ImpersonationMode.USER_INFO)
    assert intent.impersonators == (
        Subject("ServiceAccount", "robot", "tools"),
        Subject("User", "jane"),
        Subject("Group", "helpers"),
    )
    assert intent.targets == (UserInfo("alice", "7", ("dev",), make_extra({"a.io/b": ["1"]})),)
    assert intent.permitted_actions == (
        PermittedAction(("create",), (POD_EXEC,), (), ("web-0",), ("shop",)),
        PermittedAction(("get",), (), ("/healthz/*",)),
    )


@pytest.mark.parametrize(
    ("document", "targets"),
    [
        pytest.param(NODES, ["system:node:n1", f"system:node:{ANY}"], id="nodes"),
        pytest.param(
            ACCOUNTS,
            ["system:serviceaccount:bank:teller", f"system:serviceaccount:shop:{ANY}"],
            id="service accounts",
        ),
        pytest.param(ASSOCIATED_NODE, [f"system:node:{ANY}"], id="associated node"),
    ],
)
def test_targets_are_usernames_in_the_form_of_their_mode(
    document: dict[str, Any], targets: list[str]
) -> None:
    assert read_intent(document).targets == tuple(map(UserInfo, targets))


def test_star_stands_for_any_value_of_every_part_of_a_target() -> None:
    extra = make_extra({"a.io/b": [ANY]})

    assert read_intent(ANY_USER).targets == (UserInfo(ANY, ANY, (ANY,), extra),)


@pytest.mark.parametrize(
    ("added", "includes_discovery", "is_exact"),
    [
        ({}, True, False),
        ({"discovery": False}, False, False),
        ({"exactVerbs": True}, True, True),
        ({"discovery": True, "exactVerbs": False}, True, False),
    ],
)
def test_flags_have_defaults(
    added: dict[str, bool], *, includes_discovery: bool, is_exact: bool
) -> None:
    intent = read_intent({**USERS, **added})

    assert intent.includes_discovery == includes_discovery
    assert intent.is_exact == is_exact


@pytest.mark.parametrize(
    ("general", "own", "expected"),
    [
        pytest.param(["shop"], None, ("shop",), id="of the intent"),
        pytest.param(["shop"], ["bank"], ("bank",), id="of the action"),
        pytest.param(["shop"], "*", (), id="all, of the action"),
        pytest.param("*", ["bank"], ("bank",), id="one instead of all"),
        pytest.param(["*"], None, (), id="all, as a list"),
        pytest.param(None, ["bank"], ("bank",), id="only of the action"),
    ],
)
def test_namespaces_of_an_action_replace_those_of_the_intent(
    general: object, own: object, expected: tuple[str, ...]
) -> None:
    action = GET_PODS if own is None else {**GET_PODS, "namespaces": own}
    intent = read_intent({**USERS, "namespaces": general, "actions": [action]})

    assert intent.permitted_actions == (PermittedAction(("get",), (POD,), namespaces=expected),)


def test_cluster_scoped_resources_need_no_namespaces() -> None:
    action = {"verbs": ["get"], "resources": ["nodes"]}
    document = {**USERS, "namespaces": None}

    assert read_intent({**document, "actions": [action]}).permitted_actions[0].namespaces == ()
    with pytest.raises(IntentError, match="needs namespaces"):
        read_intent({**document, "actions": [GET_PODS]})


@pytest.mark.parametrize(
    ("verbs", "resources", "is_valid"),
    [
        pytest.param(["get", "delete"], ["pods"], True, id="requests with a name"),
        pytest.param(["create"], ["pods/exec"], True, id="create of a subresource has a name"),
        pytest.param(["create"], ["pods"], False, id="create has no name"),
        pytest.param(["get", "deletecollection"], ["pods"], False, id="collection has no name"),
    ],
)
def test_names_are_rejected_for_requests_without_a_name(
    verbs: list[str], resources: list[str], *, is_valid: bool
) -> None:
    action = {"verbs": verbs, "resources": resources, "names": ["web-0"]}
    document = {**USERS, "actions": [action]}

    if is_valid:
        assert read_intent(document).permitted_actions[0].names == ("web-0",)
    else:
        with pytest.raises(IntentError, match="have no name to match"):
            read_intent(document)


def test_list_of_a_subresource_is_rejected_only_without_another_verb() -> None:
    def document(*verbs: str) -> dict[str, Any]:
        return {**USERS, "actions": [{"verbs": verbs, "resources": ["pods/log"]}]}

    assert read_intent(document("get", "list")).permitted_actions[0].verbs == ("get", "list")
    with pytest.raises(IntentError, match="no request has the verb list or watch on pods/log"):
        read_intent(document("list", "watch"))


def test_scope_of_a_custom_resource_comes_from_the_catalog() -> None:
    custom = BUILT_IN.extended(
        [APIResource("acme.io", "zebras"), APIResource("acme.io", "zebras/run")]
    )
    action = {"verbs": ["create"], "resources": ["zebras.acme.io", "zebras.acme.io/run"]}
    document = {**USERS, "actions": [action], "discovery": False}

    known, unknown = read_intent(document, custom), read_intent(document)

    assert [request_info.namespace for request_info in known.actions()] == ["", ""]
    assert [request_info.namespace for request_info in unknown.actions()] == ["shop", "shop"]


PROBLEMS = [
    pytest.param("text", ["$: must be a mapping of name"], id="not a mapping"),
    pytest.param({**USERS, "namespace": 1}, ["$.namespace: is unknown"], id="unknown key"),
    pytest.param({**USERS, "name": "a/b"}, ["$.name: must not contain / or %"], id="name"),
    pytest.param({**USERS, "name": 5}, ["$.name: must be a string"], id="a number"),
    pytest.param(
        {**USERS, "mode": "legacy"}, ["$.mode: must be one of associated-node"], id="legacy"
    ),
    pytest.param(
        {**USERS, "impersonators": []}, ["$.impersonators: must be a list"], id="no impersonators"
    ),
    pytest.param(
        {**USERS, "impersonators": [{"user": "a", "group": "b"}, "x", {"serviceAccount": "robot"}]},
        [
            "$.impersonators[0]: must name one of user, group and serviceAccount",
            "$.impersonators[1]: must be a mapping of user, group, serviceAccount",
            "$.impersonators[2].serviceAccount: must be NAMESPACE/NAME",
        ],
        id="impersonators",
    ),
    pytest.param(
        {**USERS, "targets": ["x", {"user": ""}, {"user": "a", "groups": "b", "extras": []}]},
        [
            "$.targets[0]: must be a mapping of user, uid, groups, extras",
            "$.targets[1].user: must be a string",
            "$.targets[2].groups: must be a list of strings",
            "$.targets[2].extras: must be a mapping of keys",
        ],
        id="targets",
    ),
    pytest.param(
        {**USERS, "targets": [{"user": "system:node:n1"}]},
        ["$.targets[0]: user-info mode does not apply to system:node:n1"],
        id="a node as a user",
    ),
    pytest.param(
        {**USERS, "targets": [{"user": "a"}, {"user": "b", "groups": ["system:masters"]}]},
        ["$.targets[1]: impersonating the system:masters group is not allowed"],
        id="masters",
    ),
    pytest.param(
        {**USERS, "targets": [{"user": "a", "extras": {"scopes": ["x"]}}]},
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
        {**ASSOCIATED_NODE, "targets": []},
        ["$.targets: associated-node has no targets"],
        id="targets of the associated node",
    ),
    pytest.param(
        {**ASSOCIATED_NODE, "impersonators": [{"user": "jane"}]},
        ["$.impersonators[0]: associated-node mode does not apply"],
        id="a user has no node",
    ),
    pytest.param({**USERS, "actions": "x"}, ["$.actions: must be a list"], id="no actions"),
    pytest.param(
        {**USERS, "actions": ["x", {"verbs": ["get"]}, {"verbs": "get", "paths": ["/x"]}]},
        [
            "$.actions[0]: must be a mapping of verbs",
            "$.actions[1]: must have either resources or paths",
            "$.actions[2].verbs: must be a list of strings",
        ],
        id="actions",
    ),
    pytest.param(
        {**USERS, "actions": [{"verbs": ["exec"], "resources": ["pod/exec", "deployments", "*"]}]},
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
        {**USERS, "actions": [{"verbs": ["get"], "resources": ["zebras"]}]},
        ["$.actions[0].resources[0]: zebras: there is no such resource"],
        id="no similar resource",
    ),
    pytest.param(
        {**USERS, "actions": [{"verbs": ["create"], "resources": ["pods"], "names": ["x"]}]},
        ["$.actions[0].names: requests with the verb create have no name"],
        id="names with create",
    ),
    pytest.param(
        {**USERS, "actions": [{"verbs": ["list"], "resources": ["pods", "pods/log"]}]},
        ["$.actions[0].verbs: no request has the verb list on pods/log"],
        id="a list of a subresource",
    ),
    pytest.param(
        {
            **USERS,
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
        {**USERS, "actions": [{"verbs": [], "paths": []}]},
        ["$.actions[0].paths: must not be empty", "$.actions[0].verbs: must not be empty"],
        id="empty lists",
    ),
    pytest.param(
        {**{key: value for key, value in USERS.items() if key != "namespaces"}},
        ["$.actions[0]: needs namespaces", "$.actions[1]: needs namespaces"],
        id="no namespaces",
    ),
    pytest.param(
        {**USERS, "namespaces": ["Shop"]},
        ["$.namespaces[0]: Shop: is not a valid name"],
        id="namespace",
    ),
    pytest.param({**USERS, "discovery": "yes"}, ["$.discovery: must be true or false"], id="flag"),
    pytest.param({**USERS, "name": ".."}, ["$.name: must not contain / or %"], id="dots"),
    pytest.param({**USERS, "name": "50%"}, ["$.name: must not contain / or %"], id="percent"),
    pytest.param({**USERS, "mode": ["user-info"]}, ["$.mode: must be one of"], id="mode list"),
    pytest.param(
        {**USERS, "mode": "x", "targets": "x"}, ["$.mode: must be one of"], id="targets of no mode"
    ),
    pytest.param(
        {**USERS, "impersonators": [{}, {"users": "a"}, {"user": 5}]},
        [
            "$.impersonators[0]: must name one of user, group and serviceAccount",
            "$.impersonators[1].users: is unknown",
            "$.impersonators[2].user: must be a string",
        ],
        id="names of impersonators",
    ),
    pytest.param(
        {**USERS, "targets": [{"user": "a", "extras": {"a.io/b": "text"}}]},
        ["$.targets[0].extras['a.io/b']: must be a list of strings"],
        id="value of an extra",
    ),
    pytest.param(
        {**ACCOUNTS, "targets": [{"serviceAccount": "*/teller"}, {"serviceAccount": "a/b/c"}]},
        [
            "$.targets[0].serviceAccount: must be NAMESPACE/NAME",
            "$.targets[1].serviceAccount: must be NAMESPACE/NAME",
        ],
        id="patterns of accounts",
    ),
    pytest.param(
        {**USERS, "actions": [{"verbs": ["list"], "paths": ["/x"]}]},
        ["$.actions[0].verbs[0]: list: no request has this verb; it must be one of get, head"],
        id="verb of a path",
    ),
    pytest.param(
        {**USERS, "actions": [{"verbs": ["get"], "resources": ["pods/", "/log", "p*s"]}]},
        [
            "$.actions[0].resources[0]: pods/: must be RESOURCE",
            "$.actions[0].resources[1]: /log: must be RESOURCE",
            "$.actions[0].resources[2]: p*s: must be RESOURCE",
        ],
        id="parts of resources",
    ),
    pytest.param({**USERS, "exactVerbs": 1}, ["$.exactVerbs: must be true or false"], id="number"),
]


@pytest.mark.parametrize(("document", "expected"), PROBLEMS)
def test_every_problem_is_reported_with_its_path(document: object, expected: list[str]) -> None:
    with pytest.raises(IntentError) as caught:
        read_intent(document)

    lines = caught.value.lines
    assert len(lines) == len(expected), lines
    for line, beginning in zip(lines, expected, strict=True):
        assert line.startswith(beginning)


def test_message_of_an_intent_error_has_all_problems() -> None:
    error = IntentError(["$.a: x", "$.b: y"])

    assert str(error) == "$.a: x; $.b: y"
    assert error.lines == ["$.a: x", "$.b: y"]
