"""Rules match as the API server's RBAC authorizer matches them."""

from dataclasses import replace

import pytest

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.rbac.model import (
    Binding,
    Manifest,
    RBACSnapshot,
    Rule,
    Subject,
    read_rbac,
    subject_of,
)
from proxy.core.userinfo import UserInfo

ALICE = UserInfo("alice", groups=("dev", "system:authenticated"))
DEPUTY = UserInfo("system:serviceaccount:tools:deputy")
EXEC = AccessCheck(
    ALICE,
    "impersonate-on:user-info:get",
    group="",
    resource="pods",
    subresource="exec",
    namespace="shop",
    name="web-0",
)
PODS = replace(EXEC, subresource="")
VERSION = AccessCheck(ALICE, "impersonate-on:user-info:get", is_resource=False, path="/version/x")
RULE = Rule((EXEC.verb,), ("",), ("pods/exec",))


@pytest.mark.parametrize(
    ("rule", "check", "expected"),
    [
        pytest.param(RULE, EXEC, True, id="all literal"),
        pytest.param(RULE, PODS, False, id="a subresource is not its resource"),
        pytest.param(replace(RULE, resources=("pods",)), EXEC, False, id="nor the other way"),
        pytest.param(replace(RULE, resources=("pods",)), PODS, True, id="the resource itself"),
        pytest.param(replace(RULE, resources=("*",)), EXEC, True, id="any resource"),
        pytest.param(replace(RULE, resources=("*/exec",)), EXEC, True, id="this subresource"),
        pytest.param(replace(RULE, resources=("*/attach",)), EXEC, False, id="another of any"),
        pytest.param(replace(RULE, resources=("*/exec",)), PODS, False, id="star, no subresource"),
        pytest.param(replace(RULE, resources=("pods/*",)), EXEC, False, id="pods/* is no pattern"),
        pytest.param(
            replace(RULE, resources=("pods/*",)), replace(EXEC, subresource="*"), True, id="literal"
        ),
        pytest.param(replace(RULE, resources=("pod/exec",)), EXEC, False, id="singular"),
        pytest.param(replace(RULE, verbs=("*",)), EXEC, True, id="any verb"),
        pytest.param(replace(RULE, verbs=("impersonate-on:*",)), EXEC, False, id="half a star"),
        pytest.param(replace(RULE, groups=("*",)), EXEC, True, id="any group"),
        pytest.param(replace(RULE, groups=("apps",)), EXEC, False, id="another group"),
        pytest.param(replace(RULE, groups=()), EXEC, False, id="no group"),
        pytest.param(replace(RULE, names=("web-0",)), EXEC, True, id="its name"),
        pytest.param(replace(RULE, names=("web-1",)), EXEC, False, id="another name"),
        pytest.param(replace(RULE, names=("*",)), EXEC, False, id="a name called star"),
        pytest.param(
            replace(RULE, names=("web-0",)), replace(EXEC, name=""), False, id="no name asked"
        ),
        pytest.param(Rule(RULE.verbs, paths=("/version/x",)), VERSION, True, id="path"),
        pytest.param(Rule(RULE.verbs, paths=("*",)), VERSION, True, id="any path"),
        pytest.param(Rule(RULE.verbs, paths=("/version/*",)), VERSION, True, id="below"),
        pytest.param(Rule(RULE.verbs, paths=("/ver**",)), VERSION, True, id="stars at the end"),
        pytest.param(Rule(RULE.verbs, paths=("/*/x",)), VERSION, False, id="star inside"),
        pytest.param(Rule(RULE.verbs, paths=("/version",)), VERSION, False, id="above"),
        pytest.param(Rule(RULE.verbs, paths=("*",)), EXEC, False, id="paths are no resources"),
        pytest.param(Rule(("*",), ("*",), ("*",)), VERSION, False, id="nor resources paths"),
    ],
)
def test_a_rule_matches_like_the_authorizer(
    rule: Rule, check: AccessCheck, *, expected: bool
) -> None:
    assert rule.allows(check) is expected


