import pytest

from proxy.core.explain.explanation import applicable_reason, inapplicable_reason
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.impersonation.modes import ImpersonationMode
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


def agent(extra: dict[str, list[str]], *, found_node: str | None = None) -> Caller:
    return Caller(UserInfo("system:serviceaccount:ns:agent", extra=make_extra(extra)), found_node)


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
def test_a_mode_that_applies_says_why(
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
            agent(POD, found_node="n3"),
            NODE,
            "runs on n3, not on n1",
        ),
    ],
)
def test_a_mode_that_does_not_apply_says_why(
    mode: ImpersonationMode, caller: Caller, wanted_user: UserInfo, words: str
) -> None:
    assert words in inapplicable_reason(mode, caller, wanted_user, RULES)


def test_a_switch_that_is_off_is_the_reason_for_every_constrained_mode() -> None:
    rules = ImpersonationRules(constrained=False)

    assert "impersonation.constrained" in inapplicable_reason(
        ImpersonationMode.USER_INFO, BOB, NODE, rules
    )
