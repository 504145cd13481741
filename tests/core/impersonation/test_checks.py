import pytest

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.checks import (
    Attempt,
    ImpersonationRules,
    identity_steps,
    plan_attempts,
    request_checks,
)
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
)

BOB = Caller(UserInfo("bob", "7", ("dev",), make_extra({"k": ["v"]})))
AGENT_EXTRA = make_extra(
    {NODE_NAME_KEY: ["n1"], "authentication.kubernetes.io/credential-id": ["JTI=1"]}
)
AGENT = Caller(UserInfo("system:serviceaccount:ns:agent", "9", ("sa",), AGENT_EXTRA))
ALICE = UserInfo("alice")
NODE = UserInfo("system:node:n1")
LIST_PODS = parse_request_info(
    b"GET", b"/api/v1/namespaces/a/pods?labelSelector=x=y&fieldSelector=f=g"
)
GET_VERSION = parse_request_info(b"GET", b"/version")
RULES = ImpersonationRules()
FORMER = ImpersonationRules(constrained=False)


def attempt(
    mode: ImpersonationMode,
    wanted_user: UserInfo,
    *,
    rules: ImpersonationRules = RULES,
    caller: Caller = BOB,
) -> Attempt:
    attempts = plan_attempts(caller, wanted_user, LIST_PODS, rules=rules)
    return next(found for found in attempts if found.mode is mode)


def modes(
    wanted_user: UserInfo,
    *,
    rules: ImpersonationRules = RULES,
    remembered: ImpersonationMode | None = None,
) -> list[ImpersonationMode]:
    attempts = plan_attempts(AGENT, wanted_user, LIST_PODS, rules=rules, preferred_mode=remembered)
    return [planned.mode for planned in attempts]


def test_modes_are_tried_in_order_without_a_memory() -> None:
    assert modes(NODE) == [
        ImpersonationMode.ASSOCIATED_NODE,
        ImpersonationMode.ARBITRARY_NODE,
        ImpersonationMode.LEGACY,
    ]


@pytest.mark.parametrize(
    ("remembered", "order"),
    [
        (
            ImpersonationMode.LEGACY,
            [
                ImpersonationMode.LEGACY,
                ImpersonationMode.ASSOCIATED_NODE,
                ImpersonationMode.ARBITRARY_NODE,
            ],
        ),
        (
            ImpersonationMode.ARBITRARY_NODE,
            [
                ImpersonationMode.ARBITRARY_NODE,
                ImpersonationMode.ASSOCIATED_NODE,
                ImpersonationMode.LEGACY,
            ],
        ),
        (
            ImpersonationMode.USER_INFO,
            [
                ImpersonationMode.ASSOCIATED_NODE,
                ImpersonationMode.ARBITRARY_NODE,
                ImpersonationMode.LEGACY,
            ],
        ),
    ],
)
def test_the_remembered_mode_is_tried_first_if_it_applies(
    remembered: ImpersonationMode, order: list[ImpersonationMode]
) -> None:
    assert modes(NODE, remembered=remembered) == order


def test_denied_legacy_is_not_tried_even_if_remembered() -> None:
    rules = ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY))

    assert modes(ALICE, rules=rules, remembered=ImpersonationMode.LEGACY) == [
        ImpersonationMode.USER_INFO
    ]
    assert modes(UserInfo(NODE.name, groups=("g",)), rules=rules) == []


def test_warned_legacy_is_tried() -> None:
    assert ImpersonationMode.LEGACY in modes(
        ALICE, rules=ImpersonationRules(legacy=LegacyPolicy(LegacyAction.WARN))
    )


def test_without_constrained_modes_there_is_only_legacy() -> None:
    assert modes(NODE, rules=FORMER, remembered=ImpersonationMode.ARBITRARY_NODE) == [
        ImpersonationMode.LEGACY
    ]


def test_the_action_is_checked_on_the_request_itself() -> None:
    assert request_checks(attempt(ImpersonationMode.USER_INFO, ALICE)) == [
        AccessCheck(
            BOB.user,
            "impersonate-on:user-info:list",
            version="v1",
            resource="pods",
            namespace="a",
            fields=LIST_PODS.fields,
            labels=LIST_PODS.labels,
        )
    ]


