"""Findings about bindings: scope, subjects, and rules that defeat each other."""

from collections.abc import Iterable

import pytest

from proxy.core.rbac.lint.bindings import LintScope, binding_findings
from proxy.core.rbac.lint.finding import Finding, ManifestSource, RuleLocation, Severity
from proxy.core.rbac.model import Rule, Subject

AUTHENTICATION = ("authentication.k8s.io",)
JANE = Subject("User", "jane")
ROBOT = Subject("ServiceAccount", "robot", "tools")
USERS = Rule(("impersonate:user-info",), AUTHENTICATION, ("users",))
LIST_PODS = Rule(("impersonate-on:user-info:list",), ("",), ("pods",))
TELLER = Rule(("impersonate:serviceaccount",), AUTHENTICATION, ("serviceaccounts",), ("teller",))
GET_AS_ACCOUNT = Rule(("impersonate-on:serviceaccount:get",), ("",), ("pods",))


class Objects:
    """Roles and bindings for one scope. Each role is bound under its own name."""

    def __init__(self) -> None:
        self._roles: dict[tuple[str, str, str], list[RuleLocation]] = {}
        self._bindings: list[ManifestSource] = []

    def role(self, *rules: Rule, name: str = "r", namespace: str = "") -> "Objects":
        """Add a Role, or a ClusterRole if there is no namespace."""
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": name, "namespace": namespace}
        source = ManifestSource("f.yaml", 1, {"kind": kind, "metadata": metadata})
        self._roles[kind, namespace, name] = [
            RuleLocation(source, f"$.rules[{position}]", rule)
            for position, rule in enumerate(rules)
        ]
        return self

    def bind(
        self, *subjects: Subject, name: str = "r", namespace: str = "", kind: str = ""
    ) -> "Objects":
        """Add a binding, by default to the role with its name in its scope."""
        content = {
            "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"kind": kind or ("Role" if namespace else "ClusterRole"), "name": name},
            "subjects": [
                {"kind": subject.kind, "name": subject.name, "namespace": subject.namespace}
                for subject in subjects
            ],
        }
        self._bindings.append(ManifestSource("f.yaml", 2, content))
        return self

    def findings(
        self, *, accounts: Iterable[tuple[str, str]] = (), is_complete: bool = False
    ) -> list[Finding]:
        """Return the findings of these objects."""
        scope = LintScope(self._roles, self._bindings, frozenset(accounts), is_complete)
        return list(binding_findings(scope))


def codes(findings: Iterable[Finding]) -> list[tuple[str, str, str]]:
    return [(one.severity.value, one.code, one.path) for one in findings]


def test_complete_grant_of_one_subject_has_no_findings() -> None:
    assert Objects().role(USERS, LIST_PODS).bind(JANE).findings(is_complete=True) == []


def test_binding_without_its_role_has_no_findings() -> None:
    assert Objects().bind(JANE).findings(is_complete=True) == []
    assert Objects().role(USERS).bind(JANE, name="other").findings(is_complete=True) == []


def test_role_of_another_namespace_is_not_granted() -> None:
    objects = Objects().role(TELLER, namespace="bank").bind(JANE, namespace="shop")

    assert objects.findings(is_complete=True) == []


@pytest.mark.parametrize(
    ("rule", "is_found"),
    [
        pytest.param(USERS, True, id="users"),
        pytest.param(
            Rule(("impersonate:arbitrary-node",), AUTHENTICATION, ("nodes",)), True, id="nodes"
        ),
        pytest.param(TELLER, False, id="service accounts are namespaced"),
        pytest.param(LIST_PODS, False, id="action"),
    ],
)
def test_role_binding_of_cluster_scoped_identities_is_an_error(
    rule: Rule, *, is_found: bool
) -> None:
    objects = Objects().role(rule).bind(JANE, namespace="shop", kind="ClusterRole")

    found = ("error", "namespaced-identity", "$.roleRef") in codes(objects.findings())

    assert found == is_found


def test_role_that_is_also_bound_cluster_wide_may_be_bound_in_a_namespace() -> None:
    objects = Objects().role(USERS, LIST_PODS).bind(JANE, namespace="shop", kind="ClusterRole")

    assert codes(objects.findings()) == [("error", "namespaced-identity", "$.roleRef")]
    assert objects.bind(JANE).findings() == []


