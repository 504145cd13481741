import pytest

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.checks import (
    Attempt,
    DecisionRules,
    action_checks,
    identity_steps,
    plan_attempts,
)
from proxy.core.impersonation.modes import Mode
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import Action, parse_action
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    Identity,
    extra_of,
)

BOB = Caller(Identity("bob", "7", ("dev",), extra_of({"k": ["v"]})))
AGENT_EXTRA = extra_of(
    {NODE_NAME_KEY: ["n1"], "authentication.kubernetes.io/credential-id": ["JTI=1"]}
)
AGENT = Caller(Identity("system:serviceaccount:ns:agent", "9", ("sa",), AGENT_EXTRA))
ALICE = Identity("alice")
NODE = Identity("system:node:n1")
LIST_PODS = parse_action(b"GET", b"/api/v1/namespaces/a/pods?labelSelector=x=y&fieldSelector=f=g")
GET_VERSION = parse_action(b"GET", b"/version")
RULES = DecisionRules()
FORMER = DecisionRules(constrained=False)


def attempt(
    mode: Mode, wanted: Identity, *, rules: DecisionRules = RULES, caller: Caller = BOB
) -> Attempt:
    attempts = plan_attempts(caller, wanted, LIST_PODS, rules=rules)
    return next(found for found in attempts if found.mode is mode)


def modes(
    wanted: Identity, *, rules: DecisionRules = RULES, remembered: Mode | None = None
) -> list[Mode]:
    attempts = plan_attempts(AGENT, wanted, LIST_PODS, rules=rules, remembered=remembered)
    return [planned.mode for planned in attempts]


def test_modes_are_tried_in_order_without_a_memory() -> None:
    assert modes(NODE) == [Mode.ASSOCIATED_NODE, Mode.ARBITRARY_NODE, Mode.LEGACY]


@pytest.mark.parametrize(
    ("remembered", "order"),
    [
        (Mode.LEGACY, [Mode.LEGACY, Mode.ASSOCIATED_NODE, Mode.ARBITRARY_NODE]),
        (Mode.ARBITRARY_NODE, [Mode.ARBITRARY_NODE, Mode.ASSOCIATED_NODE, Mode.LEGACY]),
        (Mode.USER_INFO, [Mode.ASSOCIATED_NODE, Mode.ARBITRARY_NODE, Mode.LEGACY]),
    ],
)
def test_the_remembered_mode_is_tried_first_if_it_applies(
    remembered: Mode, order: list[Mode]
) -> None:
    assert modes(NODE, remembered=remembered) == order


def test_denied_legacy_is_not_tried_even_if_remembered() -> None:
    rules = DecisionRules(legacy=LegacyPolicy(LegacyAction.DENY))

    assert modes(ALICE, rules=rules, remembered=Mode.LEGACY) == [Mode.USER_INFO]
    assert modes(Identity(NODE.name, groups=("g",)), rules=rules) == []


def test_warned_legacy_is_tried() -> None:
    assert Mode.LEGACY in modes(ALICE, rules=DecisionRules(legacy=LegacyPolicy(LegacyAction.WARN)))


def test_without_constrained_modes_there_is_only_legacy() -> None:
    assert modes(NODE, rules=FORMER, remembered=Mode.ARBITRARY_NODE) == [Mode.LEGACY]


def test_the_action_is_checked_on_the_request_itself() -> None:
    assert action_checks(attempt(Mode.USER_INFO, ALICE)) == [
        AccessCheck(
            BOB.identity,
            "impersonate-on:user-info:list",
            version="v1",
            resource="pods",
            namespace="a",
            fields=LIST_PODS.fields,
            labels=LIST_PODS.labels,
        )
    ]


def test_every_attribute_of_the_request_is_part_of_the_action_check() -> None:
    action = parse_action(b"PUT", b"/apis/apps/v1beta1/namespaces/a/deployments/b/scale")
    planned = next(plan_attempts(BOB, ALICE, action, rules=RULES))

    assert action_checks(planned) == [
        AccessCheck(
            BOB.identity,
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

    assert action_checks(planned) == [
        AccessCheck(
            BOB.identity, "impersonate-on:user-info:get", is_resource=False, path="/version"
        )
    ]


def test_legacy_is_bound_to_no_action() -> None:
    assert action_checks(attempt(Mode.LEGACY, ALICE)) == []


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
    rules = DecisionRules(upgrade_needs_create=bool(is_switched_on))
    action = parse_action(method, target)
    planned = next(plan_attempts(BOB, ALICE, action, rules=rules, is_upgrade=bool(is_upgrade)))

    checks = action_checks(planned)

    assert [check.verb for check in checks] == [f"impersonate-on:user-info:{v}" for v in verbs]
    assert {(check.resource, check.name, check.subresource) for check in checks} == {
        (action.resource, action.name, action.subresource)
    }


def test_what_may_be_remembered_depends_on_the_mode_and_the_selectors() -> None:
    unparsed = Action("list", "/api/v1/pods", is_resource=True, has_unparsed_selector=True)
    keen = DecisionRules(recalls_legacy=True)

    def layers(action: Action, rules: DecisionRules) -> list[tuple[bool, bool]]:
        attempts = plan_attempts(BOB, ALICE, action, rules=rules)
        return [(planned.recalls_request, planned.recalls_identity) for planned in attempts]

    assert layers(LIST_PODS, RULES) == [(True, True), (False, False)]
    assert layers(unparsed, RULES) == [(False, True), (False, False)]
    assert layers(LIST_PODS, keen) == [(True, True), (False, True)]


def test_a_node_that_was_found_is_shown_to_no_authorizer() -> None:
    extra = extra_of({"authentication.kubernetes.io/pod-name": ["agent-1"]})
    caller = Caller(Identity("system:serviceaccount:ns:agent", "9", ("sa",), extra), "n1")

    attempts = list(plan_attempts(caller, Identity("system:node:n1"), LIST_PODS, rules=RULES))

    assert [attempt.mode for attempt in attempts] == [
        Mode.ASSOCIATED_NODE,
        Mode.ARBITRARY_NODE,
        Mode.LEGACY,
    ]
    keys = ("authentication.kubernetes.io/pod-name",)
    shown = [attempt.caller.extra for attempt in attempts]
    assert shown == [
        (("authentication.kubernetes.io/associated-node-keys", keys),),
        extra,
        extra,
    ]
    first = attempts[0]
    assert "n1" not in str([action_checks(first), identity_steps(first)])
