"""The KEP's example and both user stories, with exactly its RBAC."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from proxy.sandbox.aggregated.api import AggregatedServer
from proxy.sandbox.aggregated.server import GROUP
from proxy.sandbox.api_client import ApiClient, Manifest
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import (
    apply,
    create_namespace,
    create_service_account,
    path_of,
)
from proxy.sandbox.tour.rbac import STORY_1, STORY_2, manifests
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.impersonation import (
    Caller,
    Doors,
    Rights,
    Rule,
    as_node,
    as_user,
    is_refused_impersonation,
    may,
    may_be,
    may_do,
    message_of,
    poll,
)

EXAMPLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: constrained-impersonate-only-someUser
rules:
- apiGroups:
  - authentication.k8s.io
  resources:
  - users # allowed resources are users/groups/userextras/uids
  resourceNames:
  - someUser
  verbs:
  - impersonate:user-info
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: constrained-impersonate-only-someUser
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: constrained-impersonate-only-someUser
subjects:
  - kind: ServiceAccount
    name: default
    namespace: default
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: impersonate-allow-only-listwatch-pods
  namespace: default
rules:
- apiGroups:
  - ""
  resources:
  - pods
  verbs:
  - impersonate-on:user-info:list
  - impersonate-on:user-info:watch
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: impersonate-allow-only-listwatch-pods
  namespace: default
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: impersonate-allow-only-listwatch-pods
subjects:
  - kind: ServiceAccount
    name: default
    namespace: default
"""
PODS = "/api/v1/namespaces/default/pods"
CONSOLE = f"/apis/{GROUP}/v1/namespaces/{{}}/virtualmachines/testvm/console"


@contextmanager
def applied(admin: ApiClient, text: str) -> Iterator[None]:
    """Have the objects of a story for a while. Their names are fixed, so they must go again."""
    objects: list[Manifest] = list(manifests(text))
    for manifest in objects:
        apply(admin, manifest)
    yield
    for manifest in objects:
        admin.call("DELETE", path_of(manifest))


def default_account(cast: Cast, admin: ApiClient, *, node: str | None = None) -> Caller:
    create_namespace(admin, "default")
    return cast.account_on("default", "default", node=node)


@pytest.fixture
def controller(admin: ApiClient, cast: Cast, rights: Rights) -> Iterator[Caller]:
    """The example's service account."""
    caller = default_account(cast, admin)
    with applied(admin, EXAMPLE):
        rights.wait_for(caller.name, may_be("user-info", "users", "someUser"))
        rights.wait_for(caller.name, may_do("user-info", "watch"), namespace="default")
        rights.grant("someUser", may("*"))
        yield caller


def test_the_example_lets_the_controller_list_and_watch_as_the_named_user(
    controller: Caller, doors: Doors
) -> None:
    listed = doors.ask(controller, "GET", PODS, as_user("someUser"))
    watch = f"{PODS}?watch=1&timeoutSeconds=1"
    watched = doors.ask(controller, "GET", watch, as_user("someUser"))

    assert (listed.status, watched.status) == (200, 200)


@pytest.mark.parametrize(
    ("method", "path", "user"),
    [
        ("GET", PODS, "otherUser"),
        ("GET", f"{PODS}/x", "someUser"),
        ("DELETE", f"{PODS}/x", "someUser"),
        ("GET", "/api/v1/pods", "someUser"),
        ("GET", "/api/v1/namespaces/default/secrets", "someUser"),
    ],
    ids=["another user", "get", "delete", "every namespace", "another resource"],
)
def test_the_example_lets_the_controller_do_nothing_else(
    method: str, path: str, user: str, controller: Caller, doors: Doors
) -> None:
    assert is_refused_impersonation(doors.ask(controller, method, path, as_user(user)))


@pytest.fixture
def agent(admin: ApiClient, cast: Cast, rights: Rights) -> Iterator[Caller]:
    """Story 1's controller, in a pod on a node of its own."""
    caller = default_account(cast, admin, node=cast.node())
    with applied(admin, STORY_1):
        rights.wait_for(caller.name, may_be("associated-node", "nodes"))
        rights.wait_for(caller.name, may_do("associated-node", "get"))
        yield caller


def test_story_1_the_agent_lists_the_pods_of_its_node(agent: Caller, doors: Doors) -> None:
    assert agent.node is not None
    path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{agent.node}"

    response = doors.ask(agent, "GET", path, as_node(agent.node))

    assert [pod["spec"]["nodeName"] for pod in response.json()["items"]] == [agent.node]


