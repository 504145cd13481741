"""Intents granted for real: applied by kubectl, then run as tests through the proxy."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.core.rbac.intent.cases import ExpectedDecision, expected_decisions
from proxy.core.rbac.intent.model import Intent
from proxy.core.rbac.intent.parser import read_intent
from proxy.core.rbac.model import UNNAMED_USER
from proxy.core.rbac.resources import BUILT_IN, APIResource
from proxy.core.userinfo import UserInfo
from proxy.sandbox.api_client import ApiClient, ApiConnection
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import Credential
from proxy.sandbox.objects import (
    apply,
    create_namespace,
    create_node,
    create_pod,
    create_service_account,
    token_for,
)
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.kep.cast import Cast
from tests.explain_parity.command import Said, run
from tests.support.control_plane import fresh_name
from tests.support.http_explain import headers_for, request_line
from tests.support.impersonation import Rights, is_refused_impersonation, may, poll
from tests.support.kubectl import Kubectl

pytestmark = pytest.mark.timeout(180)

NODE = "anyone"  # whom the trials take for somebody's own node
ACTIONS: list[dict[str, Any]] = [
    {"verbs": ["get", "list"], "resources": ["pods", "pods/log", "deployments.apps"]},
    {"verbs": ["create"], "resources": ["pods/exec"], "names": ["web-0"]},
    {"verbs": ["delete"], "resources": ["secrets"], "names": ["one", "two"]},
    {"verbs": ["list"], "resources": ["nodes"]},
    {"verbs": ["get"], "paths": ["/healthz/*"]},
]
MODES: dict[str, dict[str, Any]] = {
    "user-info": {
        "targets": [
            {"user": "granted-alice", "groups": ["a", "b"]},
            {"user": "granted-bob", "uid": "7", "extras": {"acme.io/scope": ["read"]}},
        ]
    },
    "every user": {"mode": "user-info", "targets": [{"user": "*", "groups": ["a"]}]},
    "serviceaccount": {"targets": [{"serviceAccount": "granted/teller"}]},
    "arbitrary-node": {"targets": [{"node": "n1"}, {"node": "n2"}]},
    "associated-node": {},
}


@pytest.fixture(scope="module")
def understudy(control_plane: ControlPlane, plain_api_server: ApiServer) -> Iterator[ProxyProcess]:
    """A proxy in its usual configuration, that can carry any extra."""
    proxy = ProxyProcess(control_plane, plain_api_server, components=["all-extras"])
    with proxy as running:
        yield running


@pytest.fixture(scope="module")
def admin_kubeconfig(control_plane: ControlPlane, plain_api_server: ApiServer) -> Path:
    return plain_api_server.kubeconfig_for(control_plane.admin, name="grant-admin")


@pytest.fixture
def kubectl(control_plane: ControlPlane, admin_kubeconfig: Path) -> Kubectl:
    return Kubectl(control_plane.binaries.kubectl, admin_kubeconfig)


@dataclass(frozen=True, slots=True)
class Office:
    """An operator's kubectl and understudy, and a file for an intent."""

    kubectl: Kubectl
    file: Path

    def write(self, document: dict[str, Any]) -> None:
        self.file.write_text(yaml.safe_dump(document))

    def grant(self) -> Said:
        """Compile the intent, apply it, and return what is verified once the cluster knows."""
        compiled = run("grant", str(self.file))
        assert compiled.code == 0, compiled.errors
        applied = self.kubectl.run("apply", "-f", "-", stdin=compiled.output.encode())
        assert applied.returncode == 0, applied.stderr
        said: list[Said] = []

        def is_true() -> bool:
            said.append(self.verify())
            return said[-1].code == 0

        poll(is_true, "the intent does not come true")
        return said[-1]

    def verify(self) -> Said:
        return self.run("--verify")

    def run(self, *options: str) -> Said:
        """Run the command about the intent, with the operator's kubeconfig."""
        return run("grant", str(self.file), *options, f"--kubeconfig={self.kubectl.kubeconfig}")


@pytest.fixture
def office(kubectl: Kubectl, tmp_path: Path) -> Office:
    return Office(kubectl, tmp_path / "intent.yaml")


