"""A scenario of 90 seconds that produces data for every panel.

Callers send requests as themselves and as other users, with each impersonation mode and, for a
while, with legacy impersonation. One caller has no permissions, another guesses tokens. Watches
stay open, and the API server is down for some seconds.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException

from proxy.sandbox.api_client import ApiConnection
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken, Credential
from proxy.sandbox.objects import (
    create_namespace,
    create_node,
    create_pod,
    create_service_account,
    grant,
    token_for,
)
from proxy.sandbox.proxy_process import ProxyProcess

SECONDS = 90.0
_DOWN_AT, _UP_AT = 60.0, 68.0
_PODS, _ALL_PODS = "/api/v1/namespaces/shop/pods", "/api/v1/pods"
_RETRY_SECONDS = 0.5
Header = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Client:
    """A client that repeats one request from a start time to an end time."""

    credential: Credential
    target: str
    headers: Sequence[Header] = ()
    per_second: float = 5.0
    starts: float = 0.0
    ends: float = SECONDS
    changes_identity: bool = False
    """Whether each request has a new wanted user, so that no decision is cached."""


def run_scenario(
    server: ApiServer, replicas: Sequence[ProxyProcess], parts: Sequence[Client]
) -> None:
    """Run all clients concurrently, spread over the replicas, and stop the API server meanwhile."""
    begun = time.monotonic()

    def elapsed() -> float:
        return time.monotonic() - begun

    threads = [
        threading.Thread(target=_run_client, args=(part, replicas[number % len(replicas)], elapsed))
        for number, part in enumerate(parts)
    ]
    for thread in threads:
        thread.start()
    _wait_until(_DOWN_AT, elapsed)
    server.stop()
    _wait_until(_UP_AT, elapsed)
    server.launch()
    server.wait_until_ready()
    for thread in threads:
        thread.join()


def _wait_until(seconds: float, elapsed: Callable[[], float]) -> None:
    time.sleep(max(0.0, seconds - elapsed()))


def _run_client(part: Client, replica: ProxyProcess, elapsed: Callable[[], float]) -> None:
    _wait_until(part.starts, elapsed)
    client = replica.client(part.credential)
    while elapsed() < part.ends:
        try:
            with client.connect() as connection:
                _send_repeatedly(part, connection, elapsed)
        except (OSError, HTTPException):
            time.sleep(_RETRY_SECONDS)


def _send_repeatedly(part: Client, connection: ApiConnection, elapsed: Callable[[], float]) -> None:
    while elapsed() < part.ends:
        headers = list(part.headers)
        if part.changes_identity:
            headers = [("Impersonate-User", f"customer-{random.randrange(10_000)}")]
        connection.request("GET", part.target, headers=headers)
        # Poisson arrivals, so that clients are not synchronized.
        time.sleep(random.expovariate(part.per_second))


def create_clients(control_plane: ControlPlane, server: ApiServer) -> list[Client]:
    """Create the users with their permissions, and return the clients."""
    admin = server.admin
    create_namespace(admin, "shop")
    for node in ("node-1", "node-2"):
        create_node(admin, node)
    create_service_account(admin, "shop", "agent")
    create_service_account(admin, "shop", "reporter")
    pod = create_pod(admin, "shop", "agent-1", node="node-1", service_account="agent")
    agent = token_for(admin, "shop", "agent", pod=pod)
    certificate = control_plane.clients.issue_client
    for name, rules in _PERMISSIONS.items():
        subject = _subject(name)
        grant(admin, f"dashboard-{name}", rules=rules, to=subject)
    as_alice = [("Impersonate-User", "alice")]
    on_node_1 = f"{_ALL_PODS}?fieldSelector=spec.nodeName%3Dnode-1"
    return [
        Client(certificate("alice"), _PODS, per_second=12),
        Client(agent, on_node_1, [("Impersonate-User", "system:node:node-1")], per_second=8),
        Client(certificate("deputy"), _PODS, as_alice, per_second=10),
        Client(certificate("deputy"), _PODS, per_second=2, starts=10, changes_identity=True),
        Client(
            certificate("manager"),
            _PODS,
            [("Impersonate-User", "system:serviceaccount:shop:reporter")],
            per_second=4,
        ),
        Client(certificate("former"), _PODS, as_alice, per_second=3, starts=20, ends=45),
        Client(certificate("stranger"), _PODS, as_alice, per_second=6, starts=30, ends=50),
        Client(BearerToken("a-guess"), _PODS, per_second=3, starts=40, ends=55),
        Client(agent, "/version", per_second=3),
        *(
            Client(certificate(f"watcher-{n}"), f"{_PODS}?watch=1&timeoutSeconds={20 + 7 * n}")
            for n in range(4)
        ),
    ]


def _subject(name: str) -> dict[str, str]:
    if name == "agent":
        return {"kind": "ServiceAccount", "namespace": "shop", "name": name}
    kind = "Group" if name == "system:authenticated" else "User"
    return {"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name}


def _mode(mode: str, resource: str) -> list[dict[str, list[str]]]:
    return [
        {
            "verbs": [f"impersonate:{mode}"],
            "apiGroups": ["authentication.k8s.io"],
            "resources": [resource],
        },
        {"verbs": [f"impersonate-on:{mode}:list"], "apiGroups": [""], "resources": ["pods"]},
    ]


_READS = [{"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["pods"]}]
_PERMISSIONS = {
    "system:authenticated": _READS,
    "agent": _mode("associated-node", "nodes"),
    "deputy": _mode("user-info", "users"),
    "manager": _mode("serviceaccount", "serviceaccounts"),
    "former": [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}],
}
