"""The environment of the decision rows: kube-apiserver's own filter, and this proxy instead of it.

Two kube-apiservers use one etcd: `native` authorizes impersonation itself, `plain` has the feature
disabled and this proxy in front. Both have the same objects and permissions, so responses must be
equal byte for byte. Neither writes an audit log: only the filters are compared.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from bench.contestants import Contestant, Entry
from bench.round_trips import ReviewRelay
from bench.row import Scene
from bench.stage import bench_program
from bench.walking import PersistentGenerators
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import TokenUser, write_secret
from proxy.sandbox.objects import apply, create_namespace, grant
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.sandbox.programs.binaries import find_binaries
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import REVIEWER_NAME

USER_INFO, NAMED, LEGACY = "bench:user-info", "bench:named", "bench:legacy"
"""Groups of callers: granted all groups by a wildcard, each by name, and by legacy rules."""
CALLER = TokenUser("bench-caller", groups=(USER_INFO,))
MOST_GROUPS = 100
CONFIG_MAP = "/api/v1/namespaces/bench/configmaps/settings"
VERSION = "/version"

_AUTHENTICATION = "authentication.k8s.io"
_NO_AUDIT = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"
# A caller sends far more requests here than in normal use.
_NO_RATE_LIMIT = {"perCallerPerSecond": 1_000_000, "perCallerBurst": 1_000_000}
_SCRAPE_SECONDS = 30.0
_SERIES = re.compile(r"^(\w+)(\{.*\})? ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Two API servers with the same objects, and the load generators for them."""

    control_plane: ControlPlane
    native: ApiServer
    plain: ApiServer
    walks: PersistentGenerators
    relays: dict[str, tuple[ReviewRelay, Contestant]] = field(default_factory=dict)
    """By entry name: a second instance of the proxy, with its reviews sent through a relay."""
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def authority_file(self) -> Path:
        """Return the CA file of all servers."""
        return self.plain.ca_file

    @property
    def token_file(self) -> Path:
        """Return the file of CALLER's token."""
        return self.control_plane.directory / "bench-token"

    def body_of(self, target: str) -> bytes:
        """Return the expected response body, requested from the API server directly."""
        return self.plain.admin.request("GET", target).body

    def digest_of(self, target: str) -> str:
        """Return the SHA-256 of the expected response body."""
        return hashlib.sha256(self.body_of(target)).hexdigest()

    def total(self, contestant: Contestant, metric: str, label: str = "") -> float:
        """Return a counter's value at a contestant, over all series with that label."""
        if contestant.metrics_url:
            with urlopen(contestant.metrics_url, timeout=_SCRAPE_SECONDS) as response:
                page = response.read()
        else:
            page = self.native.admin.request("GET", "/metrics").body
        return counter_total(page.decode(), metric, label)


def counter_total(page: str, metric: str, label: str = "") -> float:
    """Return the sum of a metric's series that have a label, such as `result="hit"`."""
    series: list[tuple[str, str, str]] = _SERIES.findall(page)
    return sum(float(value) for name, labels, value in series if name == metric and label in labels)


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Start both servers, with the permissions that the rows need; SandboxError on failure."""
    with (
        ControlPlane(find_binaries(), token_users=[CALLER]) as control_plane,
        PersistentGenerators(bench_program()) as walks,
    ):
        native, plain = control_plane.start_api_servers(
            ApiServerOptions(name="native", constrained_impersonation=True, audit_policy=_NO_AUDIT),
            ApiServerOptions(name="plain", constrained_impersonation=False, audit_policy=_NO_AUDIT),
        )
        _create_objects(plain.admin)
        cluster = Cluster(control_plane, native, plain, walks)
        write_secret(cluster.token_file, CALLER.token.value.encode())
        yield cluster


@contextmanager
def _start_native(entry: Entry, cluster: Cluster) -> Iterator[Contestant]:
    server = cluster.native
    yield Contestant(entry, urlsplit(server.url).netloc, server.process.pid)


@contextmanager
def _start_proxy(entry: Entry, cluster: Cluster) -> Iterator[Contestant]:
    reviewer = cluster.control_plane.clients.issue_client(REVIEWER_NAME)
    with ExitStack() as cleanup:
        measured = cleanup.enter_context(_run_proxy(entry, cluster, {}))
        relay = cleanup.enter_context(
            ReviewRelay(cluster.plain, reviewer, cluster.control_plane.servers)
        )
        through = {"upstream": {"reviewer": {"kubeconfig": str(relay.kubeconfig)}}}
        counted = cleanup.enter_context(_run_proxy(entry, cluster, through))
        cluster.relays[entry.name] = relay, counted
        yield measured


@contextmanager
def _run_proxy(
    entry: Entry, cluster: Cluster, settings: Mapping[str, Mapping[str, Any]]
) -> Iterator[Contestant]:
    with ReservedPort() as port:
        sections: dict[str, Mapping[str, Any]] = {
            "impersonation": {"reviews": _NO_RATE_LIMIT},
            "admin": {"address": f"{LOOPBACK}:{port.number}"},
            **settings,
        }
        with ProxyProcess(
            cluster.control_plane, cluster.plain, settings=sections, code=entry.checkout
        ) as proxy:
            yield Contestant(
                entry,
                urlsplit(proxy.url).netloc,
                proxy.process.pid,
                metrics_url=f"http://{LOOPBACK}:{port.number}/metrics",
            )


CONTROL_PLANE = Scene(
    "control plane",
    running_cluster,
    (
        Entry("native", "kube-apiserver with its own impersonation filter", _start_native),
        Entry(
            "us", "this proxy: token, decision, metrics, access log", _start_proxy, is_proxy=True
        ),
    ),
)


def _create_objects(admin: ApiClient) -> None:
    """Create the requested object, and the permissions of all users."""
    create_namespace(admin, "bench")
    apply(
        admin,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "bench"},
            "data": {"content": "x" * 512},
        },
    )
    on_maps = {"apiGroups": [""], "resources": ["configmaps"]}
    on_version = {"nonResourceURLs": [VERSION]}
    # Callers have no permission for the object, so a success proves impersonation.
    grant(
        admin,
        "bench-wanted",
        rules=[{**on_maps, "verbs": ["get"]}],
        to={"kind": "Group", "name": "group-0"},
    )
    actions = [
        {**target, "verbs": ["impersonate-on:user-info:get"]} for target in (on_maps, on_version)
    ]
    users, groups = (
        _identities(_AUTHENTICATION, "impersonate:user-info", each) for each in ("users", "groups")
    )
    names = {"resourceNames": [f"group-{number}" for number in range(MOST_GROUPS)]}
    legacy = [_identities("", "impersonate", each) for each in ("users", "groups")]
    permissions = {
        USER_INFO: [*actions, users, groups],
        NAMED: [*actions, users, {**groups, **names}],
        LEGACY: legacy,
    }
    for group, rules in permissions.items():
        subject = {"kind": "Group", "name": group}
        grant(admin, group.replace(":", "-"), rules=rules, to=subject)


def _identities(group: str, verb: str, resource: str) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
