"""Explanations: what their parts say together, and why a mode applies or not."""

import pytest

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.explain.explanation import (
    CheckOutcome,
    ClientResponse,
    ExplainRequest,
    Explanation,
    applicable_reason,
    inapplicable_reason,
)
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
)

BOB = Caller(UserInfo("bob"))
RULES = ImpersonationRules()
NODE = UserInfo("system:node:n1")
ACCOUNT = UserInfo("system:serviceaccount:a:b")
POD = {
    "authentication.kubernetes.io/pod-name": ["p"],
    "authentication.kubernetes.io/pod-uid": ["1"],
}


def agent(extra: dict[str, list[str]], *, looked_up_node: str | None = None) -> Caller:
    user = UserInfo("system:serviceaccount:ns:agent", extra=make_extra(extra))
    return Caller(user, looked_up_node)


@pytest.mark.parametrize(
    ("mode", "wanted_user", "words"),
    [
        (ImpersonationMode.ASSOCIATED_NODE, NODE, "is the node that the caller runs on"),
        (ImpersonationMode.ARBITRARY_NODE, NODE, "is a node"),
        (ImpersonationMode.SERVICE_ACCOUNT, ACCOUNT, "is a service account"),
        (ImpersonationMode.USER_INFO, UserInfo("alice"), "neither a node nor a service account"),
        (ImpersonationMode.LEGACY, NODE, "tried last"),
    ],
)
def test_applicable_mode_has_its_reason(
    mode: ImpersonationMode, wanted_user: UserInfo, words: str
) -> None:
    assert words in applicable_reason(mode, wanted_user)


@pytest.mark.parametrize(
    ("mode", "caller", "wanted_user", "words"),
    [
        (ImpersonationMode.LEGACY, BOB, NODE, "impersonation.legacy"),
        (
            ImpersonationMode.USER_INFO,
            BOB,
            NODE,
            "system:node:n1 is a node, which has its own mode",
        ),
        (ImpersonationMode.USER_INFO, BOB, ACCOUNT, "is a service account, which"),
        (ImpersonationMode.SERVICE_ACCOUNT, BOB, NODE, "is not a service account"),
        (
            ImpersonationMode.SERVICE_ACCOUNT,
            BOB,
            UserInfo(ACCOUNT.name, uid="1", groups=("g",)),
            "a service account together with groups and a uid",
        ),
        (
            ImpersonationMode.SERVICE_ACCOUNT,
            BOB,
            UserInfo("system:serviceaccount:a:B"),
            "the rest is not a valid name",
        ),
        (ImpersonationMode.ARBITRARY_NODE, BOB, UserInfo("alice"), "alice is not a node"),
        (
            ImpersonationMode.ARBITRARY_NODE,
            BOB,
            UserInfo("system:node:X"),
            "the rest is not a valid name",
        ),
        (
            ImpersonationMode.ARBITRARY_NODE,
            BOB,
            UserInfo(NODE.name, extra=make_extra({"k": ["v"]})),
            "a node together with extras",
        ),
        (ImpersonationMode.ASSOCIATED_NODE, BOB, NODE, "the caller is not a service account"),
        (ImpersonationMode.ASSOCIATED_NODE, agent({}), NODE, "names no node"),
        (ImpersonationMode.ASSOCIATED_NODE, agent(POD), NODE, "impersonation.boundPodLookup"),
        (
            ImpersonationMode.ASSOCIATED_NODE,
            agent({NODE_NAME_KEY: []}),
            NODE,
            "not name exactly one node",
        ),
        (
            ImpersonationMode.ASSOCIATED_NODE,
            agent({NODE_NAME_KEY: ["n2"]}),
            NODE,
            "runs on n2, not on n1",
        ),
        (
            ImpersonationMode.ASSOCIATED_NODE,
            agent(POD, looked_up_node="n3"),
            NODE,
            "runs on n3, not on n1",
        ),
    ],
)
def test_inapplicable_mode_has_its_reason(
    mode: ImpersonationMode, caller: Caller, wanted_user: UserInfo, words: str
) -> None:
    assert words in inapplicable_reason(mode, caller, wanted_user, RULES)


@pytest.mark.parametrize(
    "mode", [mode for mode in ImpersonationMode if mode is not ImpersonationMode.LEGACY]
)
def test_switched_off_constrained_impersonation_is_the_reason_for_every_constrained_mode(
    mode: ImpersonationMode,
) -> None:
    off = ImpersonationRules(constrained=False)

    assert "impersonation.constrained" in inapplicable_reason(mode, BOB, NODE, off)
    assert "impersonation.constrained" not in inapplicable_reason(mode, BOB, NODE, RULES)


def test_switched_off_constrained_impersonation_is_no_reason_for_the_legacy_mode() -> None:
    off = ImpersonationRules(constrained=False)

    reason = inapplicable_reason(ImpersonationMode.LEGACY, BOB, NODE, off)

    assert "impersonation.legacy" in reason
    assert "impersonation.constrained" not in reason


PROXY_ERROR = ClientResponse(403, "denied", is_from_proxy=True)
SERVER_ERROR = ClientResponse(403, "denied", is_from_proxy=False)


def explanation(response: ClientResponse | None, *target_results: bool) -> Explanation:
    alice = UserInfo("alice")
    request_info = RequestInfo("get", "/version")
    check = AccessCheck(alice, "get", is_resource=False, path="/version")
    return Explanation(
        request=ExplainRequest(BOB, alice, request_info),
        attempts=(),
        mode=ImpersonationMode.USER_INFO,
        impersonated_user=alice,
        target_check=tuple(CheckOutcome(check, CheckResult(result)) for result in target_results),
        response=response,
    )


@pytest.mark.parametrize(
    ("response", "target_results", "is_forwarded", "is_target_allowed"),
    [
        pytest.param(None, (True,), True, True, id="success"),
        pytest.param(None, (True, True), True, True, id="success of two checks"),
        pytest.param(PROXY_ERROR, (True,), False, True, id="denied by the proxy"),
        pytest.param(PROXY_ERROR, (), False, True, id="denied by the proxy, target unchecked"),
        pytest.param(PROXY_ERROR, (False,), False, False, id="denied by both"),
        pytest.param(SERVER_ERROR, (False,), True, False, id="denied by the API server"),
        pytest.param(SERVER_ERROR, (True, False), True, False, id="one of two checks denied"),
        pytest.param(SERVER_ERROR, (False, True), True, False, id="other of two checks denied"),
    ],
)
def test_request_is_allowed_only_if_impersonation_and_target_are(
    response: ClientResponse | None,
    target_results: tuple[bool, ...],
    *,
    is_forwarded: bool,
    is_target_allowed: bool,
) -> None:
    found = explanation(response, *target_results)

    assert found.is_impersonation_allowed == is_forwarded
    assert found.is_target_allowed == is_target_allowed
    assert found.is_allowed == (is_forwarded and is_target_allowed)