@pytest.mark.parametrize(
    ("subject", "user", "namespace", "expected"),
    [
        pytest.param(Subject("User", "alice"), ALICE, "", True, id="user"),
        pytest.param(Subject("User", "dev"), ALICE, "", False, id="a group is no user"),
        pytest.param(Subject("Group", "dev"), ALICE, "", True, id="group"),
        pytest.param(Subject("Group", "alice"), ALICE, "", False, id="a user is no group"),
        pytest.param(Subject("ServiceAccount", "deputy", "tools"), DEPUTY, "", True, id="account"),
        pytest.param(
            Subject("ServiceAccount", "deputy", "shop"), DEPUTY, "tools", False, id="elsewhere"
        ),
        pytest.param(
            Subject("ServiceAccount", "deputy"), DEPUTY, "tools", True, id="the binding's"
        ),
        pytest.param(Subject("ServiceAccount", "deputy"), DEPUTY, "", False, id="nowhere"),
        pytest.param(Subject("user", "alice"), ALICE, "", False, id="unknown kind"),
        pytest.param(Subject("User", DEPUTY.name), DEPUTY, "", True, id="an account by its name"),
    ],
)
def test_a_subject_is_held_as_the_authorizer_says(
    subject: Subject, user: UserInfo, namespace: str, *, expected: bool
) -> None:
    assert subject.matches(user, namespace) is expected


def test_a_binding_in_a_namespace_holds_there_only() -> None:
    here = RBACSnapshot((Binding("b", "shop", "Role/r", (Subject("User", "alice"),), (RULE,)),))

    assert here.allows(EXEC)
    assert not here.allows(replace(EXEC, namespace="bank"))
    assert not here.allows(replace(EXEC, namespace=""))
    assert not here.allows(replace(EXEC, user=DEPUTY))


def test_a_binding_in_a_namespace_opens_no_path() -> None:
    rule = Rule(("*",), paths=("*",))
    subject = Subject("User", "alice")

    assert not RBACSnapshot((Binding("b", "shop", "ClusterRole/r", (subject,), (rule,)),)).allows(
        VERSION
    )
    assert RBACSnapshot((Binding("b", "", "ClusterRole/r", (subject,), (rule,)),)).allows(VERSION)


def test_whom_a_check_would_be_open_to_is_told_with_where_from() -> None:
    local = Binding("l", "shop", "Role/r", (Subject("ServiceAccount", "deputy"),), (RULE,))
    wide = Binding("w", "", "ClusterRole/r", (Subject("Group", "ops"),), (RULE,))

    opened = list(RBACSnapshot((local, wide)).subjects_allowing(EXEC))

    assert opened == [
        (local, Subject("ServiceAccount", "deputy", "shop")),
        (wide, Subject("Group", "ops")),
    ]


def test_objects_of_a_cluster_become_bindings_with_their_rules() -> None:
    objects: list[Manifest] = [
        _role("ClusterRole", "reader", None),
        _role("Role", "reader", "shop"),
        _binding("ClusterRoleBinding", None, "ClusterRole"),
        _binding("RoleBinding", "shop", "ClusterRole"),
        _binding("RoleBinding", "shop", "Role"),
        _binding("RoleBinding", "bank", "Role"),
        {"apiVersion": "v1", "kind": "ClusterRole", "metadata": {"name": "reader"}},
        {"kind": "Nonsense"},
    ]

    found = read_rbac(objects)

    wide = Rule(("get",), ("",), ("pods",), ("ClusterRole",))
    local = Rule(("get",), ("",), ("pods",), ("Role",))
    subject = (Subject("User", "alice"),)
    assert found.bindings == (
        Binding("b", "", "ClusterRole/reader", subject, (wide,)),
        Binding("b", "shop", "ClusterRole/reader", subject, (wide,)),
        Binding("b", "shop", "Role/reader", subject, (local,)),
        Binding("b", "bank", "Role/reader", subject, ()),
    )


@pytest.mark.parametrize("rules", [None, "text", ["text"], [{"verbs": "get"}], [{"verbs": [1]}]])
def test_what_has_not_the_right_shape_gives_nothing(rules: object) -> None:
    role = {**_role("ClusterRole", "reader", None), "rules": rules}

    found = read_rbac([role, _binding("ClusterRoleBinding", None, "ClusterRole")])

    assert not found.allows(EXEC)


def test_a_subject_for_an_identity_is_nobody_else() -> None:
    assert subject_of(ALICE) == Subject("User", "alice")
    assert subject_of(DEPUTY) == Subject("ServiceAccount", "deputy", "tools")


def _role(kind: str, name: str, namespace: str | None) -> Manifest:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": [kind]}
    version = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "rules": [rule]}


def _binding(kind: str, namespace: str | None, role: str) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "b"} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"kind": role, "name": "reader"},
        "subjects": [{"kind": "User", "name": "alice"}],
    }