def test_story_1_the_agent_gets_pods_of_its_node_and_of_no_other(
    agent: Caller,
    cast: Cast,
    doors: Doors,
    control_plane: ControlPlane,
    api_servers: tuple[ApiServer, ApiServer],
) -> None:
    assert agent.node is not None
    ours, others = (
        f"{PODS}/{cast.pod('default', node=node)['metadata']['name']}"
        for node in (agent.node, None)
    )
    kubelet = control_plane.clients.issue_node(agent.node)
    for server in api_servers:
        poll(partial(can_get, server.client(kubelet), ours), "the node does not see its pod")

    got, refused = (doors.ask(agent, "GET", path, as_node(agent.node)) for path in (ours, others))

    assert got.status == 200
    assert refused.status == 403
    assert f'User "system:node:{agent.node}" cannot get resource "pods"' in message_of(refused)


def test_story_1_the_agent_may_do_nothing_else(agent: Caller, cast: Cast, doors: Doors) -> None:
    assert agent.node is not None
    node2 = cast.node()
    attempts = [
        ("GET", f"{PODS}?watch=1", agent.node),
        ("DELETE", f"{PODS}/x", agent.node),
        ("GET", "/api/v1/nodes", agent.node),
        ("GET", PODS, node2),
    ]

    answers = [doors.ask(agent, method, path, as_node(node)) for method, path, node in attempts]

    assert all(is_refused_impersonation(response) for response in answers)
    assert doors.ask(agent, "GET", PODS).status == 403


def can_get(client: ApiClient, path: str) -> bool:
    return client.request("GET", path).status == 200


@pytest.fixture(scope="module")
def consoles(
    control_plane: ControlPlane, api_servers: tuple[ApiServer, ApiServer]
) -> Iterator[None]:
    """Virtual machine consoles, behind both API servers' aggregators."""
    admins = [server.admin for server in api_servers]
    with AggregatedServer(control_plane) as server:
        server.register(*admins)
        yield
        service = f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{GROUP}"
        admins[0].call("DELETE", service)


@pytest.fixture
def deputy(consoles: None, admin: ApiClient, cast: Cast, rights: Rights) -> Iterator[Caller]:
    """Story 2's controller."""
    create_namespace(admin, "deputy-ns")
    create_service_account(admin, "deputy-ns", "deputy")
    caller = cast.account_on("deputy-ns", "deputy", node=None)
    with applied(admin, STORY_2):
        rights.wait_for(caller.name, may_be("user-info", "users"))
        rights.wait_for(caller.name, console_rule("user-info"), namespace="default")
        yield caller


def console_rule(mode: str | None = None) -> Rule:
    verb = "get" if mode is None else f"impersonate-on:{mode}:get"
    return may(verb, resources=["virtualmachines/console"], group=GROUP)


def test_story_2_the_deputy_opens_a_console_as_any_user_who_may(
    deputy: Caller, cast: Cast, doors: Doors, rights: Rights
) -> None:
    for _ in range(2):
        rights.grant(user := fresh_name("owner"), console_rule())

        response = doors.ask(deputy, "GET", CONSOLE.format("default"), as_user(user))

        assert response.json()["remote"]["x-remote-user"] == [user]
        assert response.json()["remote"]["x-remote-group"] == ["system:authenticated"]


def test_story_2_a_user_without_permission_gets_no_console_through_the_deputy(
    deputy: Caller, doors: Doors
) -> None:
    response = doors.ask(deputy, "GET", CONSOLE.format("default"), as_user("nobody-special"))

    assert response.status == 403
    assert 'User "nobody-special" cannot get resource "virtualmachines/console"' in message_of(
        response
    )


def test_story_2_the_deputy_may_do_nothing_else(
    deputy: Caller, cast: Cast, doors: Doors, rights: Rights
) -> None:
    rights.grant(owner := fresh_name("owner"), console_rule(), may("*"))
    robot = cast.service_account()
    attempts = [
        (CONSOLE.format(cast.namespace()), as_user(owner)),
        (CONSOLE.format("default").replace("console", "unauthorized"), as_user(owner)),
        (PODS, as_user(owner)),
        (CONSOLE.format("default"), as_user(owner, groups=["dev"])),
        (CONSOLE.format("default"), as_user(robot.name)),
    ]

    answers = [doors.ask(deputy, "GET", path, headers) for path, headers in attempts]

    assert all(is_refused_impersonation(response) for response in answers)
    assert doors.ask(deputy, "GET", CONSOLE.format("default")).status == 403
