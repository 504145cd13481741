"""The real control plane of the decision rows: the native filter, and ourselves in its place.

Two kube-apiservers on one etcd: `native` decides about impersonation itself, `plain` is without the
feature and has us in front. Both hold the same objects and rights, so that answers must be equal
byte for byte. Neither writes an audit log: here the filters are compared, not their records.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

from bench.round_trips import ReviewRelay
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.binaries import find_binaries
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import TokenUser
from proxy.sandbox.objects import apply, create_namespace, grant
from proxy.sandbox.own_rules import REVIEWER_NAME
from proxy.sandbox.ports import LOOPBACK, ReservedPort
from proxy.sandbox.proxy_process import ProxyProcess

USER_INFO, NAMED, LEGACY = "bench:user-info", "bench:named", "bench:legacy"
"""Groups of callers: with every group granted by a star, with each by name, and of old."""
CALLER = TokenUser("bench-caller", groups=(USER_INFO,))
MOST_GROUPS = 100
CONFIG_MAP = "/api/v1/namespaces/bench/configmaps/settings"
VERSION = "/version"

_AUTHENTICATION = "authentication.k8s.io"
_NO_AUDIT = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"
# A caller here asks more within a second than a person does in a day.
_NO_RATION = {"perCallerPerSecond": 1_000_000, "perCallerBurst": 1_000_000}
_METRIC = re.compile(rb"^(\w+)(?:\{.*\})? ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OurProxy:
    """A proxy before the plain server, and where it tells what it has done."""

    running: ProxyProcess
    metrics_url: str

    def total(self, metric: str) -> float:
        """Return a counter's value, over all its labels."""
        with urlopen(self.metrics_url, timeout=30) as page:
            found: list[tuple[bytes, bytes]] = _METRIC.findall(page.read())
        return sum(float(value) for name, value in found if name == metric.encode())


@dataclass(frozen=True, slots=True)
class Cluster:
    """Both ways to the same objects. `counted` asks its reviews through the relay."""

    control_plane: ControlPlane
    native: ApiServer
    us: OurProxy
    counted: OurProxy
    relay: ReviewRelay


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Start everything, with the rights that the rows need; SandboxError if that fails."""
    with ControlPlane(find_binaries(), token_users=[CALLER]) as control_plane:
        native, plain = control_plane.start_api_servers(
            ApiServerOptions(name="native", constrained_impersonation=True, audit_policy=_NO_AUDIT),
            ApiServerOptions(name="plain", constrained_impersonation=False, audit_policy=_NO_AUDIT),
        )
        _furnish(plain.admin)
        reviewer = control_plane.clients.issue_client(REVIEWER_NAME)
        with ExitStack() as cleanup:
            us = cleanup.enter_context(_our_proxy(control_plane, plain, {}))
            relay = cleanup.enter_context(ReviewRelay(plain, reviewer, control_plane.servers))
            through = {"upstream": {"reviewer": {"kubeconfig": str(relay.kubeconfig)}}}
            counted = cleanup.enter_context(_our_proxy(control_plane, plain, through))
            yield Cluster(control_plane, native, us, counted, relay)


@contextmanager
def _our_proxy(
    control_plane: ControlPlane, server: ApiServer, settings: Mapping[str, Mapping[str, Any]]
) -> Iterator[OurProxy]:
    with ReservedPort() as port:
        sections: dict[str, Mapping[str, Any]] = {
            "impersonation": {"reviews": _NO_RATION},
            "admin": {"address": f"{LOOPBACK}:{port.number}"},
            **settings,
        }
        with ProxyProcess(control_plane, server, settings=sections) as running:
            yield OurProxy(running, f"http://{LOOPBACK}:{port.number}/metrics")


def _furnish(admin: ApiClient) -> None:
    """Create the object that is asked for, and everybody's rights."""
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
    everyone = {"kind": "Group", "name": "system:authenticated"}
    grant(admin, "bench-everyone", rules=[{**on_maps, "verbs": ["get"]}], to=everyone)
    deeds = [{**deed, "verbs": ["impersonate-on:user-info:get"]} for deed in (on_maps, on_version)]
    users, groups = (
        _identities(_AUTHENTICATION, "impersonate:user-info", each) for each in ("users", "groups")
    )
    names = {"resourceNames": [f"group-{number}" for number in range(MOST_GROUPS)]}
    old = [_identities("", "impersonate", each) for each in ("users", "groups")]
    rights = {
        USER_INFO: [*deeds, users, groups],
        NAMED: [*deeds, users, {**groups, **names}],
        LEGACY: old,
    }
    for group, rules in rights.items():
        subject = {"kind": "Group", "name": group}
        grant(admin, group.replace(":", "-"), rules=rules, to=subject)


def _identities(group: str, verb: str, resource: str) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