@pytest.mark.parametrize(
    ("subject", "is_found"),
    [
        pytest.param(JANE, True, id="user"),
        pytest.param(Subject("Group", "dev"), True, id="group"),
        pytest.param(Subject("Group", "system:nodes"), True, id="group of nodes"),
        pytest.param(ROBOT, False, id="service account"),
        pytest.param(Subject("User", "system:serviceaccount:a:b"), False, id="username of one"),
        pytest.param(Subject("Group", "system:serviceaccounts:a"), False, id="group of accounts"),
        pytest.param(Subject("Group", "system:authenticated"), False, id="group of all users"),
    ],
)
def test_only_service_accounts_may_hold_the_associated_node(
    subject: Subject, *, is_found: bool
) -> None:
    node = Rule(("impersonate:associated-node",), AUTHENTICATION, ("nodes",))
    action = Rule(("impersonate-on:associated-node:list",), ("",), ("pods",))

    findings = Objects().role(node, action).bind(ROBOT, subject).findings()

    expected = [("error", "no-own-node", "$.subjects[1]")] if is_found else []
    assert codes(findings) == expected


def test_named_service_account_bound_cluster_wide_is_a_warning() -> None:
    named = Objects().role(TELLER, GET_AS_ACCOUNT).bind(JANE)
    unnamed = Rule(TELLER.verbs, TELLER.groups, TELLER.resources)

    assert codes(named.findings()) == [
        ("warning", "account-everywhere", "$.rules[0].resourceNames")
    ]
    assert Objects().role(unnamed, GET_AS_ACCOUNT).bind(JANE).findings() == []
    in_namespace = Objects().role(TELLER, GET_AS_ACCOUNT, namespace="bank")
    assert in_namespace.bind(JANE, namespace="bank").findings() == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        pytest.param(Rule(("impersonate",), ("",), ("users",)), "legacy-overrules", id="legacy"),
        pytest.param(Rule(("get", "*"), ("",), ("*",)), "legacy-overrules", id="star"),
        pytest.param(Rule(("*",), ("acme.io",), ("zebras",)), "star-verb", id="star elsewhere"),
    ],
)
def test_rule_of_another_binding_that_defeats_a_constrained_one_is_a_warning(
    rule: Rule, code: str
) -> None:
    constrained = Objects().role(USERS, LIST_PODS).bind(JANE).role(rule, name="other")

    verb = len(rule.verbs) - 1
    same = constrained.bind(JANE, name="other").findings()
    assert codes(same) == [("warning", code, f"$.rules[0].verbs[{verb}]")]
    assert same[0].why.startswith("user jane ")


def test_rule_of_another_subject_defeats_nothing() -> None:
    legacy = Rule(("impersonate",), ("",), ("users",))
    objects = Objects().role(USERS, LIST_PODS).bind(JANE).role(legacy, name="other")

    assert objects.bind(ROBOT, name="other").findings() == []


LEGACY_ACCOUNTS = Rule(("impersonate",), ("",), ("serviceaccounts",))


@pytest.mark.parametrize(
    ("legacy", "namespace", "is_found"),
    [
        pytest.param(LEGACY_ACCOUNTS, "bank", True, id="same namespace"),
        pytest.param(LEGACY_ACCOUNTS, "", True, id="all namespaces"),
        pytest.param(LEGACY_ACCOUNTS, "shop", False, id="another namespace"),
        pytest.param(
            Rule(("impersonate",), ("",), ("serviceaccounts",), ("teller", "x")),
            "bank",
            True,
            id="same name",
        ),
        pytest.param(
            Rule(("impersonate",), ("",), ("serviceaccounts",), ("other",)),
            "bank",
            False,
            id="another name",
        ),
        pytest.param(Rule(("impersonate",), ("",), ("users",)), "", False, id="users"),
        pytest.param(Rule(("impersonate",), ("",), ("groups",)), "", False, id="groups"),
        pytest.param(Rule(("impersonate",), ("",), ("*",)), "", True, id="all resources"),
    ],
)
def test_legacy_rule_overrules_only_the_identities_that_it_allows(
    legacy: Rule, namespace: str, *, is_found: bool
) -> None:
    objects = (
        Objects()
        .role(TELLER, GET_AS_ACCOUNT, namespace="bank")
        .bind(JANE, namespace="bank")
        .role(legacy, name="edit")
        .bind(JANE, name="edit", namespace=namespace, kind="ClusterRole")
    )

    found = codes(objects.findings())

    expected = [("warning", "legacy-overrules", "$.rules[0].verbs[0]")] if is_found else []
    assert found == expected