def test_every_attribute_of_the_request_is_part_of_the_action_check() -> None:
    request_info = parse_request_info(
        b"PUT", b"/apis/apps/v1beta1/namespaces/a/deployments/b/scale"
    )
    planned = next(plan_attempts(BOB, ALICE, request_info, rules=RULES))

    assert request_checks(planned) == [
        AccessCheck(
            BOB.user,
            "impersonate-on:user-info:update",
            group="apps",
            version="v1beta1",
            resource="deployments",
            subresource="scale",
            namespace="a",
            name="b",
        )
    ]


def test_a_path_is_checked_as_a_path() -> None:
    planned = next(plan_attempts(BOB, ALICE, GET_VERSION, rules=RULES))

    assert request_checks(planned) == [
        AccessCheck(BOB.user, "impersonate-on:user-info:get", is_resource=False, path="/version")
    ]


def test_legacy_is_bound_to_no_action() -> None:
    assert request_checks(attempt(ImpersonationMode.LEGACY, ALICE)) == []


@pytest.mark.parametrize(
    ("target", "method", "is_upgrade", "is_switched_on", "verbs"),
    [
        (b"/api/v1/namespaces/a/pods/p/exec", b"GET", "upgrade", "on", ["get", "create"]),
        (b"/api/v1/namespaces/a/pods/p/attach", b"GET", "upgrade", "on", ["get", "create"]),
        (b"/api/v1/namespaces/a/pods/p/portforward", b"GET", "upgrade", "on", ["get", "create"]),
        (b"/api/v1/namespaces/a/pods/p/exec", b"GET", "upgrade", "", ["get"]),
        (b"/api/v1/namespaces/a/pods/p/exec", b"GET", "", "on", ["get"]),
        (b"/api/v1/namespaces/a/pods/p/exec", b"POST", "upgrade", "on", ["create"]),
        (b"/api/v1/namespaces/a/pods/p/log", b"GET", "upgrade", "on", ["get"]),
        (b"/apis/x/v1/namespaces/a/pods/p/exec", b"GET", "upgrade", "on", ["get"]),
        (b"/api/v1/nodes/n/exec", b"GET", "upgrade", "on", ["get"]),
    ],
)
def test_opening_a_terminal_can_be_made_to_need_create_as_well(
    target: bytes, method: bytes, is_upgrade: str, is_switched_on: str, verbs: list[str]
) -> None:
    rules = ImpersonationRules(upgrade_needs_create=bool(is_switched_on))
    request_info = parse_request_info(method, target)
    planned = next(
        plan_attempts(BOB, ALICE, request_info, rules=rules, is_upgrade=bool(is_upgrade))
    )

    checks = request_checks(planned)

    assert [check.verb for check in checks] == [f"impersonate-on:user-info:{v}" for v in verbs]
    assert {(check.resource, check.name, check.subresource) for check in checks} == {
        (request_info.resource, request_info.name, request_info.subresource)
    }


def test_what_may_be_remembered_depends_on_the_mode_and_the_selectors() -> None:
    unparsed = RequestInfo("list", "/api/v1/pods", is_resource=True, has_unparsed_selector=True)
    keen = ImpersonationRules(caches_legacy=True)

    def layers(request_info: RequestInfo, rules: ImpersonationRules) -> list[tuple[bool, bool]]:
        attempts = plan_attempts(BOB, ALICE, request_info, rules=rules)
        return [
            (planned.is_request_cacheable, planned.is_identity_cacheable) for planned in attempts
        ]

    assert layers(LIST_PODS, RULES) == [(True, True), (False, False)]
    assert layers(unparsed, RULES) == [(False, True), (False, False)]
    assert layers(LIST_PODS, keen) == [(True, True), (False, True)]


def test_a_node_that_was_found_is_shown_to_no_authorizer() -> None:
    extra = make_extra({"authentication.kubernetes.io/pod-name": ["agent-1"]})
    caller = Caller(UserInfo("system:serviceaccount:ns:agent", "9", ("sa",), extra), "n1")

    attempts = list(plan_attempts(caller, UserInfo("system:node:n1"), LIST_PODS, rules=RULES))

    assert [attempt.mode for attempt in attempts] == [
        ImpersonationMode.ASSOCIATED_NODE,
        ImpersonationMode.ARBITRARY_NODE,
        ImpersonationMode.LEGACY,
    ]
    keys = ("authentication.kubernetes.io/pod-name",)
    shown = [attempt.caller.extra for attempt in attempts]
    assert shown == [
        (("authentication.kubernetes.io/associated-node-keys", keys),),
        extra,
        extra,
    ]
    first = attempts[0]
    assert "n1" not in str([request_checks(first), identity_steps(first)])
