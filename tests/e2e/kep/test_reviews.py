"""Which questions an authorizer is asked, as the KEP writes them, in front of a real webhook."""

import pytest

from proxy.sandbox.api_client import APIResponse
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy
from tests.e2e.kep.webhook import Attributes, Webhook
from tests.support.impersonation import Caller, Header, as_node, as_user, is_success

pytestmark = pytest.mark.timeout(90)  # an API server of its own is started

PODS = "/api/v1/namespaces/default/pods"
ON_PODS = {"namespace": "default", "version": "v1", "resource": "pods"}
IDENTITY = {"group": "authentication.k8s.io", "version": "v1"}


def on_list(mode: str) -> Attributes:
    return {"verb": f"impersonate-on:{mode}:list", **ON_PODS}


def be(mode: str, resource: str, name: str, **more: str) -> Attributes:
    verb = {"verb": f"impersonate:{mode}", "resource": resource, "name": name}
    return {**verb, **IDENTITY, **more}


def legacy(resource: str, name: str, *, version: str = "v1") -> Attributes:
    return {"verb": "impersonate", "resource": resource, "name": name, "version": version}


@pytest.fixture
def caller(cast: Cast) -> Caller:
    return cast.user("impersonator", groups=["controllers"], uid="42")


def list_pods(asking: Understudy, caller: Caller, headers: list[Header]) -> APIResponse:
    return asking.client(caller.credential).request("GET", PODS, headers=headers)


def in_order(asked: list[Attributes]) -> list[Attributes]:
    """Return the first question, then the others sorted: those are asked at the same time."""
    return [asked[0], *sorted(asked[1:], key=str)]


def test_a_user_costs_two_questions_the_action_first(
    asking: Understudy, webhook: Webhook, caller: Caller
) -> None:
    webhook.permit(caller.name, lambda _: True)

    response = list_pods(asking, caller, as_user("someUser"))

    assert is_success(response)
    assert webhook.attributes(caller.name) == [
        on_list("user-info"),
        be("user-info", "users", "someUser"),
    ]


def test_the_questions_are_about_the_caller_with_all_its_parts(
    asking: Understudy, webhook: Webhook, caller: Caller
) -> None:
    webhook.permit(caller.name, lambda _: True)

    list_pods(asking, caller, as_user("someUser"))

    for spec in webhook.asked_about(caller.name):
        assert spec["uid"] == "42"
        assert spec["groups"] == ["controllers", "system:authenticated"]
        assert list(spec["extra"]) == ["authentication.kubernetes.io/credential-id"]


def test_each_group_uid_and_extra_value_is_a_question(
    asking: Understudy, webhook: Webhook, caller: Caller
) -> None:
    webhook.permit(caller.name, lambda _: True)
    extra = [("Acme.io%2fKey", "one"), ("Acme.io%2fKey", "two")]

    response = list_pods(
        asking, caller, as_user("someUser", groups=["a", "b"], uid="someUID", extra=extra)
    )

    assert is_success(response)
    assert in_order(webhook.attributes(caller.name)) == in_order(
        [
            on_list("user-info"),
            be("user-info", "users", "someUser"),
            be("user-info", "uids", "someUID"),
            be("user-info", "groups", "a"),
            be("user-info", "groups", "b"),
            be("user-info", "userextras", "one", subresource="acme.io/key"),
            be("user-info", "userextras", "two", subresource="acme.io/key"),
        ]
    )


def test_many_groups_are_first_asked_for_at_once(
    asking: Understudy, webhook: Webhook, caller: Caller
) -> None:
    webhook.permit(caller.name, lambda asked: asked.get("name") != "*")

    response = list_pods(asking, caller, as_user("someUser", groups=list("abcd")))

    assert is_success(response)
    assert in_order(webhook.attributes(caller.name)) == in_order(
        [
            on_list("user-info"),
            be("user-info", "users", "someUser"),
            be("user-info", "groups", "*"),
            *(be("user-info", "groups", group) for group in "abcd"),
        ]
    )


def test_a_service_account_is_asked_for_in_its_namespace(
    asking: Understudy, webhook: Webhook, caller: Caller
) -> None:
    webhook.permit(caller.name, lambda _: True)

    list_pods(asking, caller, as_user("system:serviceaccount:some-namespace:some-name"))

    assert webhook.attributes(caller.name) == [
        on_list("serviceaccount"),
        be("serviceaccount", "serviceaccounts", "some-name", namespace="some-namespace"),
    ]


