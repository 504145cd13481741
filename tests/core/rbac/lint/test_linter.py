"""Lint finds every mistake that was put into RBAC, and nothing in what is right."""

from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from proxy.core.rbac.lint.finding import Finding, ManifestSource, Severity
from proxy.core.rbac.lint.linter import lint
from proxy.sandbox.tour.rbac import STORY_1, STORY_2

AUTHENTICATION = ["authentication.k8s.io"]
RBAC = "rbac.authorization.k8s.io"
ACCOUNT = {"kind": "ServiceAccount", "name": "desk", "namespace": "tools"}
JANE = {"kind": "User", "name": "jane"}

Rule = dict[str, Any]


def identity(mode: str, *resources: str, **more: Any) -> Rule:
    verbs = [f"impersonate:{mode}"]
    return {"apiGroups": AUTHENTICATION, "resources": list(resources), "verbs": verbs, **more}


def on(mode: str, *verbs: str, **more: Any) -> Rule:
    named = [f"impersonate-on:{mode}:{verb}" for verb in verbs]
    return {"apiGroups": [""], "resources": ["pods"], "verbs": named, **more}


def visit(*paths: str, verb: str = "get") -> Rule:
    return {"nonResourceURLs": list(paths), "verbs": [f"impersonate-on:user-info:{verb}"]}


def role(*rules: Rule, name: str = "r", namespace: str | None = None, **more: Any) -> Rule:
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | more
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)}


def binding(
    *subjects: Rule, name: str = "r", namespace: str | None = None, kind: str | None = None
) -> Rule:
    kinds = ("RoleBinding", "Role") if namespace else ("ClusterRoleBinding", "ClusterRole")
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kinds[0],
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"apiGroup": RBAC, "kind": kind or kinds[1], "name": name},
        "subjects": list(subjects),
    }


def account(namespace: str, name: str) -> Rule:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def look_at(documents: Sequence[Any], *, is_complete: bool = False) -> list[Finding]:
    sources = [ManifestSource("f.yaml", number, one) for number, one in enumerate(documents, 1)]
    return lint(sources, is_complete=is_complete)


def told(findings: Sequence[Finding]) -> list[tuple[str, str, int, str]]:
    return [(one.severity.value, one.code, one.source.document, one.path) for one in findings]


