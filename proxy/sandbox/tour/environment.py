"""The environment of the demo: running servers, seeded objects and users.

with prepared_environment(announce) as environment:
    environment.native, environment.plain, environment.understudy
    environment.people.alice.credential
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from proxy.sandbox.aggregated.api import AggregatedServer
from proxy.sandbox.aggregated.server import GROUP
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import KeyPair
from proxy.sandbox.objects import (
    apply,
    create_namespace,
    create_node,
    create_pod,
    create_service_account,
    grant,
    token_for,
)
from proxy.sandbox.programs.binaries import find_binaries
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.tour.rbac import (
    LIST_PODS,
    OPEN_CONSOLES,
    STORY_1,
    STORY_2,
    manifests,
)
from proxy.sandbox.tour.requests import KubectlRequest
from proxy.sandbox.tour.runner import ReviewedPermission, TourServer, TourUser

Announce = Callable[[str], None]
DEPUTY_NAMESPACE = "deputy-ns"
OTHER_NAMESPACE = "other"
ON_GET = "impersonate-on:user-info:get"
SETTLING_SECONDS = 30.0
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class TourUsers:
    """The users of the demo. The two agents are pods of one service account on different nodes."""

    admin: TourUser
    alice: TourUser
    bob: TourUser
    robot: TourUser
    agent: TourUser
    other_agent: TourUser
    deputy: TourUser


@dataclass(frozen=True, slots=True)
class TourEnvironment:
    """The running programs. `native` and `plain` are API servers with the same objects."""

    control_plane: ControlPlane
    native: ApiServer
    """An API server with constrained impersonation."""
    plain: ApiServer
    """An API server without constrained impersonation."""
    understudy: ProxyProcess
    """The proxy in front of the plain server."""
    users: TourUsers

    def describe_target(self, target: TourServer) -> str:
        """Return a description of where requests are sent."""
        if target is self.understudy:
            return "through Understudy, to an API server without constrained impersonation"
        return "directly to an API server with constrained impersonation"

    def kubectl(self, *arguments: str) -> KubectlRequest:
        """Return a request that runs the sandbox's kubectl."""
        return KubectlRequest(self.control_plane.binaries.kubectl, arguments)

    def ensure_running(self) -> None:
        """Raise SandboxError if one of the programs has ended."""
        for process in (self.native.process, self.plain.process, self.understudy.process):
            process.ensure_running()


@contextmanager
def prepared_environment(announce: Announce) -> Iterator[TourEnvironment]:
    """Start and seed everything; every exit from the context removes all of it."""
    binaries = find_binaries(announce)
    with ExitStack() as cleanup:
        started = time.monotonic()
        control_plane = cleanup.enter_context(ControlPlane(binaries))
        native, plain = control_plane.start_api_servers(
            ApiServerOptions(name="native", constrained_impersonation=True),
            ApiServerOptions(name="plain", constrained_impersonation=False),
        )
        announce(f"etcd and two API servers are ready in {time.monotonic() - started:.1f} s")
        aggregated = cleanup.enter_context(AggregatedServer(control_plane))
        aggregated.register(native.admin, plain.admin)
        announce("the aggregated API of virtual machines is registered")
        understudy = cleanup.enter_context(ProxyProcess(control_plane, plain))
        announce(f"Understudy serves at {understudy.url}, in front of {plain.url}")
        people = seed(control_plane, plain.admin)
        for server in (native, plain):
            _wait_until_effective(people, server.admin)
        yield TourEnvironment(control_plane, native, plain, understudy, people)


def seed(control_plane: ControlPlane, admin: ApiClient) -> TourUsers:
    """Create the objects that the stories need, and no further grants."""
    for namespace in ("default", DEPUTY_NAMESPACE, OTHER_NAMESPACE):
        create_namespace(admin, namespace)
    create_service_account(admin, "default", "robot")
    create_service_account(admin, DEPUTY_NAMESPACE, "deputy")
    for node in ("node-1", "node-2"):
        create_node(admin, node)
    create_pod(admin, "default", "web-1", node="node-1")
    create_pod(admin, "default", "web-2", node="node-2")
    for story in (STORY_1, STORY_2):
        for manifest in manifests(story):
            apply(admin, manifest)
    alice = _certificate_user(control_plane, "alice", "dev")
    robot = _service_account(admin, "the robot", "default", name="robot")
    grant(admin, "alice", rules=[LIST_PODS, OPEN_CONSOLES], to=_subject(alice))
    grant(admin, "robot", rules=[LIST_PODS], to=_subject(robot))
    return TourUsers(
        admin=TourUser("the admin", "admin", ("system:masters",), control_plane.admin),
        alice=alice,
        bob=_certificate_user(control_plane, "bob", "dev"),
        robot=robot,
        agent=_agent(admin, "the agent", "node-1"),
        other_agent=_agent(admin, "the agent of node-2", "node-2"),
        deputy=_service_account(admin, "the deputy", DEPUTY_NAMESPACE, name="deputy"),
    )


def _wait_until_effective(people: TourUsers, admin: ApiClient) -> None:
    """Wait until an API server's own watches have delivered the seeded grants."""
    node_1 = TourUser("node-1", "system:node:node-1", ("system:nodes",))
    console = "virtualmachines/console"
    latest = (
        ReviewedPermission(people.robot, "list", "pods"),
        ReviewedPermission(people.agent, "impersonate-on:associated-node:list", "pods"),
        ReviewedPermission(people.deputy, ON_GET, console, group=GROUP, namespace="default"),
        ReviewedPermission(node_1, "get", "pods", namespace="default", name="agent-node-1"),
    )
    deadline = time.monotonic() + SETTLING_SECONDS
    for permission in latest:
        while not permission.check(admin)[0]:
            if time.monotonic() > deadline:
                raise SandboxError(f"the API server does not grant: {permission.describe()}")
            time.sleep(POLL_SECONDS)


def _certificate_user(control_plane: ControlPlane, name: str, group: str) -> TourUser:
    certificate: KeyPair = control_plane.clients.issue_client(name, groups=(group,))
    return TourUser(name, name, (group,), certificate)


def _agent(admin: ApiClient, title: str, node: str) -> TourUser:
    """Return a pod of the DaemonSet, whose token names the node it runs on."""
    pod = create_pod(admin, "default", f"agent-{node}", node=node)
    token = token_for(admin, "default", "default", pod=pod)
    account = _service_account(admin, title, "default", name="default")
    return TourUser(title, account.username, account.groups, token)


def _service_account(admin: ApiClient, title: str, namespace: str, *, name: str) -> TourUser:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    username = f"system:serviceaccount:{namespace}:{name}"
    return TourUser(title, username, groups, token_for(admin, namespace, name))


def _subject(user: TourUser) -> dict[str, str]:
    """Return the RBAC subject of a user; a service account is a valid User subject, too."""
    return {"kind": "User", "name": user.username}