def test_an_arbitrary_node_is_asked_for_by_its_bare_name(
    asking: Understudy, webhook: Webhook, caller: Caller
) -> None:
    webhook.permit(caller.name, lambda _: True)

    list_pods(asking, caller, as_node("some-node"))

    assert webhook.attributes(caller.name) == [
        on_list("arbitrary-node"),
        be("arbitrary-node", "nodes", "some-node"),
    ]


def test_an_associated_node_is_asked_for_without_saying_which(
    asking: Understudy, webhook: Webhook, cast: Cast
) -> None:
    agent = cast.service_account(node=(node := cast.node()))
    webhook.permit(agent.name, lambda _: True)

    list_pods(asking, agent, as_node(node))

    assert webhook.attributes(agent.name) == [
        on_list("associated-node"),
        be("associated-node", "nodes", "*"),
    ]
    prefix = "authentication.kubernetes.io"
    keys = ["credential-id", "node-name", "node-uid", "pod-name", "pod-uid"]
    assert [spec["extra"] for spec in webhook.asked_about(agent.name)] == [
        {f"{prefix}/associated-node-keys": [f"{prefix}/{key}" for key in keys]}
    ] * 2


@pytest.mark.parametrize("refused", ["action", "identity"])
def test_after_the_associated_node_arbitrary_nodes_are_asked_for(
    refused: str, asking: Understudy, webhook: Webhook, cast: Cast
) -> None:
    agent = cast.service_account(node=(node := cast.node()))
    verbs = {
        "action": "impersonate-on:associated-node:list",
        "identity": "impersonate:associated-node",
    }
    webhook.permit(agent.name, lambda asked: asked["verb"] != verbs[refused])

    response = list_pods(asking, agent, as_node(node))

    associated = [on_list("associated-node"), be("associated-node", "nodes", "*")]
    assert is_success(response)
    assert webhook.attributes(agent.name) == [
        *associated[: 1 if refused == "action" else 2],
        on_list("arbitrary-node"),
        be("arbitrary-node", "nodes", node),
    ]


@pytest.mark.parametrize("denied", ["action", "identity"])
def test_legacy_is_asked_for_last(
    denied: str, asking: Understudy, webhook: Webhook, caller: Caller
) -> None:
    prefix = {"action": "impersonate-on:", "identity": "impersonate:"}[denied]
    webhook.permit(caller.name, lambda asked: not asked["verb"].startswith(prefix))

    response = list_pods(asking, caller, as_user("someUser"))

    asked = [on_list("user-info"), be("user-info", "users", "someUser")]
    assert is_success(response)
    assert webhook.attributes(caller.name) == [
        *asked[: 1 if denied == "action" else 2],
        legacy("users", "someUser"),
    ]


def test_a_path_of_no_resource_is_asked_for_by_its_method(
    asking: Understudy, webhook: Webhook, caller: Caller
) -> None:
    webhook.permit(caller.name, lambda _: True)

    asking.client(caller.credential).request("GET", "/version", headers=as_user("someUser"))

    action = {"verb": "impersonate-on:user-info:get", "path": "/version"}
    assert webhook.attributes(caller.name) == [action, be("user-info", "users", "someUser")]


def test_what_was_allowed_is_not_asked_again_for_a_while(
    asking: Understudy, webhook: Webhook, caller: Caller
) -> None:
    webhook.permit(caller.name, lambda _: True)
    list_pods(asking, caller, as_user("someUser"))
    client = asking.client(caller.credential)

    list_pods(asking, caller, as_user("someUser"))
    repeated = len(webhook.attributes(caller.name))
    client.request("GET", f"{PODS}/x", headers=as_user("someUser"))

    # The same request asks nothing; another action for the same user asks for that action alone.
    assert repeated == 2
    assert [asked["verb"] for asked in webhook.attributes(caller.name)[2:]] == [
        "impersonate-on:user-info:get"
    ]


def test_what_was_refused_is_asked_again_each_time(
    asking: Understudy, webhook: Webhook, caller: Caller
) -> None:
    refused = [list_pods(asking, caller, as_user("someUser")).status for _ in range(2)]
    webhook.permit(caller.name, lambda _: True)

    assert refused == [403, 403]
    assert len(webhook.attributes(caller.name)) == 4
    assert is_success(list_pods(asking, caller, as_user("someUser")))