USER = identity("user-info", "users")
MISTAKES = [
    # Where identities are asked for.
    pytest.param(
        identity("user-info", "users", apiGroups=[""]), "identity-group", ".apiGroups", id="core"
    ),
    pytest.param(
        identity("user-info", "users", apiGroups=["authentications.k8s.io"]),
        "identity-group",
        ".apiGroups",
        id="the group of an old KEP text",
    ),
    pytest.param(
        {"nonResourceURLs": ["/users"], "verbs": ["impersonate:user-info"]},
        "identity-path",
        ".nonResourceURLs",
        id="identities are no paths",
    ),
    pytest.param(
        identity("user-info", "user"), "identity-resource", ".resources[0]", id="singular user"
    ),
    pytest.param(
        identity("user-info", "users", "nodes"),
        "identity-resource",
        ".resources[1]",
        id="nodes are no users",
    ),
    pytest.param(
        identity("serviceaccount", "users"),
        "identity-resource",
        ".resources[0]",
        id="users are no accounts",
    ),
    pytest.param(
        identity("arbitrary-node", "groups"),
        "identity-resource",
        ".resources[0]",
        id="a node's groups are not asked for",
    ),
    # Names that never come.
    pytest.param(
        identity("associated-node", "nodes", resourceNames=["n1"]),
        "associated-node-names",
        ".resourceNames",
        id="resourceNames on associated-node",
    ),
    pytest.param(
        identity("user-info", "groups", resourceNames=["dev", "system:masters"]),
        "masters",
        ".resourceNames[1]",
        id="system:masters",
    ),
    pytest.param(
        identity("user-info", "users", resourceNames=["system:node:n1"]),
        "identity-name",
        ".resourceNames[0]",
        id="a node as a user",
    ),
    pytest.param(
        identity("user-info", "users", resourceNames=["system:serviceaccount:a:b"]),
        "identity-name",
        ".resourceNames[0]",
        id="an account as a user",
    ),
    pytest.param(
        identity("arbitrary-node", "nodes", resourceNames=["system:node:n1"]),
        "identity-name",
        ".resourceNames[0]",
        id="a node by its user name",
    ),
    pytest.param(
        identity("serviceaccount", "serviceaccounts", resourceNames=["tools:desk"]),
        "identity-name",
        ".resourceNames[0]",
        id="an account with its namespace",
    ),
    # Extras.
    pytest.param(
        identity("user-info", "userextras/*"), "userextras", ".resources[0]", id="userextras/*"
    ),
    pytest.param(
        identity("user-info", "userextras"), "userextras", ".resources[0]", id="userextras alone"
    ),
    pytest.param(
        identity("user-info", "userextras/scopes"),
        "userextras",
        ".resources[0]",
        id="a key that is refused",
    ),
    pytest.param(
        identity("user-info", "userextras/acme.io/Foo"),
        "userextras",
        ".resources[0]",
        id="a key with a capital",
    ),
    pytest.param(
        {"apiGroups": AUTHENTICATION, "resources": ["userextras/*"], "verbs": ["impersonate"]},
        "userextras",
        ".resources[0]",
        id="legacy userextras/*",
    ),
    # Verbs.
    pytest.param(on("user-info", "exec"), "unknown-verb", ".verbs[0]", id="no request has exec"),
    # Actions.
    pytest.param(
        on("user-info", "list", apiGroups=AUTHENTICATION),
        "action-group",
        ".apiGroups",
        id="all in authentication.k8s.io, as the documentation says",
    ),
    pytest.param(
        on("user-info", "list", apiGroups=AUTHENTICATION, resources=["zebras"]),
        "action-group",
        ".apiGroups",
        id="likewise, of something unknown",
    ),
    pytest.param(
        on("user-info", "get", "create", resources=["pod/exec"]),
        "unknown-resource",
        ".resources[0]",
        id="pod/exec",
    ),
    pytest.param(
        on("user-info", "get", "create", resources=["pods", "pods/execs"]),
        "unknown-resource",
        ".resources[1]",
        id="pods/execs",
    ),
    pytest.param(
        on("user-info", "list", resources=["deployments"]),
        "unknown-resource",
        ".resources[0]",
        id="deployments in the core group",
    ),
    pytest.param(
        on("user-info", "list", apiGroups=["apps"], resources=["zebras"]),
        "unknown-resource",
        ".resources[0]",
        id="nothing like it",
    ),
    pytest.param(
        on("user-info", "list", resources=["*/zebra"]),
        "unknown-resource",
        ".resources[0]",
        id="a subresource of nothing",
    ),
    pytest.param(
        on("user-info", "get", resources=["pods/*"]),
        "no-pattern",
        ".resources[0]",
        id="pods/* is no pattern",
    ),
    pytest.param(
        on("user-info", "create", resourceNames=["x"]),
        "names-never-come",
        ".resourceNames",
        id="create with names",
    ),
    pytest.param(
        on("user-info", "get", resources=["pods/exec"]), "half-a-stream", ".verbs", id="get only"
    ),
    pytest.param(
        on("user-info", "create", resources=["pods/portforward"]),
        "half-a-stream",
        ".verbs",
        id="create only",
    ),
    pytest.param(visit("version"), "no-pattern", ".nonResourceURLs[0]", id="no slash"),
    pytest.param(visit("/a/*/b"), "no-pattern", ".nonResourceURLs[0]", id="a star inside"),
    # More than it seems.
    pytest.param(
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        "star-verb",
        ".verbs[0]",
        id="everything",
    ),
    pytest.param(
        {"apiGroups": AUTHENTICATION, "resources": ["users"], "verbs": ["impersonate"]},
        "legacy-group",
        ".resources[0]",
        id="legacy users in the new group",
    ),
    pytest.param(
        {"apiGroups": [""], "resources": ["uids"], "verbs": ["impersonate"]},
        "legacy-group",
        ".resources[0]",
        id="legacy uids in the core group",
    ),
]


@pytest.mark.parametrize(("rule", "code", "path"), MISTAKES)
def test_a_mistake_in_a_rule_is_found(rule: Rule, code: str, path: str) -> None:
    findings = look_at([role(USER, rule)])

    found = [one for one in findings if one.path == f"$.rules[1]{path}" and one.code == code]
    assert found, told(findings)
    assert found[0].severity is not Severity.NOTE
    assert found[0].why
    assert found[0].remedy


