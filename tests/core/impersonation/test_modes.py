import pytest

from proxy.core.impersonation.modes import ImpersonationMode, applicable_modes, impersonated_user
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
)

BOB = UserInfo("bob")
AGENT = UserInfo("system:serviceaccount:ns:agent", extra=make_extra({NODE_NAME_KEY: ["n1"]}))
NODE = "system:node:n1"
ACCOUNT = "system:serviceaccount:ns:sa"

ASSOCIATED = (
    ImpersonationMode.ASSOCIATED_NODE,
    ImpersonationMode.ARBITRARY_NODE,
    ImpersonationMode.LEGACY,
)
ARBITRARY = (ImpersonationMode.ARBITRARY_NODE, ImpersonationMode.LEGACY)
SERVICE_ACCOUNT = (ImpersonationMode.SERVICE_ACCOUNT, ImpersonationMode.LEGACY)
USER_INFO = (ImpersonationMode.USER_INFO, ImpersonationMode.LEGACY)
LEGACY = (ImpersonationMode.LEGACY,)


@pytest.mark.parametrize(
    ("caller", "wanted_user", "modes"),
    [
        (BOB, UserInfo("alice"), USER_INFO),
        (BOB, UserInfo("alice", "1", ("g",), make_extra({"k": ["v"]})), USER_INFO),
        (BOB, UserInfo("system:node:Node_1"), USER_INFO),
        (BOB, UserInfo("system:node:"), USER_INFO),
        (BOB, UserInfo("system:serviceaccount:a:B"), USER_INFO),
        (BOB, UserInfo("system:anonymous"), USER_INFO),
        (BOB, UserInfo(ACCOUNT), SERVICE_ACCOUNT),
        (AGENT, UserInfo(ACCOUNT), SERVICE_ACCOUNT),
        (BOB, UserInfo(ACCOUNT, uid="1"), LEGACY),
        (BOB, UserInfo(ACCOUNT, groups=("",)), LEGACY),
        (BOB, UserInfo(ACCOUNT, extra=make_extra({"k": ["v"]})), LEGACY),
        (BOB, UserInfo(NODE), ARBITRARY),
        (BOB, UserInfo(NODE, groups=("system:nodes",)), LEGACY),
        (AGENT, UserInfo(NODE), ASSOCIATED),
        (AGENT, UserInfo(NODE, uid="1"), LEGACY),
        (AGENT, UserInfo("system:node:n2"), ARBITRARY),
        (UserInfo("bob", extra=AGENT.extra), UserInfo(NODE), ARBITRARY),
        (UserInfo(AGENT.name), UserInfo(NODE), ARBITRARY),
        (UserInfo(AGENT.name, extra=make_extra({NODE_NAME_KEY: []})), UserInfo(NODE), ARBITRARY),
        (
            UserInfo(AGENT.name, extra=make_extra({NODE_NAME_KEY: ["n1", "n1"]})),
            UserInfo(NODE),
            ARBITRARY,
        ),
        (
            UserInfo(AGENT.name, extra=make_extra({"other": ["n1"]})),
            UserInfo(NODE),
            ARBITRARY,
        ),
    ],
)
def test_a_mode_applies_by_who_is_wanted_and_who_asks(
    caller: UserInfo, wanted_user: UserInfo, modes: tuple[ImpersonationMode, ...]
) -> None:
    assert applicable_modes(Caller(caller), wanted_user) == modes


@pytest.mark.parametrize(
    ("caller", "found_node", "modes"),
    [
        (UserInfo(AGENT.name), "n1", ASSOCIATED),
        (UserInfo(AGENT.name), "n2", ARBITRARY),
        (UserInfo(AGENT.name), None, ARBITRARY),
        (UserInfo("bob"), "n1", ARBITRARY),
        (UserInfo(AGENT.name, extra=make_extra({NODE_NAME_KEY: ["n2"]})), "n1", ARBITRARY),
        (UserInfo(AGENT.name, extra=make_extra({NODE_NAME_KEY: []})), "n1", ARBITRARY),
        (AGENT, "n2", ASSOCIATED),
    ],
)
def test_a_node_that_was_found_counts_only_where_the_token_names_none(
    caller: UserInfo, found_node: str | None, modes: tuple[ImpersonationMode, ...]
) -> None:
    assert applicable_modes(Caller(caller, found_node), UserInfo(NODE)) == modes


@pytest.mark.parametrize(
    ("mode", "wanted_user", "groups"),
    [
        (
            ImpersonationMode.USER_INFO,
            UserInfo("a", groups=("g", "g")),
            ("g", "g", "system:authenticated"),
        ),
        (ImpersonationMode.USER_INFO, UserInfo("system:anonymous"), ("system:unauthenticated",)),
        (
            ImpersonationMode.USER_INFO,
            UserInfo("a", groups=("system:unauthenticated",)),
            ("system:unauthenticated",),
        ),
        (
            ImpersonationMode.ASSOCIATED_NODE,
            UserInfo(NODE),
            ("system:nodes", "system:authenticated"),
        ),
        (
            ImpersonationMode.ARBITRARY_NODE,
            UserInfo(NODE),
            ("system:nodes", "system:authenticated"),
        ),
        (ImpersonationMode.LEGACY, UserInfo(NODE), ("system:authenticated",)),
        (ImpersonationMode.LEGACY, UserInfo(ACCOUNT, groups=("g",)), ("g", "system:authenticated")),
        *(
            (
                mode,
                UserInfo(ACCOUNT),
                ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
            )
            for mode in (ImpersonationMode.SERVICE_ACCOUNT, ImpersonationMode.LEGACY)
        ),
    ],
)
def test_an_impersonated_identity_gets_its_fixed_groups(
    mode: ImpersonationMode, wanted_user: UserInfo, groups: tuple[str, ...]
) -> None:
    assert impersonated_user(mode, wanted_user) == UserInfo(
        wanted_user.name, wanted_user.uid, groups, wanted_user.extra
    )


def test_uid_and_extras_are_kept_as_wanted() -> None:
    wanted_user = UserInfo("a", "1", ("g",), make_extra({"k": ["v"]}))

    acting = impersonated_user(ImpersonationMode.USER_INFO, wanted_user)

    assert (acting.uid, acting.extra) == ("1", wanted_user.extra)


def test_each_mode_has_its_verbs() -> None:
    assert [mode.identity_verb for mode in ImpersonationMode] == [
        "impersonate:associated-node",
        "impersonate:arbitrary-node",
        "impersonate:serviceaccount",
        "impersonate:user-info",
        "impersonate",
    ]
    assert [
        mode.constraint for mode in (ImpersonationMode.USER_INFO, ImpersonationMode.LEGACY)
    ] == [
        "impersonate:user-info",
        None,
    ]
    assert ImpersonationMode.USER_INFO.action_verb("list") == "impersonate-on:user-info:list"
