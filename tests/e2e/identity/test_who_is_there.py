"""Whom everything behind the API server takes an actor for, which is the same at both doors."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from proxy.sandbox.aggregated.server import CONSOLE_PROTOCOL
from proxy.sandbox.api_client import client_context
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.web_socket import WebSocket
from tests.e2e.identity.actors import Actor
from tests.e2e.identity.endpoints import CONSOLE
from tests.e2e.identity.place import FLOW_SCHEMA_HEADER, FLOW_SCHEMAS, Place
from tests.support.control_plane import who_am_i
from tests.support.impersonation import Doors
from tests.support.kubectl import Kubectl
from tests.support.proxy_and_native import BothDoors

PRIORITY_LEVEL_HEADER = "X-Kubernetes-PF-PriorityLevel-UID"
PRIORITY_LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"


def test_the_cluster_takes_an_actor_for_whom_it_is(actor: Actor, doors: Doors) -> None:
    user = doors.acting(actor.caller, actor.wanted)

    assert (user["username"], user["groups"]) == (actor.username, list(actor.groups))


@pytest.mark.timeout(120)
def test_kubectl_says_who_an_actor_is(
    actor: Actor,
    control_plane: ControlPlane,
    understudy: ProxyProcess,
    native_api_server: ApiServer,
) -> None:
    program = control_plane.binaries.kubectl
    kubectl = BothDoors(partial(Kubectl, program), understudy, native_api_server)

    table = kubectl.say(actor.caller, "auth", "whoami", *actor.kubectl_flags())
    document = kubectl.say(actor.caller, "auth", "whoami", "-o", "json", *actor.kubectl_flags())

    assert (table.code, document.code) == (0, 0), table.errors
    user = json.loads(document.output)["status"]["userInfo"]
    assert (user["username"], user["groups"]) == (actor.username, list(actor.groups))


def flow_of(actor: Actor, place: Place) -> tuple[str, str]:
    """Return the FlowSchema and the priority level of an actor's requests about no node."""
    if actor.is_node:
        return "system-nodes", "system"
    if place.auditors in actor.groups:
        return place.auditors, "workload-high"
    if "system:serviceaccounts" in actor.groups:
        return "service-accounts", "workload-low"
    return "global-default", "global-default"


def test_the_target_is_given_its_flow_not_the_caller_or_the_proxy(
    actor: Actor, place: Place, doors: Doors, native_api_server: ApiServer
) -> None:
    admin = native_api_server.admin
    flow_schema, priority_level = (
        admin.call("GET", f"{path}/{name}")["metadata"]["uid"]
        for path, name in zip((FLOW_SCHEMAS, PRIORITY_LEVELS), flow_of(actor, place), strict=True)
    )
    target = "/api/v1/namespaces/default/secrets"

    response = doors.ask(actor.caller, "GET", target, actor.wanted)

    assert response.header(FLOW_SCHEMA_HEADER) == flow_schema
    assert response.header(PRIORITY_LEVEL_HEADER) == priority_level


def test_an_upgraded_connection_is_the_actors_too(
    actor: Actor, place: Place, understudy: ProxyProcess, native_api_server: ApiServer
) -> None:
    credential = actor.caller.credential
    token = credential.value if isinstance(credential, BearerToken) else None
    authorization = [] if token is None else [("Authorization", f"Bearer {token}")]
    greetings = []

    for door in (understudy, native_api_server):
        with WebSocket(
            f"{door.url}{place.fill(CONSOLE)}",
            context=client_context(door.ca_pem, credential),
            protocol=CONSOLE_PROTOCOL,
            headers=[*authorization, *actor.wanted],
        ) as console:
            greetings.append(json.loads(console.receive())["remote"])

    assert greetings[0] == greetings[1]
    assert greetings[0]["x-remote-user"] == [actor.username]
    assert greetings[0]["x-remote-group"] == list(actor.groups)


def test_in_a_crowd_nobody_is_taken_for_another(actors: Mapping[str, Actor], doors: Doors) -> None:
    """They share the proxy's connections and its memory; each must stay who it is."""
    directly = [who_am_i(doors.clients(each.caller)[1], *each.wanted) for each in actors.values()]
    crowd = [(doors.clients(each.caller)[0], each.wanted) for each in actors.values()] * 10

    with ThreadPoolExecutor(max_workers=20) as pool:
        users = list(pool.map(lambda each: who_am_i(each[0], *each[1]), crowd))

    assert users == directly * 10
