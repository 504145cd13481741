"""A control plane, the proxy and a hostile backend, all in one network namespace.

The backend is at once a kubelet, a pod, the endpoint of a Service and an aggregated API server.
`Stage.play` sends one request directly to kube-apiserver and an equal one through the proxy.
"""

import base64
import itertools
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.request import urlopen

from proxy.sandbox.api_client import ApiClient, client_context
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import TokenUser, write_kubeconfig
from proxy.sandbox.objects import (
    apply,
    create_namespace,
    grant,
    set_status,
)
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.sandbox.programs.binaries import Binaries
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support.hostile_backend import HostileBackend, Received, Script
from tests.support.impersonation import poll
from tests.support.network_namespace import ADDRESS, NetworkNamespace
from tests.support.raw_client import Headers, RawClient, Seen

FORWARDER, REVIEWER = "understudy-forwarder", "understudy-reviewer"
USERS = tuple(TokenUser(name) for name in ("alice", "bob", FORWARDER))
GROUP = "hostile.example.com"
NODE, POD, SERVICE, NAMESPACE = "hostile-node", "hostile-pod", "hostile-service", "hostile"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
AUDIT_LOG = "proxy-audit.log"
RECORD_ALL = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "RequestResponse"}],
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a client saw of one answer, and what the backend had received for it."""

    seen: Seen
    received: list[Received]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same request, asked twice."""

    number: int
    direct: Exchange
    through: Exchange


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks."""

    method: str = "GET"
    headers: Headers = ()
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that runs. Its methods may be called from outside the namespace."""

    namespace: NetworkNamespace
    server: ApiServer
    proxy: ProxyProcess
    audit_log: Path
    backend: HostileBackend
    admin_url: str
    users: Mapping[str, TokenUser]
    routes: Mapping[str, str]
    """Targets by the name of the route, with `{case}` for the number of the case."""
    bob: RawClient
    """A connection of his own to the proxy, kept for all cases."""
    _contexts: Mapping[str, ssl.SSLContext]
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1000))

    def play(self, route: str, script: Script, request: Request) -> Pair:
        """Ask directly, then through the proxy, each on a connection of its own.

        After the answer of the proxy alice asks on the same connection who she is, if it goes on,
        and bob does so on another one, which shares the connections to the API server.
        """
        number, target = self.new_case(route, script)
        return self.namespace.run(self._play, number, target, request)

    def connect(self, door: str, user: str) -> RawClient:
        """Connect to `server` or `proxy` as a user; call it inside the namespace."""
        url = self.server.url if door == "server" else self.proxy.url
        return RawClient(url, self._contexts[door], token=self.users[user].token.value)

    def new_case(self, route: str, script: Script) -> tuple[int, str]:
        """Return the number of a new case with this script, and its target."""
        number = next(self._numbers)
        self.backend.script(number, script)
        return number, self.routes[route].format(case=number)

    def received_any(self, number: int) -> bool:
        """Tell whether the backend was reached by a case."""
        return bool(self.backend.received(number))

    def metrics(self) -> dict[str, float]:
        """Return the series that count what is wrong with the proxy's own identities."""
        page = self.namespace.run(self.page, "metrics")
        series = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
        watched = (
            "understudy_proxy_",
            "understudy_request_errors_total",
            "understudy_upstream_connect_",
        )
        return {name: float(value) for name, _, value in series if name.startswith(watched)}

    def page(self, name: str) -> str:
        """Return a page of the admin port; call it inside the namespace."""
        with urlopen(f"{self.admin_url}/{name}", timeout=10) as page:
            text: str = page.read().decode()
        return text

    def log(self) -> str:
        """Return all that the proxy has logged."""
        return self.proxy.log_file.read_text()

    def memory(self, name: str) -> int:
        """Return a figure of the proxy's memory, such as VmRSS, in bytes."""
        status = Path(f"/proc/{self.proxy.process.pid}/status").read_text()
        return next(
            int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name)
        )

    def _play(self, number: int, target: str, request: Request) -> Pair:
        with self.connect("server", "alice") as client:
            direct = self._exchange(client, number, target, request)
        with self.connect("proxy", "alice") as client:
            through = self._exchange(client, number, target, request)
            check_next(client, through.seen)
        assert who(self.bob) == "bob"
        return Pair(number, direct, through)

    def _exchange(self, client: RawClient, number: int, target: str, request: Request) -> Exchange:
        client.send(request.method, target, headers=request.headers, body=request.body)
        seen = client.read(request.method)
        return Exchange(seen, self.backend.received(number))


def check_next(client: RawClient, seen: Seen) -> None:
    """Fail unless the next answer on a connection is alice's own, or the connection has ended."""
    if seen.is_complete and "close" not in ",".join(seen.values("connection")).lower():
        assert who(client) == "alice"
    else:
        assert client.rest() == b""


