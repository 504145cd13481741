import pytest

from proxy.core.impersonation.modes import Mode, acting_identity, applicable_modes
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    Identity,
    extra_of,
)

BOB = Identity("bob")
AGENT = Identity("system:serviceaccount:ns:agent", extra=extra_of({NODE_NAME_KEY: ["n1"]}))
NODE = "system:node:n1"
ACCOUNT = "system:serviceaccount:ns:sa"

ASSOCIATED = (Mode.ASSOCIATED_NODE, Mode.ARBITRARY_NODE, Mode.LEGACY)
ARBITRARY = (Mode.ARBITRARY_NODE, Mode.LEGACY)
SERVICE_ACCOUNT = (Mode.SERVICE_ACCOUNT, Mode.LEGACY)
USER_INFO = (Mode.USER_INFO, Mode.LEGACY)
LEGACY = (Mode.LEGACY,)


@pytest.mark.parametrize(
    ("caller", "wanted", "modes"),
    [
        (BOB, Identity("alice"), USER_INFO),
        (BOB, Identity("alice", "1", ("g",), extra_of({"k": ["v"]})), USER_INFO),
        (BOB, Identity("system:node:Node_1"), USER_INFO),
        (BOB, Identity("system:node:"), USER_INFO),
        (BOB, Identity("system:serviceaccount:a:B"), USER_INFO),
        (BOB, Identity("system:anonymous"), USER_INFO),
        (BOB, Identity(ACCOUNT), SERVICE_ACCOUNT),
        (AGENT, Identity(ACCOUNT), SERVICE_ACCOUNT),
        (BOB, Identity(ACCOUNT, uid="1"), LEGACY),
        (BOB, Identity(ACCOUNT, groups=("",)), LEGACY),
        (BOB, Identity(ACCOUNT, extra=extra_of({"k": ["v"]})), LEGACY),
        (BOB, Identity(NODE), ARBITRARY),
        (BOB, Identity(NODE, groups=("system:nodes",)), LEGACY),
        (AGENT, Identity(NODE), ASSOCIATED),
        (AGENT, Identity(NODE, uid="1"), LEGACY),
        (AGENT, Identity("system:node:n2"), ARBITRARY),
        (Identity("bob", extra=AGENT.extra), Identity(NODE), ARBITRARY),
        (Identity(AGENT.name), Identity(NODE), ARBITRARY),
        (Identity(AGENT.name, extra=extra_of({NODE_NAME_KEY: []})), Identity(NODE), ARBITRARY),
        (
            Identity(AGENT.name, extra=extra_of({NODE_NAME_KEY: ["n1", "n1"]})),
            Identity(NODE),
            ARBITRARY,
        ),
        (
            Identity(AGENT.name, extra=extra_of({"other": ["n1"]})),
            Identity(NODE),
            ARBITRARY,
        ),
    ],
)
def test_a_mode_applies_by_who_is_wanted_and_who_asks(
    caller: Identity, wanted: Identity, modes: tuple[Mode, ...]
) -> None:
    assert applicable_modes(Caller(caller), wanted) == modes


@pytest.mark.parametrize(
    ("caller", "found_node", "modes"),
    [
        (Identity(AGENT.name), "n1", ASSOCIATED),
        (Identity(AGENT.name), "n2", ARBITRARY),
        (Identity(AGENT.name), None, ARBITRARY),
        (Identity("bob"), "n1", ARBITRARY),
        (Identity(AGENT.name, extra=extra_of({NODE_NAME_KEY: ["n2"]})), "n1", ARBITRARY),
        (Identity(AGENT.name, extra=extra_of({NODE_NAME_KEY: []})), "n1", ARBITRARY),
        (AGENT, "n2", ASSOCIATED),
    ],
)
def test_a_node_that_was_found_counts_only_where_the_token_names_none(
    caller: Identity, found_node: str | None, modes: tuple[Mode, ...]
) -> None:
    assert applicable_modes(Caller(caller, found_node), Identity(NODE)) == modes


@pytest.mark.parametrize(
    ("mode", "wanted", "groups"),
    [
        (Mode.USER_INFO, Identity("a", groups=("g", "g")), ("g", "g", "system:authenticated")),
        (Mode.USER_INFO, Identity("system:anonymous"), ("system:unauthenticated",)),
        (
            Mode.USER_INFO,
            Identity("a", groups=("system:unauthenticated",)),
            ("system:unauthenticated",),
        ),
        (Mode.ASSOCIATED_NODE, Identity(NODE), ("system:nodes", "system:authenticated")),
        (Mode.ARBITRARY_NODE, Identity(NODE), ("system:nodes", "system:authenticated")),
        (Mode.LEGACY, Identity(NODE), ("system:authenticated",)),
        (Mode.LEGACY, Identity(ACCOUNT, groups=("g",)), ("g", "system:authenticated")),
        *(
            (
                mode,
                Identity(ACCOUNT),
                ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
            )
            for mode in (Mode.SERVICE_ACCOUNT, Mode.LEGACY)
        ),
    ],
)
def test_an_impersonated_identity_gets_its_fixed_groups(
    mode: Mode, wanted: Identity, groups: tuple[str, ...]
) -> None:
    assert acting_identity(mode, wanted) == Identity(wanted.name, wanted.uid, groups, wanted.extra)


def test_uid_and_extras_are_kept_as_wanted() -> None:
    wanted = Identity("a", "1", ("g",), extra_of({"k": ["v"]}))

    acting = acting_identity(Mode.USER_INFO, wanted)

    assert (acting.uid, acting.extra) == ("1", wanted.extra)


def test_each_mode_has_its_verbs() -> None:
    assert [mode.identity_verb for mode in Mode] == [
        "impersonate:associated-node",
        "impersonate:arbitrary-node",
        "impersonate:serviceaccount",
        "impersonate:user-info",
        "impersonate",
    ]
    assert [mode.constraint for mode in (Mode.USER_INFO, Mode.LEGACY)] == [
        "impersonate:user-info",
        None,
    ]
    assert Mode.USER_INFO.action_verb("list") == "impersonate-on:user-info:list"
