"""What the manifests grant is what the proxy is tested with, and what it looks for in itself."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.core.own_rights import FORWARDING, NAMING_ORIGINAL_USERS, REVIEWING, Right, token_request
from proxy.sandbox.own_rules import (
    COMPONENTS,
    FORWARDER_RULES,
    ORIGINAL_USER,
    REVIEWER_RULES,
    Rule,
)

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "understudy"


def objects(directory: Path) -> list[dict[str, Any]]:
    """Return every object that a kustomization names."""
    listed = yaml.safe_load((directory / "kustomization.yaml").read_text())["resources"]
    return [one for file in listed for one in yaml.safe_load_all((directory / file).read_text())]


def roles(directory: Path) -> dict[str, list[Rule]]:
    return {
        one["metadata"]["name"]: one["rules"]
        for one in objects(directory)
        if one["kind"] in ("ClusterRole", "Role")
    }


def rights(rules: Iterable[Rule], namespace: str = "") -> set[Right]:
    """Return each right that rules without a star grant."""
    return {
        Right(verb, resource, group, subresource, namespace, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for name in rule.get("resourceNames", [""])
        for resource, _, subresource in (one.partition("/") for one in rule["resources"])
    }


def test_the_roles_are_those_that_every_test_against_a_real_server_runs_with() -> None:
    granted = roles(MANIFESTS / "base")

    assert granted.pop("understudy-forwarder-token") == [
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": ["understudy-forwarder"],
            "verbs": ["create"],
        }
    ]
    assert granted == {
        "understudy-reviewer": list(REVIEWER_RULES),
        "understudy-forwarder": list(FORWARDER_RULES),
    }


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_grants_the_forwarder_what_tests_of_it_run_with(component: str) -> None:
    directory = MANIFESTS / "components" / component

    assert roles(directory) == {f"understudy-forwarder-{component}": list(COMPONENTS[component])}
    assert {one["name"] for one in subjects(directory)} == {"understudy-forwarder"}


def test_the_self_check_looks_for_what_the_manifests_grant() -> None:
    token = roles(MANIFESTS / "base")["understudy-forwarder-token"]

    assert rights(REVIEWER_RULES) == set(REVIEWING)
    assert rights(FORWARDER_RULES) == set(FORWARDING)
    assert rights(COMPONENTS[ORIGINAL_USER]) == set(NAMING_ORIGINAL_USERS)
    assert rights(token, NAMESPACE) == {token_request(NAMESPACE, "understudy-forwarder")}


def subjects(directory: Path) -> list[dict[str, str]]:
    bindings = [one for one in objects(directory) if one["kind"].endswith("Binding")]
    return [subject for binding in bindings for subject in binding["subjects"]]


def test_nobody_but_our_two_accounts_is_granted_anything() -> None:
    accounts = {
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for one in objects(MANIFESTS / "base")
        if one["kind"] == "ServiceAccount"
    }

    assert accounts == {(NAMESPACE, "understudy-reviewer"), (NAMESPACE, "understudy-forwarder")}
    for directory in (MANIFESTS / "base", *(MANIFESTS / "components").iterdir()):
        assert {(one["namespace"], one["name"]) for one in subjects(directory)} <= accounts
