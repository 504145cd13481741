import asyncio
from collections.abc import Collection
from typing import NamedTuple

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration

from proxy.analysis.cluster import Cluster, ClusterError, Object
from proxy.analysis.explain import build_result
from proxy.analysis.explain_warnings import DEFAULT_FORWARDER, cluster_warnings
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.explain.explainer import explain
from proxy.core.explain.explanation import DecisionContext, ExplainRequest, Explanation
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import Caller, UserInfo, make_extra

TEAM = make_extra({"acme.io/team": ["x"]})
ALICE = UserInfo("alice", extra=TEAM)


class Script(NamedTuple):
    """User name of the forwarder, what it may impersonate, and the code for other namespaces."""

    forwarder: str
    allowed: Collection[str]
    code: int = 404


class ScriptedCluster(Cluster):
    """A cluster with scripted permissions of the forwarder, and one namespace."""

    def __init__(self, client: ApiClient, script: Script) -> None:
        super().__init__(client)
        self._script = script

    async def review(self, check: AccessCheck) -> CheckResult:
        what = f"{check.resource}/{check.subresource}".rstrip("/")
        return CheckResult(
            check.verb == "impersonate"
            and check.user.name == self._script.forwarder
            and (what in self._script.allowed or f"{what}={check.name}" in self._script.allowed)
        )

    async def get(self, path: str, *, accept: str = "") -> Object:
        del accept
        if path == "/api/v1/namespaces/web":
            return {}
        raise ClusterError("no", code=self._script.code)


def explanation(wanted_user: UserInfo | None = ALICE, namespace: str = "web") -> Explanation:
    info = parse_request_info(b"GET", f"/api/v1/namespaces/{namespace}/pods".encode())
    steps = explain(
        ExplainRequest(Caller(UserInfo("bob")), wanted_user, info),
        DecisionContext(ImpersonationRules()),
    )
    try:
        next(steps)
        while True:
            steps.send(CheckResult(allowed=True))
    except StopIteration as finished:
        return build_result(finished.value).explanation


def warnings(
    script: Script, explained: Explanation, forwarder: str | None = None
) -> tuple[str, ...]:
    async def find() -> tuple[str, ...]:
        async with ApiClient(Configuration()) as client:
            return await cluster_warnings(ScriptedCluster(client, script), explained, forwarder)

    return asyncio.run(find())


def test_nothing_is_missing_without_a_warning() -> None:
    script = Script(DEFAULT_FORWARDER, {"users", "groups", "userextras/acme.io/team"})

    assert warnings(script, explanation()) == ()


def test_extra_that_the_forwarder_may_not_impersonate_is_named_with_its_manifest() -> None:
    (warning,) = warnings(Script(DEFAULT_FORWARDER, {"users", "groups"}), explanation())

    assert "also needs impersonate on userextras/acme.io/team" in warning
    assert "manifests/components/all-extras" in warning


def test_permission_for_the_name_is_enough() -> None:
    script = Script(
        DEFAULT_FORWARDER,
        {"users=alice", "groups=system:authenticated", "userextras/acme.io/team=x"},
    )

    assert warnings(script, explanation()) == ()


def test_nothing_is_said_of_a_forwarder_that_is_not_known() -> None:
    assert warnings(Script("another", {"users"}), explanation()) == ()


def test_named_forwarder_is_checked_completely() -> None:
    found = warnings(Script("another", ()), explanation(), forwarder="another")

    named = [text.partition("impersonate on ")[2].partition(",")[0] for text in found]
    assert named == ["users", "groups", "userextras/acme.io/team"]
    assert "manifests/base/forwarder.yaml" in found[0]


def test_request_without_impersonation_needs_no_forwarder_permission() -> None:
    assert warnings(Script("another", ()), explanation(None), forwarder="another") == ()


@pytest.mark.parametrize(("code", "is_named"), [(404, True), (403, False), (0, False)])
def test_namespace_that_does_not_exist_is_named(code: int, *, is_named: bool) -> None:
    script = Script(DEFAULT_FORWARDER, (), code=code)

    found = warnings(script, explanation(namespace="wbe"))

    assert [text.startswith("the namespace wbe does not exist") for text in found] == (
        [True] if is_named else []
    )
