import pytest

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.checks import (
    Attempt,
    DecisionRules,
    RefusedStep,
    StarCheck,
    Step,
    action_checks,
    identity_steps,
    plan_attempts,
)
from proxy.core.impersonation.modes import Mode
from proxy.core.requestinfo.request_info import parse_action
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    Identity,
    extra_of,
)
from tests.core.play import short

BOB = Caller(Identity("bob", "7", ("dev",), extra_of({"k": ["v"]})))
AGENT_EXTRA = extra_of(
    {NODE_NAME_KEY: ["n1"], "authentication.kubernetes.io/credential-id": ["JTI=1"]}
)
AGENT = Caller(Identity("system:serviceaccount:ns:agent", "9", ("sa",), AGENT_EXTRA))
ALICE = Identity("alice")
NODE = Identity("system:node:n1")
ACCOUNT = Identity("system:serviceaccount:ns:sa")
LIST_PODS = parse_action(b"GET", b"/api/v1/namespaces/a/pods?labelSelector=x=y&fieldSelector=f=g")
RULES = DecisionRules()
FORMER = DecisionRules(constrained=False)
AUTHENTICATION = "authentication.k8s.io"


def attempt(
    mode: Mode, wanted: Identity, *, rules: DecisionRules = RULES, caller: Caller = BOB
) -> Attempt:
    attempts = plan_attempts(caller, wanted, LIST_PODS, rules=rules)
    return next(found for found in attempts if found.mode is mode)


def say(steps: list[Step]) -> list[str]:
    words = []
    for step in steps:
        match step:
            case AccessCheck():
                words.append(short(step))
            case StarCheck():
                words.append(f"{short(step.check)} or {len(step.individual_checks())} more")
            case RefusedStep():
                words.append(f"{short(step.check)}: {step.reason}")
    return words


@pytest.mark.parametrize(
    ("mode", "wanted", "group", "what"),
    [
        (Mode.USER_INFO, ALICE, AUTHENTICATION, ("users", "", "alice")),
        (Mode.ARBITRARY_NODE, NODE, AUTHENTICATION, ("nodes", "", "n1")),
        (Mode.SERVICE_ACCOUNT, ACCOUNT, AUTHENTICATION, ("serviceaccounts", "ns", "sa")),
        (Mode.LEGACY, ALICE, "", ("users", "", "alice")),
        (Mode.LEGACY, NODE, "", ("users", "", "system:node:n1")),
        (Mode.LEGACY, ACCOUNT, "", ("serviceaccounts", "ns", "sa")),
    ],
)
def test_the_username_is_checked_as_what_it_stands_for(
    mode: Mode, wanted: Identity, group: str, what: tuple[str, str, str]
) -> None:
    resource, namespace, name = what

    assert identity_steps(attempt(mode, wanted)) == [
        AccessCheck(
            BOB.identity,
            mode.identity_verb,
            group=group,
            version="v1",
            resource=resource,
            namespace=namespace,
            name=name,
        )
    ]


def test_an_agent_of_a_node_is_shown_without_values_that_differ_from_node_to_node() -> None:
    planned = attempt(Mode.ASSOCIATED_NODE, NODE, caller=AGENT)
    shown = Identity(
        AGENT.identity.name,
        "9",
        ("sa",),
        extra_of(
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
    assert [check.user for check in action_checks(planned)] == [shown]


def test_other_modes_show_the_agent_as_it_is() -> None:
    assert attempt(Mode.ARBITRARY_NODE, NODE, caller=AGENT).caller == AGENT.identity


WHOLE = Identity("alice", "1", ("g", "h", "g"), extra_of({"b.io/y": ["2", "1"], "a.io/x": ["3"]}))


def test_everything_about_a_user_is_checked_in_order() -> None:
    assert say(identity_steps(attempt(Mode.USER_INFO, WHOLE))) == [
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
    steps = identity_steps(attempt(Mode.LEGACY, WHOLE))

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
    steps = identity_steps(attempt(Mode.LEGACY, WHOLE, rules=FORMER))

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
    account = identity_steps(attempt(Mode.LEGACY, ACCOUNT, rules=FORMER))
    assert [step.version for step in account if isinstance(step, AccessCheck)] == [""]


@pytest.mark.parametrize(
    ("wanted", "star"),
    [
        (
            Identity("alice", groups=("a", "b", "c", "d")),
            "impersonate:user-info groups.authentication.k8s.io /* or 4 more",
        ),
        (
            Identity("alice", extra=extra_of({"a.io/x": ["1", "2", "3", "4"]})),
            "impersonate:user-info userextras.authentication.k8s.io/* /* or 4 more",
        ),
        (
            Identity("alice", extra=extra_of({f"a.io/{key}": ["1"] for key in "abcd"})),
            "impersonate:user-info userextras.authentication.k8s.io/* /* or 4 more",
        ),
    ],
)
def test_four_items_of_a_kind_are_tried_as_one_first(wanted: Identity, star: str) -> None:
    assert say(identity_steps(attempt(Mode.USER_INFO, wanted)))[1:] == [star]
    assert len(identity_steps(attempt(Mode.LEGACY, wanted))) == 5


def test_a_denied_star_leaves_each_item_to_be_asked() -> None:
    wanted = Identity("alice", groups=("a", "b", "c", "d"))
    star = identity_steps(attempt(Mode.USER_INFO, wanted))[1]

    assert isinstance(star, StarCheck)
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
    rules = DecisionRules(protected_groups=frozenset({"ops"}))

    steps = identity_steps(attempt(Mode.USER_INFO, Identity("alice", "1", groups), rules=rules))

    assert say(steps) == [
        "impersonate:user-info users.authentication.k8s.io /alice",
        "impersonate:user-info uids.authentication.k8s.io /1",
        f"impersonate:user-info groups.authentication.k8s.io {refused}",
    ]


def test_a_protected_group_is_refused_in_legacy_before_anyone_is_asked() -> None:
    wanted = Identity("alice", groups=("a", "system:masters"))

    assert say(identity_steps(attempt(Mode.LEGACY, wanted))) == [
        "impersonate groups /system:masters: impersonating the system:masters group is not allowed"
    ]


def test_legacy_checks_masters_like_any_group_once_the_list_is_emptied() -> None:
    rules = DecisionRules(protected_groups=frozenset())
    wanted = Identity("alice", groups=("", "system:masters"))

    assert say(identity_steps(attempt(Mode.LEGACY, wanted, rules=rules)))[1:] == [
        "impersonate groups /",
        "impersonate groups /system:masters",
    ]


def test_a_bad_extra_is_refused_where_extras_would_be_checked() -> None:
    wanted = Identity("alice", groups=("g",), extra=extra_of({"Scopes": [""]}))

    constrained = say(identity_steps(attempt(Mode.USER_INFO, wanted)))
    legacy = say(identity_steps(attempt(Mode.LEGACY, wanted)))

    assert constrained[1] == "impersonate:user-info groups.authentication.k8s.io /g"
    assert constrained[2].startswith(
        "impersonate:user-info userextras.authentication.k8s.io /: impersonating an invalid key"
    )
    assert legacy[2] == "impersonate userextras.authentication.k8s.io/Scopes /"
