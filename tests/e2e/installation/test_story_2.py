"""The second story: a deputy opens consoles for users, by exactly the KEP's grants."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from proxy.sandbox.aggregated.api import AggregatedServer
from proxy.sandbox.aggregated.server import CONSOLE_PROTOCOL, GROUP
from proxy.sandbox.api_client import APIResponse, client_context
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.objects import create_namespace, token_for
from proxy.sandbox.tour.rbac import STORY_2, manifests
from proxy.sandbox.web_socket import WebSocket
from tests.support.empty_cluster import EmptyCluster, step_of_installation
from tests.support.impersonation import Rights, as_user, may, may_be, may_do, message_of
from tests.support.installed_proxy import InstalledProxy
from tests.support.streaming import wait_until

pytestmark = pytest.mark.timeout(180)


CONSOLE = f"/apis/{GROUP}/v1/namespaces/{{}}/virtualmachines/testvm/console"


@pytest.fixture(scope="module")
def deputy(cluster: EmptyCluster, home: Path) -> Iterator[BearerToken]:
    """The second story's controller with exactly the KEP's RBAC, and consoles to open."""
    create_namespace(cluster.admin, "other")
    rights = Rights(cluster.server)
    console = ["virtualmachines/console"]
    with AggregatedServer(cluster.control_plane) as consoles:
        consoles.register(cluster.admin)
        cluster.follow("deputy", home)
        name = "system:serviceaccount:deputy-ns:deputy"
        rights.wait_for(name, may_be("user-info", "users"))
        rights.wait_for(
            name, may_do("user-info", "get", resources=console, group=GROUP), namespace="default"
        )
        rights.grant("alice", may("get", "update", resources=console, group=GROUP))
        yield token_for(cluster.admin, "deputy-ns", "deputy")


def test_story_2_is_granted_in_the_words_of_the_kep() -> None:
    _, _, applied = step_of_installation("deputy").partition("<<'END'\n")

    granted = yaml.safe_load_all(applied.partition("END\n")[0])

    assert list(granted) == list(manifests(STORY_2))


def ask(
    proxy: InstalledProxy, deputy: BearerToken, method: str, namespace: str, user: str
) -> APIResponse:
    return proxy.client(deputy).request(method, CONSOLE.format(namespace), headers=as_user(user))


def test_story_2_the_deputy_opens_the_console_for_a_user_and_the_backend_sees_the_user(
    proxy: InstalledProxy, deputy: BearerToken
) -> None:
    headers = [*as_user("alice"), ("Authorization", f"Bearer {deputy.value}")]

    with WebSocket(
        proxy.url + CONSOLE.format("default"),
        context=client_context(proxy.ca_pem, deputy),
        protocol=CONSOLE_PROTOCOL,
        headers=headers,
    ) as console:
        greeting = json.loads(console.receive())
        console.send("uname -a")
        echo = console.receive()

    assert greeting["remote"]["x-remote-user"] == ["alice"]
    assert greeting["remote"]["x-remote-group"] == ["system:authenticated"]
    assert echo in ("uname -a", b"uname -a")


def test_story_2_another_namespace_and_update_are_forbidden(
    proxy: InstalledProxy, deputy: BearerToken
) -> None:
    """The user may do both: it is the deputy that may not, in the user's name."""
    elsewhere = ask(proxy, deputy, "GET", "other", "alice")
    update = ask(proxy, deputy, "PUT", "default", "alice")
    for_bob = ask(proxy, deputy, "GET", "default", "bob")

    assert (elsewhere.status, update.status, for_bob.status) == (403, 403, 403)
    assert "cannot impersonate-on:user-info:get" in message_of(elsewhere)
    assert "cannot impersonate-on:user-info:update" in message_of(update)
    assert 'User "bob" cannot get resource "virtualmachines/console"' in message_of(for_bob)


def test_the_audit_trail_is_on_standard_output(proxy: InstalledProxy, deputy: BearerToken) -> None:
    response = ask(proxy, deputy, "GET", "default", "alice")

    def events() -> list[dict[str, object]]:
        lines = map(json.loads, proxy.log_file.read_text().splitlines())
        return [one for one in lines if one.get("auditID") == response.header("Audit-Id")]

    wait_until(lambda: events() != [], "the request is in no event")
    (event,) = events()
    assert event["user"] != event["impersonatedUser"]
    assert event["impersonatedUser"] == {"username": "alice", "groups": ["system:authenticated"]}
