import pytest

from proxy.core.explain.explanation import why_it_applies, why_it_does_not
from proxy.core.impersonation.checks import DecisionRules
from proxy.core.impersonation.modes import Mode
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    Identity,
    extra_of,
)

BOB = Caller(Identity("bob"))
RULES = DecisionRules()
NODE = Identity("system:node:n1")
ACCOUNT = Identity("system:serviceaccount:a:b")
POD = {
    "authentication.kubernetes.io/pod-name": ["p"],
    "authentication.kubernetes.io/pod-uid": ["1"],
}


def agent(extra: dict[str, list[str]], *, found_node: str | None = None) -> Caller:
    return Caller(Identity("system:serviceaccount:ns:agent", extra=extra_of(extra)), found_node)


@pytest.mark.parametrize(
    ("mode", "wanted", "words"),
    [
        (Mode.ASSOCIATED_NODE, NODE, "is the node that the caller runs on"),
        (Mode.ARBITRARY_NODE, NODE, "is a node"),
        (Mode.SERVICE_ACCOUNT, ACCOUNT, "is a service account"),
        (Mode.USER_INFO, Identity("alice"), "neither a node nor a service account"),
        (Mode.LEGACY, NODE, "tried last"),
    ],
)
def test_a_mode_that_applies_says_why(mode: Mode, wanted: Identity, words: str) -> None:
    assert words in why_it_applies(mode, wanted)


@pytest.mark.parametrize(
    ("mode", "caller", "wanted", "words"),
    [
        (Mode.LEGACY, BOB, NODE, "impersonation.legacy"),
        (Mode.USER_INFO, BOB, NODE, "system:node:n1 is a node, which has a mode of its own"),
        (Mode.USER_INFO, BOB, ACCOUNT, "is a service account, which"),
        (Mode.SERVICE_ACCOUNT, BOB, NODE, "is not a service account"),
        (
            Mode.SERVICE_ACCOUNT,
            BOB,
            Identity(ACCOUNT.name, uid="1", groups=("g",)),
            "a service account together with groups and a uid",
        ),
        (Mode.SERVICE_ACCOUNT, BOB, Identity("system:serviceaccount:a:B"), "no valid name of one"),
        (Mode.ARBITRARY_NODE, BOB, Identity("alice"), "alice is not a node"),
        (Mode.ARBITRARY_NODE, BOB, Identity("system:node:X"), "no valid name of one"),
        (
            Mode.ARBITRARY_NODE,
            BOB,
            Identity(NODE.name, extra=extra_of({"k": ["v"]})),
            "a node together with extras",
        ),
        (Mode.ASSOCIATED_NODE, BOB, NODE, "the caller is not a service account"),
        (Mode.ASSOCIATED_NODE, agent({}), NODE, "names no node"),
        (Mode.ASSOCIATED_NODE, agent(POD), NODE, "impersonation.boundPodLookup"),
        (Mode.ASSOCIATED_NODE, agent({NODE_NAME_KEY: []}), NODE, "not name exactly one node"),
        (Mode.ASSOCIATED_NODE, agent({NODE_NAME_KEY: ["n2"]}), NODE, "runs on n2, not on n1"),
        (Mode.ASSOCIATED_NODE, agent(POD, found_node="n3"), NODE, "runs on n3, not on n1"),
    ],
)
def test_a_mode_that_does_not_apply_says_why(
    mode: Mode, caller: Caller, wanted: Identity, words: str
) -> None:
    assert words in why_it_does_not(mode, caller, wanted, RULES)


def test_a_switch_that_is_off_is_the_reason_for_every_constrained_mode() -> None:
    rules = DecisionRules(constrained=False)

    assert "impersonation.constrained" in why_it_does_not(Mode.USER_INFO, BOB, NODE, rules)
