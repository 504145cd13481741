import pytest

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.checks import (
    Attempt,
    ForbiddenStep,
    ImpersonationRules,
    Step,
    WildcardCheck,
    identity_steps,
    plan_attempts,
    request_checks,
)
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
)
from tests.core.play import short

BOB = Caller(UserInfo("bob", "7", ("dev",), make_extra({"k": ["v"]})))
AGENT_EXTRA = make_extra(
    {NODE_NAME_KEY: ["n1"], "authentication.kubernetes.io/credential-id": ["JTI=1"]}
)
AGENT = Caller(UserInfo("system:serviceaccount:ns:agent", "9", ("sa",), AGENT_EXTRA))
ALICE = UserInfo("alice")
NODE = UserInfo("system:node:n1")
ACCOUNT = UserInfo("system:serviceaccount:ns:sa")
LIST_PODS = parse_request_info(
    b"GET", b"/api/v1/namespaces/a/pods?labelSelector=x=y&fieldSelector=f=g"
)
RULES = ImpersonationRules()
FORMER = ImpersonationRules(constrained=False)
AUTHENTICATION = "authentication.k8s.io"


def attempt(
    mode: ImpersonationMode,
    wanted_user: UserInfo,
    *,
    rules: ImpersonationRules = RULES,
    caller: Caller = BOB,
) -> Attempt:
    attempts = plan_attempts(caller, wanted_user, LIST_PODS, rules=rules)
    return next(found for found in attempts if found.mode is mode)


def say(steps: list[Step]) -> list[str]:
    words = []
    for step in steps:
        match step:
            case AccessCheck():
                words.append(short(step))
            case WildcardCheck():
                words.append(f"{short(step.check)} or {len(step.individual_checks())} more")
            case ForbiddenStep():
                words.append(f"{short(step.check)}: {step.reason}")
    return words


@pytest.mark.parametrize(
    ("mode", "wanted_user", "group", "what"),
    [
        (ImpersonationMode.USER_INFO, ALICE, AUTHENTICATION, ("users", "", "alice")),
        (ImpersonationMode.ARBITRARY_NODE, NODE, AUTHENTICATION, ("nodes", "", "n1")),
        (
            ImpersonationMode.SERVICE_ACCOUNT,
            ACCOUNT,
            AUTHENTICATION,
            ("serviceaccounts", "ns", "sa"),
        ),
        (ImpersonationMode.LEGACY, ALICE, "", ("users", "", "alice")),
        (ImpersonationMode.LEGACY, NODE, "", ("users", "", "system:node:n1")),
        (ImpersonationMode.LEGACY, ACCOUNT, "", ("serviceaccounts", "ns", "sa")),
    ],
)
def test_the_username_is_checked_as_what_it_stands_for(
    mode: ImpersonationMode, wanted_user: UserInfo, group: str, what: tuple[str, str, str]
) -> None:
    resource, namespace, name = what

    assert identity_steps(attempt(mode, wanted_user)) == [
        AccessCheck(
            BOB.user,
            mode.identity_verb,
            group=group,
            version="v1",
            resource=resource,
            namespace=namespace,
            name=name,
        )
    ]


def test_an_agent_of_a_node_is_shown_without_values_that_differ_from_node_to_node() -> None:
    planned = attempt(ImpersonationMode.ASSOCIATED_NODE, NODE, caller=AGENT)
    shown = UserInfo(
        AGENT.user.name,
        "9",
        ("sa",),
        make_extra(
            {
                "authentication.kubernetes.io/associated-node-keys": [
                    "authentication.kubernetes.io/credential-id",
                    NODE_NAME_KEY,
                ]
            }
        ),
    )

    assert identity_steps(planned) == [
        AccessCheck(
            shown,
            "impersonate:associated-node",
            group=AUTHENTICATION,
            version="v1",
            resource="nodes",
            name="*",
        )
    ]
    assert [check.user for check in request_checks(planned)] == [shown]


def test_other_modes_show_the_agent_as_it_is() -> None:
    assert attempt(ImpersonationMode.ARBITRARY_NODE, NODE, caller=AGENT).caller == AGENT.user


WHOLE = UserInfo("alice", "1", ("g", "h", "g"), make_extra({"b.io/y": ["2", "1"], "a.io/x": ["3"]}))


def test_everything_about_a_user_is_checked_in_order() -> None:
    assert say(identity_steps(attempt(ImpersonationMode.USER_INFO, WHOLE))) == [
        "impersonate:user-info users.authentication.k8s.io /alice",
        "impersonate:user-info uids.authentication.k8s.io /1",
        "impersonate:user-info groups.authentication.k8s.io /g",
        "impersonate:user-info groups.authentication.k8s.io /h",
        "impersonate:user-info groups.authentication.k8s.io /g",
        "impersonate:user-info userextras.authentication.k8s.io/a.io/x /3",
        "impersonate:user-info userextras.authentication.k8s.io/b.io/y /2",
        "impersonate:user-info userextras.authentication.k8s.io/b.io/y /1",
    ]