class Callers:
    """Proofs of who the callers of trials are."""

    def __init__(self, control_plane: ControlPlane, admin: ApiClient) -> None:
        self._control_plane = control_plane
        self._admin = admin
        self._known: dict[UserInfo, Credential] = {}

    def credential(self, user: UserInfo) -> Credential:
        if user not in self._known:
            self._known[user] = self._prove(user)
        return self._known[user]

    def _prove(self, user: UserInfo) -> Credential:
        if not user.name.startswith("system:serviceaccount:"):
            groups = [one for one in user.groups if not one.startswith("system:")]
            return self._control_plane.clients.issue_client(user.name, groups=groups)
        namespace, name = user.name.split(":")[2:]
        pod = None
        if user.extra:
            create_node(self._admin, NODE)
            pod = create_pod(
                self._admin, namespace, fresh_name("pod"), node=NODE, service_account=name
            )
        return token_for(self._admin, namespace, name, pod=pod)


def intent_document(name: str, namespace: str, impersonators: list[Any]) -> dict[str, Any]:
    key = name.partition("+")[0]
    return {
        "name": fresh_name("intent"),
        "mode": key,
        "impersonators": impersonators,
        "actions": ACTIONS,
        "namespaces": [namespace],
        **MODES[key],
    }


@pytest.mark.parametrize("mode", MODES)
def test_an_intent_comes_true_on_both_sides(
    mode: str,
    control_plane: ControlPlane,
    admin: ApiClient,
    namespace: str,
    understudy: ProxyProcess,
    office: Office,
) -> None:
    create_service_account(admin, namespace, "desk")
    impersonators: list[dict[str, str]] = [{"serviceAccount": f"{namespace}/desk"}]
    if mode != "associated-node":
        impersonators += [{"user": fresh_name("jane")}, {"group": fresh_name("support")}]
    document = intent_document(mode, namespace, impersonators)
    if mode == "serviceaccount":
        create_namespace(admin, "granted")
    office.write(document)
    before = office.verify()

    after = office.grant()

    assert before.code == 1, before.output
    seen = ask_all(read_intent(document), Callers(control_plane, admin), understudy)
    sys.stdout.write(f"{mode}: {after.output.strip()}; by request: {dict(seen)}\n")
    assert seen["meant", "allowed"] > 10
    assert seen["not meant", "denied"] > 20
    assert set(seen) <= {
        ("meant", "allowed"),
        ("not meant", "denied"),
        ("meant", "no request"),
        ("not meant", "no request"),
    }


class Connections:
    """One persistent connection for each caller: a handshake costs more than a request."""

    def __init__(self, understudy: ProxyProcess, callers: Callers, cleanup: ExitStack) -> None:
        self._understudy = understudy
        self._callers = callers
        self._cleanup = cleanup
        self._open: dict[UserInfo, ApiConnection] = {}

    def ask(self, trial: ExpectedDecision) -> str:
        """Send a trial's request, and return what came of it."""
        line = request_line(trial.request_info)
        if line is None:
            return "no request"
        body: dict[str, str] | None = {} if line[0] in {"POST", "PUT", "PATCH"} else None
        user = trial.caller.user
        response = self._connection(user).request(
            *line, headers=headers_for(trial.wanted_user), body=body
        )
        if response.header("Connection") == "close":
            del self._open[user]
        return "denied" if is_refused_impersonation(response) else "allowed"

    def _connection(self, user: UserInfo) -> ApiConnection:
        if user not in self._open:
            known = UserInfo(user.name) if user.name == f"{UNNAMED_USER}-else" else user
            client = self._understudy.client(self._callers.credential(known))
            self._open[user] = self._cleanup.enter_context(client.connect())
        return self._open[user]


def ask_all(intent: Intent, callers: Callers, understudy: ProxyProcess) -> Counter[tuple[str, str]]:
    """Send every trial that a request can be made of."""
    seen: Counter[tuple[str, str]] = Counter()
    with ExitStack() as cleanup:
        connections = Connections(understudy, callers, cleanup)
        for trial in expected_decisions([intent]):
            outcome = connections.ask(trial)
            seen["meant" if trial.is_allowed else "not meant", outcome] += 1
            assert outcome in {"no request", "allowed" if trial.is_allowed else "denied"}, trial
    return seen


