"""The tour's stage: everything running and seeded, and the people who act on it.

with prepared_stage(announce) as stage:
    stage.native, stage.plain, stage.understudy
    stage.alice.credential
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
    """Who is who. The two agents are pods of one service account on different nodes."""

    admin: TourUser
    alice: TourUser
    bob: TourUser
    robot: TourUser
    agent: TourUser
    other_agent: TourUser
    deputy: TourUser


@dataclass(frozen=True, slots=True)
class TourEnvironment:
    """All that runs. `native` and `plain` are API servers with the same objects."""

    control_plane: ControlPlane
    native: ApiServer
    """Has constrained impersonation."""
    plain: ApiServer
    """A cluster without it."""
    understudy: ProxyProcess
    """The proxy before the plain server."""
    people: TourUsers

    def place(self, target: TourServer) -> str:
        """Return in words where something is played."""
        if target is self.understudy:
            return "through Understudy, before an API server without the feature"
        return "on an API server that has the feature itself"

    def kubectl(self, *arguments: str) -> KubectlRequest:
        """Return a request that runs our kubectl."""
        return KubectlRequest(self.control_plane.binaries.kubectl, arguments)

    def ensure_running(self) -> None:
        """Raise SandboxError if one of the programs has ended."""
        for process in (self.native.process, self.plain.process, self.understudy.process):
            process.ensure_running()


@contextmanager
def prepared_environment(announce: Announce) -> Iterator[TourEnvironment]:
    """Start and seed everything; on leaving nothing is left, in whatever way we leave."""
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
        announce("the virtual machines' aggregated API is registered")
        understudy = cleanup.enter_context(ProxyProcess(control_plane, plain))
        announce(f"Understudy serves at {understudy.url}, before {plain.url}")
        people = seed(control_plane, plain.admin)
        for server in (native, plain):
            _wait_until_known(people, server.admin)
        yield TourEnvironment(control_plane, native, plain, understudy, people)


def seed(control_plane: ControlPlane, admin: ApiClient) -> TourUsers:
    """Create what the stories need, and nothing that would make them easier."""
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


def _wait_until_known(people: TourUsers, admin: ApiClient) -> None:
    """Wait until an API server decides by what was seeded: each learns of it by its own watches."""
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
                raise SandboxError(f"the API server does not learn of: {permission.describe()}")
            time.sleep(POLL_SECONDS)


def _certificate_user(control_plane: ControlPlane, name: str, group: str) -> TourUser:
    certificate: KeyPair = control_plane.clients.issue_client(name, groups=(group,))
    return TourUser(name, name, (group,), certificate)


def _agent(admin: ApiClient, title: str, node: str) -> TourUser:
    """Return a pod of the DaemonSet: its token says on which node it runs."""
    pod = create_pod(admin, "default", f"agent-{node}", node=node)
    token = token_for(admin, "default", "default", pod=pod)
    account = _service_account(admin, title, "default", name="default")
    return TourUser(title, account.username, account.groups, token)


def _service_account(admin: ApiClient, title: str, namespace: str, *, name: str) -> TourUser:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    username = f"system:serviceaccount:{namespace}:{name}"
    return TourUser(title, username, groups, token_for(admin, namespace, name))


def _subject(person: TourUser) -> dict[str, str]:
    """Return the person as RBAC names them; a service account may be named as a user too."""
    return {"kind": "User", "name": person.username}