def test_legacy_checks_the_same_in_its_own_groups() -> None:
    steps = identity_steps(attempt(ImpersonationMode.LEGACY, WHOLE))

    assert say(steps) == [
        "impersonate users /alice",
        "impersonate uids.authentication.k8s.io /1",
        "impersonate groups /g",
        "impersonate groups /h",
        "impersonate groups /g",
        "impersonate userextras.authentication.k8s.io/a.io/x /3",
        "impersonate userextras.authentication.k8s.io/b.io/y /2",
        "impersonate userextras.authentication.k8s.io/b.io/y /1",
    ]
    assert {step.version for step in steps if isinstance(step, AccessCheck)} == {"v1"}


def test_the_former_filter_checks_the_uid_last_and_names_no_core_version() -> None:
    steps = identity_steps(attempt(ImpersonationMode.LEGACY, WHOLE, rules=FORMER))

    checks = [step for step in steps if isinstance(step, AccessCheck)]
    assert [(check.resource, check.version) for check in checks] == [
        ("users", ""),
        ("groups", ""),
        ("groups", ""),
        ("groups", ""),
        ("userextras", "v1"),
        ("userextras", "v1"),
        ("userextras", "v1"),
        ("uids", "v1"),
    ]
    account = identity_steps(attempt(ImpersonationMode.LEGACY, ACCOUNT, rules=FORMER))
    assert [step.version for step in account if isinstance(step, AccessCheck)] == [""]


@pytest.mark.parametrize(
    ("wanted_user", "star"),
    [
        (
            UserInfo("alice", groups=("a", "b", "c", "d")),
            "impersonate:user-info groups.authentication.k8s.io /* or 4 more",
        ),
        (
            UserInfo("alice", extra=make_extra({"a.io/x": ["1", "2", "3", "4"]})),
            "impersonate:user-info userextras.authentication.k8s.io/* /* or 4 more",
        ),
        (
            UserInfo("alice", extra=make_extra({f"a.io/{key}": ["1"] for key in "abcd"})),
            "impersonate:user-info userextras.authentication.k8s.io/* /* or 4 more",
        ),
    ],
)
def test_four_items_of_a_kind_are_tried_as_one_first(wanted_user: UserInfo, star: str) -> None:
    assert say(identity_steps(attempt(ImpersonationMode.USER_INFO, wanted_user)))[1:] == [star]
    assert len(identity_steps(attempt(ImpersonationMode.LEGACY, wanted_user))) == 5


def test_a_denied_star_leaves_each_item_to_be_asked() -> None:
    wanted_user = UserInfo("alice", groups=("a", "b", "c", "d"))
    star = identity_steps(attempt(ImpersonationMode.USER_INFO, wanted_user))[1]

    assert isinstance(star, WildcardCheck)
    assert [check.name for check in star.individual_checks()] == ["a", "b", "c", "d"]
    assert {check.resource for check in star.individual_checks()} == {"groups"}


@pytest.mark.parametrize(
    ("groups", "refused"),
    [
        (("a", "", "system:masters"), "/: impersonating the empty string group is not allowed"),
        (
            ("a", "system:masters", "b", "c"),
            "/system:masters: impersonating the system:masters group is not allowed",
        ),
        (("ops", "a"), "/ops: impersonating the ops group is not allowed"),
        (
            ("ops", "system:masters"),
            "/system:masters: impersonating the system:masters group is not allowed",
        ),
    ],
)
def test_some_groups_no_permission_opens(groups: tuple[str, ...], refused: str) -> None:
    rules = ImpersonationRules(protected_groups=frozenset({"ops"}))

    steps = identity_steps(
        attempt(ImpersonationMode.USER_INFO, UserInfo("alice", "1", groups), rules=rules)
    )

    assert say(steps) == [
        "impersonate:user-info users.authentication.k8s.io /alice",
        "impersonate:user-info uids.authentication.k8s.io /1",
        f"impersonate:user-info groups.authentication.k8s.io {refused}",
    ]


def test_a_protected_group_is_refused_in_legacy_before_anyone_is_asked() -> None:
    wanted_user = UserInfo("alice", groups=("a", "system:masters"))

    assert say(identity_steps(attempt(ImpersonationMode.LEGACY, wanted_user))) == [
        "impersonate groups /system:masters: impersonating the system:masters group is not allowed"
    ]


def test_legacy_checks_masters_like_any_group_once_the_list_is_emptied() -> None:
    rules = ImpersonationRules(protected_groups=frozenset())
    wanted_user = UserInfo("alice", groups=("", "system:masters"))

    assert say(identity_steps(attempt(ImpersonationMode.LEGACY, wanted_user, rules=rules)))[1:] == [
        "impersonate groups /",
        "impersonate groups /system:masters",
    ]


def test_a_bad_extra_is_refused_where_extras_would_be_checked() -> None:
    wanted_user = UserInfo("alice", groups=("g",), extra=make_extra({"Scopes": [""]}))

    constrained = say(identity_steps(attempt(ImpersonationMode.USER_INFO, wanted_user)))
    legacy = say(identity_steps(attempt(ImpersonationMode.LEGACY, wanted_user)))

    assert constrained[1] == "impersonate:user-info groups.authentication.k8s.io /g"
    assert constrained[2].startswith(
        "impersonate:user-info userextras.authentication.k8s.io /: impersonating an invalid key"
    )
    assert legacy[2] == "impersonate userextras.authentication.k8s.io/Scopes /"