def who(client: RawClient) -> str:
    """Return the name that the API server has for whoever asks on this connection."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    headers = (("Content-Type", "application/json"),)
    client.send("POST", REVIEW, headers=headers, body=json.dumps(review).encode())
    seen = client.read("POST")
    assert seen.status == 201, seen
    name: str = json.loads(seen.body)["status"]["userInfo"]["username"]
    return name


@contextmanager
def running_stage(binaries: Binaries, namespace: NetworkNamespace) -> Iterator[Stage]:
    """Start everything inside a namespace, and end it there."""
    with ExitStack() as cleanup:

        def start() -> Stage:
            return _start(binaries, namespace, cleanup)

        try:
            yield namespace.run(start)
        finally:
            namespace.run(cleanup.close)


def _start(binaries: Binaries, namespace: NetworkNamespace, cleanup: ExitStack) -> Stage:
    control_plane = cleanup.enter_context(ControlPlane(binaries, token_users=USERS))
    server = control_plane.start_api_server(
        ApiServerOptions(
            constrained_impersonation=False,
            extra_flags=(f"--advertise-address={ADDRESS}", "--enable-aggregator-routing=true"),
        )
    )
    backend = cleanup.enter_context(_backend(control_plane))
    _create_objects(server.admin, backend.port, control_plane.servers.certificate_pem)
    admin_port = cleanup.enter_context(ReservedPort())
    proxy = cleanup.enter_context(
        ProxyProcess(control_plane, server, settings=_settings(control_plane, server, admin_port))
    )
    contexts = {"server": client_context(server.ca_pem), "proxy": client_context(proxy.ca_pem)}
    token = control_plane.token_users["bob"].token.value
    stage = Stage(
        namespace=namespace,
        server=server,
        proxy=proxy,
        audit_log=control_plane.directory / AUDIT_LOG,
        backend=backend,
        admin_url=f"http://{LOOPBACK}:{admin_port.number}",
        users=control_plane.token_users,
        routes=_routes(backend.port),
        bob=cleanup.enter_context(RawClient(proxy.url, contexts["proxy"], token=token)),
        _contexts=MappingProxyType(contexts),
    )
    poll(lambda: _is_served(stage), "alice is not served through the proxy")
    return stage


def _is_served(stage: Stage) -> bool:
    """Tell whether alice reaches the aggregated server through the proxy."""
    with stage.connect("proxy", "alice") as client:
        client.send("GET", f"/apis/{GROUP}/v1")
        return client.read().status == 200


def _settings(
    control_plane: ControlPlane, server: ApiServer, admin_port: ReservedPort
) -> dict[str, dict[str, object]]:
    """Return the proxy's settings: all bodies are recorded, and the forwarder holds a token."""
    directory = control_plane.directory
    forwarder = write_kubeconfig(
        directory / "forwarder.yaml",
        url=server.url,
        ca_pem=server.ca_pem,
        credential=control_plane.token_users[FORWARDER].token,
    )
    reviewer = write_kubeconfig(
        directory / "reviewer.yaml",
        url=server.url,
        ca_pem=server.ca_pem,
        credential=control_plane.clients.issue_client(REVIEWER),
    )
    policy = directory / "proxy-audit-policy.json"
    policy.write_text(json.dumps(RECORD_ALL))
    return {
        "admin": {"address": f"{LOOPBACK}:{admin_port.number}"},
        "audit": {"log": {"path": str(directory / AUDIT_LOG)}, "policyFile": str(policy)},
        "upstream": {"kubeconfig": str(forwarder), "reviewer": {"kubeconfig": str(reviewer)}},
    }


def _routes(port: int) -> dict[str, str]:
    core, path = f"/api/v1/namespaces/{NAMESPACE}", "proxy/case-{case}"
    return {
        "node": f"/api/v1/nodes/{NODE}/{path}",
        "service": f"{core}/services/http:{SERVICE}:web/{path}",
        "service-tls": f"{core}/services/https:{SERVICE}:web/{path}",
        "pod": f"{core}/pods/http:{POD}:{port}/{path}",
        "aggregated": f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/things/case-{{case}}",
        "log": f"{core}/pods/{POD}/log?tailLines={{case}}",
        "follow": f"{core}/pods/{POD}/log?follow=true&tailLines={{case}}",
    }


def _backend(control_plane: ControlPlane) -> HostileBackend:
    serving = control_plane.servers.issue_server(ADDRESS, f"{SERVICE}.{NAMESPACE}.svc")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*serving.write(control_plane.directory, "hostile"))
    return HostileBackend(ADDRESS, context, pages={f"/apis/{GROUP}/v1": _discovery()})


def _discovery() -> bytes:
    document = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/v1",
        "resources": [{"name": "things", "namespaced": True, "kind": "Thing", "verbs": ["get"]}],
    }
    body = json.dumps(document).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


def _create_objects(admin: ApiClient, port: int, ca_pem: bytes) -> None:
    create_namespace(admin, NAMESPACE)
    _create_node_and_pod(admin, port)
    metadata = {"namespace": NAMESPACE, "name": SERVICE}
    ports = [{"name": "web", "port": port, "protocol": "TCP"}]
    pod = {"kind": "Pod", "namespace": NAMESPACE, "name": POD}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata}
    apply(admin, {**service, "spec": {"ports": ports}})
    labels = {"kubernetes.io/service-name": SERVICE}
    apply(
        admin,
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": [ADDRESS], "conditions": {"ready": True}, "targetRef": pod}
            ],
            "ports": ports,
        },
    )
    registration = {
        "group": GROUP,
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "caBundle": base64.b64encode(ca_pem).decode(),
        "service": {**metadata, "port": port},
    }
    name = {"name": f"v1.{GROUP}"}
    kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": name}
    apply(admin, {**kind, "spec": registration})
    proxied = ["nodes/proxy", "services/proxy", "pods/proxy", "pods/log"]
    rules = [
        {"apiGroups": [""], "resources": proxied, "verbs": ["*"]},
        {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]},
    ]
    grant(admin, "alice-reaches-backends", rules=rules, to={"kind": "User", "name": "alice"})


def _create_node_and_pod(admin: ApiClient, port: int) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    apply(admin, node)
    node_status = {
        "addresses": [{"type": "InternalIP", "address": ADDRESS}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    set_status(admin, node, node_status)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": NAMESPACE, "name": POD},
        "spec": {
            "nodeName": NODE,
            "serviceAccountName": "default",
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    apply(admin, pod)
    set_status(admin, pod, {"phase": "Running", "podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]})