@pytest.mark.parametrize(
    ("rule", "code", "path"),
    [
        pytest.param(USER, "namespaced-identity", "", id="users"),
        pytest.param(identity("arbitrary-node", "nodes"), "namespaced-identity", "", id="nodes"),
        pytest.param(
            {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"]},
            "namespaced-identity",
            ".resources[0]",
            id="legacy groups",
        ),
        pytest.param(
            on("user-info", "list", resources=["nodes"]),
            "namespaced-action",
            ".resources[0]",
            id="a resource of the cluster",
        ),
        pytest.param(visit("/version"), "namespaced-action", ".nonResourceURLs", id="a path"),
    ],
)
def test_a_role_opens_nothing_of_the_cluster(rule: Rule, code: str, path: str) -> None:
    findings = look_at([role(rule, namespace="shop")])

    assert ("error", code, 1, f"$.rules[0]{path}") in told(findings)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(USER, id="users"),
        pytest.param(identity("user-info", "groups", "uids", "userextras/a.io/b"), id="parts"),
        pytest.param(identity("user-info", "*"), id="everybody"),
        pytest.param(identity("user-info", "*/a.io/b"), id="a key of everything"),
        pytest.param(identity("associated-node", "nodes", resourceNames=["*"]), id="literal star"),
        pytest.param(identity("arbitrary-node", "nodes", resourceNames=["n1"]), id="a node"),
        pytest.param(on("user-info", "get", "list", "watch"), id="pods"),
        pytest.param(on("user-info", "get", resources=["*"]), id="all resources"),
        pytest.param(on("user-info", "get", apiGroups=["*"], resources=["pods"]), id="any group"),
        pytest.param(on("user-info", "get", resources=["*/log"]), id="a subresource of all"),
        pytest.param(on("user-info", "get", resources=["namespaces"]), id="namespaces"),
        pytest.param(
            on("user-info", "get", apiGroups=["acme.io"], resources=["zebra"]), id="a group unknown"
        ),
        pytest.param(
            on("user-info", "get", apiGroups=["", "apps"], resources=["pods", "deployments"]),
            id="one of several groups",
        ),
        pytest.param(
            on("user-info", "get", "create", resources=["pods/exec"], resourceNames=["x"]),
            id="a stream, by name",
        ),
        pytest.param(visit("/api", "/api/*", "*"), id="paths"),
        pytest.param({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}, id="others"),
        pytest.param({"verbs": ["get"]}, id="half a rule"),
        pytest.param(
            {"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]},
            id="legacy alone",
        ),
        pytest.param(
            {
                "apiGroups": AUTHENTICATION,
                "resources": ["uids", "*", "userextras/Scopes"],
                "verbs": ["impersonate"],
            },
            id="legacy extras",
        ),
    ],
)
def test_nothing_is_found_in_what_is_right(rule: Rule) -> None:
    assert told(look_at([role(rule)])) == []


def test_lists_by_name_are_a_note() -> None:
    findings = look_at([role(on("user-info", "list", resourceNames=["x"]))])

    assert told(findings) == [("note", "names-need-selector", 1, "$.rules[0].resourceNames")]


BOTH = (USER, on("user-info", "list"))


def test_identities_bound_in_a_namespace_are_found_at_the_binding() -> None:
    local = binding(JANE, namespace="shop", kind="ClusterRole")

    assert told(look_at([role(*BOTH), local])) == [("error", "namespaced-identity", 2, "$.roleRef")]
    assert told(look_at([role(*BOTH), local, binding(JANE)])) == []


@pytest.mark.parametrize("half", [0, 1])
def test_half_a_grant_is_noted_and_in_a_cluster_warned_of(half: int) -> None:
    documents = [role(BOTH[half]), binding(JANE)]

    assert told(look_at(documents)) == [("note", "half-a-grant", 2, "$.roleRef")]
    assert told(look_at(documents, is_complete=True)) == [
        ("warning", "half-a-grant", 2, "$.roleRef")
    ]


DOCUMENTED = [
    role(
        identity("serviceaccount", "serviceaccounts", resourceNames=["app-sa"]),
        name="i",
        namespace="default",
    ),
    role(on("serviceaccount", "create"), name="a", namespace="production"),
    binding({**ACCOUNT, "namespace": "default"}, name="i", namespace="default"),
    binding({**ACCOUNT, "namespace": "default"}, name="a", namespace="production"),
]


def test_the_documentations_service_account_in_the_wrong_namespace_is_found() -> None:
    expected = [("warning", "account-elsewhere", 1, "$.rules[0].resourceNames[0]")]

    assert told(look_at(DOCUMENTED)) == expected
    assert told(look_at([*DOCUMENTED, account("production", "app-sa")])) == expected


def test_a_service_account_that_is_there_may_act_elsewhere() -> None:
    assert told(look_at([*DOCUMENTED, account("default", "app-sa")])) == []


def test_the_stories_of_the_kep_as_it_stands_are_right() -> None:
    for story in (STORY_1, STORY_2):
        assert told(look_at(list(yaml.safe_load_all(story)))) == []


def test_lists_are_unpacked_and_told_with_their_path() -> None:
    bad = role(identity("user-info", "user"))
    plain = {key: value for key, value in bad.items() if key not in {"apiVersion", "kind"}}
    documents = [
        {"apiVersion": "v1", "kind": "List", "items": [{"kind": "ConfigMap"}, bad, "text"]},
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleList", "items": [plain]},
        {"apiVersion": "acme.io/v1", "kind": "ClusterRole", "rules": bad["rules"]},
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "rules": "text"},
    ]

    # The second is the same role again, as `kubectl get` gives it.
    assert told(look_at(documents[:1])) == [
        ("error", "identity-resource", 1, "$.items[1].rules[0].resources[0]")
    ]
    assert told(look_at(documents[1:])) == [
        ("error", "identity-resource", 1, "$.items[0].rules[0].resources[0]")
    ]
