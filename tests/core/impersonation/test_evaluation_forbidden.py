import pytest

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.evaluation import Denied, forbidden_error
from proxy.core.userinfo import UserInfo

BOB = UserInfo("bob")


@pytest.mark.parametrize(
    ("check", "reason", "message", "details"),
    [
        (
            AccessCheck(BOB, "impersonate-on:user-info:list", resource="pods", version="v1"),
            "",
            'pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods"'
            ' in API group "" at the cluster scope',
            {"kind": "pods"},
        ),
        (
            AccessCheck(
                UserInfo("u"),
                "impersonate:user-info",
                group="authentication.k8s.io",
                resource="userextras",
                subresource="pandas.io/scopes",
                name="scope-a",
            ),
            "deny by default",
            'userextras.authentication.k8s.io "scope-a" is forbidden: User "u" cannot'
            ' impersonate:user-info resource "userextras/pandas.io/scopes" in API group'
            ' "authentication.k8s.io" at the cluster scope: deny by default',
            {"name": "scope-a", "group": "authentication.k8s.io", "kind": "userextras"},
        ),
        (
            AccessCheck(
                UserInfo('<b>"&'), "v", resource="<r>", namespace="n\n", name="<x>&", group="g"
            ),
            "<reason> & more",
            '<r>.g "<x>&" is forbidden: User "&lt;b&gt;\\"&amp;" cannot v resource "&lt;r&gt;"'
            ' in API group "g" in the namespace "n\\n": <reason> & more',
            {"name": "<x>&", "group": "g", "kind": "<r>"},
        ),
        (
            AccessCheck(BOB, "impersonate-on:user-info:get"),
            "",
            'forbidden: User "bob" cannot impersonate-on:user-info:get resource ""'
            ' in API group "" at the cluster scope',
            {},
        ),
        (
            AccessCheck(BOB, "v", group="apps", name="x"),
            "",
            '.apps "x" is forbidden: User "bob" cannot v resource "" in API group "apps"'
            " at the cluster scope",
            {"name": "x", "group": "apps"},
        ),
        (
            AccessCheck(BOB, "impersonate-on:user-info:get", is_resource=False, path="/a<b"),
            "why",
            'forbidden: User "bob" cannot impersonate-on:user-info:get path "/a&lt;b": why',
            {},
        ),
    ],
)
def test_a_denial_reads_as_the_api_server_s(
    check: AccessCheck, reason: str, message: str, details: dict[str, str]
) -> None:
    error = forbidden_error(Denied(check, reason))

    assert error.message == message
    assert error.details == details
    assert list(error.details or {}) == list(details)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (AccessCheck(BOB, "get", is_resource=False, path="/a"), "get /a"),
        (AccessCheck(BOB, "list", resource="pods"), "list pods"),
        (
            AccessCheck(
                BOB, "x:get", group="apps", resource="deployments", subresource="scale",
                namespace="n", name="d",
            ),
            "x:get deployments.apps/scale d in n",
        ),
    ],
)  # fmt: skip
def test_the_check_that_failed_is_told_to_auditors_in_few_words(
    check: AccessCheck, text: str
) -> None:
    assert forbidden_error(Denied(check, "")).failed_check == text


def test_a_denial_without_a_failed_check_says_only_why() -> None:
    error = forbidden_error(Denied(None, "legacy impersonation is disabled"))

    assert error.message == "legacy impersonation is disabled"
    assert error.details == {}