def test_legacy_service_accounts_do_not_overrule_users() -> None:
    objects = Objects().role(USERS, LIST_PODS).bind(JANE).role(LEGACY_ACCOUNTS, name="edit")

    assert objects.bind(JANE, name="edit").findings() == []


@pytest.mark.parametrize(
    ("rule", "missing"),
    [(USERS, "no action in user-info"), (LIST_PODS, "no identity in user-info")],
)
def test_half_of_a_grant_is_a_warning_only_if_all_objects_are_known(
    rule: Rule, missing: str
) -> None:
    objects = Objects().role(rule).bind(JANE)

    (partial,) = objects.findings()
    (complete,) = objects.findings(is_complete=True)

    assert (partial.code, partial.severity) == ("half-a-grant", Severity.NOTE)
    assert (complete.code, complete.severity) == ("half-a-grant", Severity.WARNING)
    assert missing in partial.why
    assert "mode here" in partial.why
    assert "mode here" not in complete.why


def test_both_halves_of_a_grant_must_be_of_one_mode() -> None:
    findings = Objects().role(USERS, GET_AS_ACCOUNT).bind(JANE).findings()

    assert [one.code for one in findings] == ["half-a-grant", "half-a-grant"]


def test_halves_of_a_grant_may_come_from_two_bindings_of_one_subject() -> None:
    objects = Objects().role(USERS).bind(JANE).role(LIST_PODS, name="a", namespace="shop")

    assert [one.code for one in objects.findings()] == ["half-a-grant"]
    assert objects.bind(JANE, name="a", namespace="shop").findings(is_complete=True) == []


def test_service_account_without_a_namespace_belongs_to_that_of_its_binding() -> None:
    account = Rule(TELLER.verbs, TELLER.groups, TELLER.resources)
    objects = (
        Objects()
        .role(account, namespace="tools")
        .role(GET_AS_ACCOUNT, name="a", namespace="tools")
        .bind(ROBOT, name="a", namespace="tools")
    )

    bare = Subject("ServiceAccount", "robot")
    assert objects.bind(bare, namespace="tools").findings() == []


def documented() -> Objects:
    """Return the example of the documentation, which grants the account in the wrong namespace."""
    return (
        Objects()
        .role(TELLER, namespace="tools")
        .role(GET_AS_ACCOUNT, name="a", namespace="bank")
        .bind(ROBOT, namespace="tools")
        .bind(ROBOT, name="a", namespace="bank")
    )


@pytest.mark.parametrize(
    ("accounts", "is_found"),
    [
        pytest.param([], True, id="guessed from the namespace of the actions"),
        pytest.param([("bank", "teller")], True, id="known in another namespace"),
        pytest.param([("bank", "other")], True, id="other account"),
        pytest.param([("tools", "teller")], False, id="known in this namespace"),
        pytest.param([("tools", "teller"), ("bank", "teller")], False, id="known in both"),
    ],
)
def test_service_account_granted_in_a_namespace_not_its_own_is_a_warning(
    accounts: list[tuple[str, str]], *, is_found: bool
) -> None:
    findings = documented().findings(accounts=accounts)

    expected = [("warning", "account-elsewhere", "$.rules[0].resourceNames[0]")]
    assert codes(findings) == (expected if is_found else [])
    assert all("is it in bank?" in one.why for one in findings)


def test_namespace_of_a_service_account_is_not_guessed_outside_the_impersonators_own() -> None:
    objects = (
        Objects()
        .role(TELLER, namespace="shop")
        .role(GET_AS_ACCOUNT, name="a", namespace="bank")
        .bind(ROBOT, namespace="shop")
        .bind(ROBOT, name="a", namespace="bank")
    )

    assert objects.findings() == []
    assert [one.code for one in objects.findings(accounts=[("bank", "teller")])] == [
        "account-elsewhere"
    ]