def test_kubectl_does_what_was_granted_and_nothing_next_to_it(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    namespace: str,
    understudy: ProxyProcess,
    office: Office,
) -> None:
    admin = plain_api_server.admin
    jane = Cast(control_plane, admin).user("jane")
    target = fresh_name("target")
    Rights(plain_api_server).grant(
        target,
        may("get", "list", "watch", "create", "delete", resources=["pods", "pods/exec", "secrets"]),
    )
    create_node(admin, fresh_name("node"))
    create_pod(admin, namespace, "web-0", node="nowhere")
    document = intent_document("user-info", namespace, [{"user": jane.name}])
    office.write({**document, "targets": [{"user": target}]})
    office.grant()
    ours = understudy.kubeconfig_for(jane.credential, name=fresh_name("jane"))
    sockets, spdy = (
        Kubectl(control_plane.binaries.kubectl, ours, websockets=way) for way in (True, False)
    )
    where = ("-n", namespace, "--as", target)

    listed = sockets.run("get", "pods", *where, "-o", "name")
    events = sockets.run("get", "events", *where)
    elsewhere = sockets.run("get", "pods", "-n", "default", "--as", target)
    streams = [one.run("exec", "web-0", *where, "--", "true") for one in (sockets, spdy)]
    attached = sockets.run("attach", "web-0", *where)

    assert listed.stdout == b"pod/web-0\n", listed.stderr
    for denied in (events, elsewhere, attached):
        assert b"cannot impersonate-on:user-info:" in denied.stderr
    for stream in streams:
        # There is no kubelet behind this pod, which is not a matter of rights.
        assert stream.returncode != 0
        assert b"cannot impersonate" not in stream.stderr, stream.stderr
        assert b"forbidden" not in stream.stderr.lower(), stream.stderr


def test_what_the_cluster_knows_is_told_beside(
    plain_api_server: ApiServer, namespace: str, office: Office
) -> None:
    jane, target = fresh_name("jane"), fresh_name("target")
    Rights(plain_api_server).grant(
        jane, {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}
    )
    document = intent_document("user-info", namespace, [{"user": jane}])
    office.write({**document, "targets": [{"user": target}]})

    said = office.run("--cluster", "-o", "json")

    assert said.code == 0, said.errors
    assert json.loads(said.output)["kind"] == "List"
    assert f"user {jane} already has ClusterRole/" in said.errors
    assert "is legacy impersonation" in said.errors
    assert f"{target} itself may not get pods any in {namespace} (and 12 more)" in said.errors


def test_a_resource_that_only_this_cluster_has_is_known(
    admin: ApiClient, namespace: str, office: Office
) -> None:
    _define_zebras(admin)
    document = intent_document("user-info", namespace, [{"user": "jane"}])
    deed = {"verbs": ["get"], "resources": ["zebras.acme.io", "zebra.acme.io"]}
    office.write({**document, "actions": [deed]})

    poll(
        lambda: (
            "zebra.acme.io: there is no such resource; did you mean zebras.acme.io?"
            in office.run("--cluster").errors
        ),
        "the cluster's own resources are not known",
    )

    assert office.run().code == 0


def test_lint_looks_at_a_cluster(admin: ApiClient, admin_kubeconfig: Path) -> None:
    name = fresh_name("mistaken")
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["pod/exec"],
                "verbs": ["impersonate-on:user-info:get"],
            },
            {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate:user-info"]},
        ],
    }
    apply(admin, role)

    said = run("lint", "--cluster", "-o", "json", f"--kubeconfig={admin_kubeconfig}")

    found = [one for one in json.loads(said.output) if one["name"] == name]
    assert said.code == 1
    assert [(one["code"], one["path"]) for one in found] == [
        ("unknown-resource", "$.rules[0].resources[0]"),
        ("identity-group", "$.rules[1].apiGroups"),
    ]


def test_nothing_is_wrong_with_what_every_cluster_has(admin_kubeconfig: Path) -> None:
    said = run("lint", "--cluster", "-o", "json", f"--kubeconfig={admin_kubeconfig}")

    builtin = [one for one in json.loads(said.output) if one["name"].startswith("system:")]
    assert [one for one in builtin if one["severity"] != "note"] == []


def test_the_catalogue_is_what_the_server_serves(admin: ApiClient) -> None:
    groups = admin.call("GET", "/apis")["groups"]
    roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    served = {
        APIResource(_group(page["groupVersion"]), entry["name"], entry["namespaced"])
        for page in (admin.call("GET", root) for root in roots)
        for entry in page["resources"]
        if _group(page["groupVersion"]) != "acme.io"
    }

    unknown = [one for one in served if BUILT_IN.find(one.group, one.name) != one]

    assert len(served) > 100
    assert unknown == []


def _group(version: str) -> str:
    return version.rpartition("/")[0]


def _define_zebras(admin: ApiClient) -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    apply(
        admin,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "zebras.acme.io"},
            "spec": {
                "group": "acme.io",
                "names": {"kind": "Zebra", "plural": "zebras", "singular": "zebra"},
                "scope": "Namespaced",
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        },
    )
