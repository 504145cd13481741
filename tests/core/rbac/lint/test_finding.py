"""Inputs and findings of the linter: locations, and the modes and verbs of rules."""

import pytest

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.lint.finding import (
    CONSTRAINED,
    IDENTITY_VERBS,
    Finding,
    ManifestSource,
    RuleLocation,
    Severity,
    action_verb,
    action_verbs,
    comma_separated,
    identity_modes,
)
from proxy.core.rbac.model import Rule

ROLE = ManifestSource("f.yaml", 1, {"kind": "Role", "metadata": {"name": "r", "namespace": "shop"}})
CLUSTER_ROLE = ManifestSource("f.yaml", 2, {"kind": "ClusterRole", "metadata": {"name": "c"}})
MALFORMED = [
    pytest.param({}, id="empty"),
    pytest.param({"kind": 5, "metadata": "text"}, id="wrong types"),
    pytest.param({"kind": None, "metadata": {"name": 5, "namespace": []}}, id="wrong names"),
]


def test_source_names_its_object() -> None:
    assert (ROLE.kind, ROLE.name, ROLE.namespace) == ("Role", "r", "shop")
    assert (CLUSTER_ROLE.kind, CLUSTER_ROLE.name, CLUSTER_ROLE.namespace) == (
        "ClusterRole",
        "c",
        "",
    )
    assert ROLE.path == "$"


@pytest.mark.parametrize("content", MALFORMED)
def test_source_of_a_malformed_object_has_empty_names(content: dict[str, object]) -> None:
    source = ManifestSource("f.yaml", 1, content)

    assert (source.kind, source.name, source.namespace) == ("", "", "")


def test_rule_is_namespaced_in_a_role_and_nowhere_else() -> None:
    assert RuleLocation(ROLE, "$.rules[0]", Rule()).is_namespaced
    assert not RuleLocation(CLUSTER_ROLE, "$.rules[0]", Rule()).is_namespaced


def test_findings_of_a_rule_have_its_location_and_their_severity() -> None:
    location = RuleLocation(ROLE, "$.rules[2]", Rule())
    parts = ("code", ".verbs[0]", "why", "remedy")

    found = [location.error(*parts), location.warning(*parts), location.note(*parts)]

    path = "$.rules[2].verbs[0]"
    assert found == [
        Finding("code", severity, ROLE, path, "why", "remedy")
        for severity in (Severity.ERROR, Severity.WARNING, Severity.NOTE)
    ]


def test_severities_are_ordered_from_the_most_severe() -> None:
    # The linter keeps the first of two findings by this order.
    assert list(Severity) == [Severity.ERROR, Severity.WARNING, Severity.NOTE]


def test_legacy_mode_is_not_constrained() -> None:
    assert ImpersonationMode.LEGACY not in CONSTRAINED
    assert set(CONSTRAINED) | {ImpersonationMode.LEGACY} == set(ImpersonationMode)
    assert "impersonate" not in IDENTITY_VERBS


def test_identity_modes_are_those_of_the_exact_identity_verbs() -> None:
    rule = Rule(
        (
            "impersonate:user-info",
            "impersonate",
            "get",
            "*",
            "impersonate:User-Info",
            "impersonate:legacy",
            "impersonate-on:user-info:get",
            "impersonate:arbitrary-node",
        )
    )

    assert identity_modes(rule) == [ImpersonationMode.USER_INFO, ImpersonationMode.ARBITRARY_NODE]
    assert identity_modes(Rule()) == []


@pytest.mark.parametrize("mode", CONSTRAINED)
def test_action_verb_is_split_into_mode_and_request_verb(mode: ImpersonationMode) -> None:
    assert action_verb(mode.action_verb("get")) == (mode, "get")
    assert action_verb(f"impersonate-on:{mode.value}:") == (mode, "")
    assert action_verb(f"impersonate-on:{mode.value}:a:b") == (mode, "a:b")


@pytest.mark.parametrize(
    "verb",
    [
        "get",
        "*",
        "impersonate",
        "impersonate:user-info",
        "impersonate-on:get",
        "impersonate-on:user-info",
        "impersonate-on:legacy:get",
        "impersonate-on:userinfo:get",
        "Impersonate-on:user-info:get",
        " impersonate-on:user-info:get",
        "",
    ],
)
def test_other_verb_is_no_action_verb(verb: str) -> None:
    assert action_verb(verb) is None
    assert action_verbs(Rule((verb,))) == []


def test_action_verbs_of_a_rule_keep_their_order() -> None:
    rule = Rule(
        ("impersonate-on:user-info:list", "get", "impersonate-on:serviceaccount:get", "impersonate")
    )

    assert action_verbs(rule) == [
        (ImpersonationMode.USER_INFO, "list"),
        (ImpersonationMode.SERVICE_ACCOUNT, "get"),
    ]


def test_items_are_separated_by_commas() -> None:
    assert comma_separated(iter(["a", "b"])) == "a, b"
    assert comma_separated([]) == ""
