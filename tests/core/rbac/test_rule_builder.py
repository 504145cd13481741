"""Minimal rules: they allow the checks they are built from, and nothing else."""

from dataclasses import replace
from itertools import product

import pytest

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.rbac.model import Rule
from proxy.core.rbac.rule_builder import scoped_rules
from proxy.core.userinfo import UserInfo

JANE = UserInfo("jane")
PODS = AccessCheck(JANE, "get", resource="pods", namespace="shop")
VERSION = AccessCheck(JANE, "get", is_resource=False, path="/version")


def pods(verb: str = "get", *, name: str = "", namespace: str = "shop") -> AccessCheck:
    return replace(PODS, verb=verb, name=name, namespace=namespace)


def path(text: str, verb: str = "get") -> AccessCheck:
    return replace(VERSION, path=text, verb=verb)


CASES = [
    pytest.param([], {}, id="no checks need no rules"),
    pytest.param([PODS], {"shop": (Rule(("get",), ("",), ("pods",)),)}, id="namespace"),
    pytest.param(
        [pods(namespace="")], {"": (Rule(("get",), ("",), ("pods",)),)}, id="cluster-wide"
    ),
    pytest.param(
        [pods(namespace="b"), pods(namespace="a")],
        {"a": (Rule(("get",), ("",), ("pods",)),), "b": (Rule(("get",), ("",), ("pods",)),)},
        id="namespaces are sorted",
    ),
    pytest.param(
        [replace(PODS, subresource="log")],
        {"shop": (Rule(("get",), ("",), ("pods/log",)),)},
        id="subresource",
    ),
    pytest.param(
        [pods("watch"), pods("list"), pods("list")],
        {"shop": (Rule(("list", "watch"), ("",), ("pods",)),)},
        id="verbs are merged",
    ),
    pytest.param(
        [pods(name="b"), pods(name="a")],
        {"shop": (Rule(("get",), ("",), ("pods",), ("a", "b")),)},
        id="names are merged",
    ),
    pytest.param(
        [pods(), replace(PODS, resource="events")],
        {"shop": (Rule(("get",), ("",), ("events", "pods")),)},
        id="resources are merged",
    ),
    pytest.param(
        [
            replace(PODS, group="apps", resource="deployments"),
            replace(PODS, group="a.io", resource="deployments"),
        ],
        {"shop": (Rule(("get",), ("a.io", "apps"), ("deployments",)),)},
        id="groups are merged",
    ),
    pytest.param(
        [pods(name="a"), pods("delete", name="b")],
        {
            "shop": (
                Rule(("get",), ("",), ("pods",), ("a",)),
                Rule(("delete",), ("",), ("pods",), ("b",)),
            )
        },
        id="different names with different verbs are not merged",
    ),
    pytest.param(
        [pods(), replace(PODS, group="apps", resource="deployments")],
        {
            "shop": (
                Rule(("get",), ("",), ("pods",)),
                Rule(("get",), ("apps",), ("deployments",)),
            )
        },
        id="different resources of different groups are not merged",
    ),
    pytest.param(
        [pods(name="a"), pods()],
        {"shop": (Rule(("get",), ("",), ("pods",)),)},
        id="permission for all names includes one name",
    ),
    pytest.param(
        [pods("delete", name="a"), pods()],
        {
            "shop": (
                Rule(("get",), ("",), ("pods",)),
                Rule(("delete",), ("",), ("pods",), ("a",)),
            )
        },
        id="permission for all names includes no other verb",
    ),
    pytest.param(
        [pods(), pods("list"), pods(namespace="")],
        {"": (Rule(("get",), ("",), ("pods",)),), "shop": (Rule(("list",), ("",), ("pods",)),)},
        id="cluster-wide permission is not repeated in a namespace",
    ),
    pytest.param(
        [pods(), pods(namespace="")],
        {"": (Rule(("get",), ("",), ("pods",)),)},
        id="namespace without a rule of its own is left out",
    ),
    pytest.param(
        [pods(), pods(name="a", namespace="")],
        {
            "": (Rule(("get",), ("",), ("pods",), ("a",)),),
            "shop": (Rule(("get",), ("",), ("pods",)),),
        },
        id="cluster-wide permission for one name leaves the others",
    ),
    pytest.param(
        [path("/version"), path("/healthz"), path("/version", "head")],
        {"": (Rule(("get",), paths=("/healthz",)), Rule(("get", "head"), paths=("/version",)))},
        id="paths",
    ),
    pytest.param(
        [path("/api/*"), path("/api/v1"), path("/api"), path("/api/v1", "post")],
        {"": (Rule(("get",), paths=("/api", "/api/*")), Rule(("post",), paths=("/api/v1",)))},
        id="pattern includes the paths that it matches, for its own verb",
    ),
    pytest.param(
        [path("/version"), pods(namespace="")],
        {"": (Rule(("get",), ("",), ("pods",)), Rule(("get",), paths=("/version",)))},
        id="paths are never merged with resources",
    ),
]


@pytest.mark.parametrize(("checks", "expected"), CASES)
def test_checks_become_the_expected_rules(
    checks: list[AccessCheck], expected: dict[str, tuple[Rule, ...]]
) -> None:
    assert scoped_rules(checks) == expected


@pytest.mark.parametrize(("checks", "expected"), CASES)
def test_order_of_the_checks_does_not_change_the_rules(
    checks: list[AccessCheck], expected: dict[str, tuple[Rule, ...]]
) -> None:
    assert scoped_rules(reversed(checks)) == expected


@pytest.mark.parametrize("is_named", [True, False])
def test_rule_for_the_associated_node_has_no_names(*, is_named: bool) -> None:
    check = AccessCheck(
        JANE,
        "impersonate:associated-node" if not is_named else "impersonate:arbitrary-node",
        group="authentication.k8s.io",
        resource="nodes",
        name="*" if not is_named else "n1",
    )

    ((rule,),) = scoped_rules([check]).values()

    assert rule.names == (("n1",) if is_named else ())
    assert rule.allows(check)


def is_allowed(scopes: dict[str, tuple[Rule, ...]], check: AccessCheck) -> bool:
    rules = (*scopes.get("", ()), *scopes.get(check.namespace, ()))
    return any(rule.allows(check) for rule in rules)


def test_merged_rules_allow_exactly_the_checks_among_all_combinations() -> None:
    every = [
        AccessCheck(JANE, verb, group=group, resource=resource, name=name, namespace=namespace)
        for verb, group, resource, name, namespace in product(
            ("get", "list"), ("", "apps"), ("pods", "events"), ("a", "b"), ("shop", "bank")
        )
    ]

    # Each set of needed checks has another pattern of what is missing.
    for step in range(2, 12):
        needed, others = every[::step], [c for n, c in enumerate(every) if n % step]
        scopes = scoped_rules(needed)
        assert all(is_allowed(scopes, check) for check in needed)
        assert not any(is_allowed(scopes, check) for check in others)
