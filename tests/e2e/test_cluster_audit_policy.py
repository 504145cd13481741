"""What a cluster records of proxied requests by the policies of `docs/cluster-audit-policy.md`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proxy.sandbox.api_client import ApiClient, Manifest
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken, write_kubeconfig
from proxy.sandbox.objects import create_namespace, create_service_account, token_for
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import FORWARDER_RULES
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import complete_event, events_of
from tests.support.control_plane import fresh_name
from tests.support.impersonation import (
    RBAC,
    Caller,
    Header,
    Rights,
    as_user,
    may,
    may_impersonate,
    poll,
    user_subject,
)

DOCUMENT = (Path(__file__).parents[2] / "docs" / "cluster-audit-policy.md").read_text()
POLICIES: Mapping[str, str] = dict(
    re.findall(r"<!-- policy: (\w+) -->\n```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
)
NAMESPACE, ACCOUNT = "understudy", "understudy-forwarder"
OURSELVES = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
PODS = "/api/v1/pods?fieldSelector=spec.nodeName%3Daudited"
ROLES = f"/apis/{RBAC}/v1/clusterroles?dryRun=All"
ROLE: Manifest = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "new"}}
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets?dryRun=All"
SECRET: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}}


@dataclass(frozen=True, slots=True)
class Cluster:
    """An API server that records by a policy of the document, and a proxy before it."""

    server: ApiServer
    proxy: ProxyProcess

    def events(self, audit_id: str) -> list[dict[str, Any]]:
        """Return the events of a request that has ended."""
        self.wait_until_written()
        return events_of(self.server.audit_log, audit_id)

    def wait_until_written(self) -> None:
        """Wait for the event of a request of ours, which comes after those of all before it."""
        last = self.server.admin.request("GET", "/api/v1/namespaces").header("Audit-Id")
        complete_event(self.server.audit_log, last or "")


@pytest.fixture(scope="module")
def clusters(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Cluster]]:
    """One for each policy; they share every object."""
    servers = control_plane.start_api_servers(
        *(
            ApiServerOptions(name=fresh_name(name), audit_policy=policy)
            for name, policy in POLICIES.items()
        )
    )
    with ExitStack() as running:
        for server in servers:
            running.callback(server.close)
        token = our_token(servers[0].admin, Rights(*servers))
        clusters = {}
        for name, server in zip(POLICIES, servers, strict=True):
            upstream = write_kubeconfig(
                tmp_path_factory.mktemp(name) / "kubeconfig",
                url=server.url,
                ca_pem=server.ca_pem,
                credential=token,
            )
            settings = {"upstream": {"kubeconfig": str(upstream)}}
            proxy = running.enter_context(ProxyProcess(control_plane, server, settings=settings))
            clusters[name] = Cluster(server, proxy)
        yield clusters


def our_token(admin: ApiClient, rights: Rights) -> BearerToken:
    """Return a token of the account that the document names, once it has its rights."""
    create_namespace(admin, NAMESPACE)
    create_service_account(admin, NAMESPACE, ACCOUNT)
    subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": ACCOUNT}
    token = token_for(admin, NAMESPACE, ACCOUNT)
    rights.grant(Caller(OURSELVES, token, subject), *FORWARDER_RULES)
    return token


@pytest.fixture(scope="module")
def callers(clusters: Mapping[str, Cluster], control_plane: ControlPlane) -> Mapping[str, Caller]:
    """Somebody of each kind, with the same rights."""
    servers = [cluster.server for cluster in clusters.values()]
    cast, rights = Cast(control_plane, servers[0].admin), Rights(*servers)
    node = "system:node:audited"
    callers = {
        "alice": cast.user("alice"),
        "break-glass": cast.named("break-glass"),
        "node": Caller(node, control_plane.clients.issue_node("audited"), user_subject(node)),
        "robot": cast.service_account(),
    }
    rights.grant("bob", may("list"))
    for caller in callers.values():
        rights.grant(
            caller,
            may("list"),
            may("create", resources=["secrets"]),
            may("create", resources=["clusterroles"], group=RBAC),
            may_impersonate("users", "bob"),
        )
    for cluster in clusters.values():
        client = cluster.proxy.client(callers["alice"].credential)
        poll(partial(is_served, client), "nobody is served")
    return callers


def is_served(client: ApiClient) -> bool:
    return client.request("GET", PODS).status == 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What somebody does, and at which level each policy records it, if at all."""

    caller: str
    method: str = "GET"
    target: str = PODS
    body: Manifest | None = None
    wanted: Sequence[Header] = ()
    before: str | None
    after: str | None


def creates_role(caller: str, before: str, after: str) -> Deed:
    return Deed(caller=caller, method="POST", target=ROLES, body=ROLE, before=before, after=after)


def creates_secret(caller: str, before: str, after: str) -> Deed:
    return Deed(
        caller=caller, method="POST", target=SECRETS, body=SECRET, before=before, after=after
    )


THROUGH_US = {
    "a person reads": Deed(caller="alice", before=None, after="Metadata"),
    "a person reads as another": Deed(
        caller="alice", wanted=as_user("bob"), before=None, after="Metadata"
    ),
    "a node reads": Deed(caller="node", before=None, after="Metadata"),
    "a robot reads": Deed(caller="robot", before=None, after="Metadata"),
    "a person asks for the version": Deed(
        caller="alice", target="/version", before=None, after=None
    ),
    "a person creates a role": creates_role("alice", "Request", "RequestResponse"),
    "the glass is broken": creates_role("break-glass", "Request", "RequestResponse"),
    "a secret is created": creates_secret("alice", "Metadata", "Metadata"),
}
DIRECTLY = {
    "a person reads": Deed(caller="alice", before="Metadata", after="Metadata"),
    "a node reads": Deed(caller="node", before=None, after=None),
    "a robot reads": Deed(caller="robot", before=None, after=None),
    "the glass is broken": creates_role("break-glass", "RequestResponse", "RequestResponse"),
    "a person creates a role": creates_role("alice", "Request", "Request"),
}


def done(deed: Deed, client: ApiClient) -> str:
    """Carry a deed out, and return its audit id."""
    response = client.request(deed.method, deed.target, headers=deed.wanted, body=deed.body)
    assert response.status in {200, 201}, response.body
    audit_id = response.header("Audit-Id")
    assert audit_id is not None
    return audit_id


def levels(events: list[dict[str, Any]]) -> str | None:
    """Return the level of the one event there is, if there is one."""
    assert len(events) <= 1
    return events[0]["level"] if events else None


@pytest.mark.parametrize("policy", ["before", "after"])
@pytest.mark.parametrize("deed", THROUGH_US.values(), ids=THROUGH_US)
def test_a_request_through_us_is_recorded_by_the_rules_about_us(
    deed: Deed, policy: str, clusters: Mapping[str, Cluster], callers: Mapping[str, Caller]
) -> None:
    cluster, caller = clusters[policy], callers[deed.caller]

    events = cluster.events(done(deed, cluster.proxy.client(caller.credential)))

    assert levels(events) == (deed.before if policy == "before" else deed.after)
    for event in events:
        acting = dict(deed.wanted).get("Impersonate-User", caller.name)
        assert event["user"]["username"] == OURSELVES
        assert event["impersonatedUser"]["username"] == acting
        # Whose right it was is said, too, unless the Node authorizer knew it.
        reason = event["annotations"]["authorization.k8s.io/reason"]
        assert reason == "" or acting.rpartition(":")[2] in reason


@pytest.mark.parametrize("policy", ["before", "after"])
@pytest.mark.parametrize("deed", DIRECTLY.values(), ids=DIRECTLY)
def test_a_request_past_us_is_recorded_as_ever(
    deed: Deed, policy: str, clusters: Mapping[str, Cluster], callers: Mapping[str, Caller]
) -> None:
    cluster, caller = clusters[policy], callers[deed.caller]

    events = cluster.events(done(deed, cluster.server.client(caller.credential)))

    assert levels(events) == (deed.before if policy == "before" else deed.after)
    assert [event["user"]["username"] for event in events] == [caller.name] * len(events)


@pytest.mark.parametrize(("policy", "is_told"), [("before", True), ("after", False)])
def test_the_token_in_a_review_is_recorded_unless_reviews_are_at_metadata(
    policy: str, *, is_told: bool, clusters: Mapping[str, Cluster], control_plane: ControlPlane
) -> None:
    cluster = clusters[policy]
    robot = Cast(control_plane, cluster.server.admin).service_account()
    assert isinstance(robot.credential, BearerToken)

    # Refused, for it has no rights; but who it is had to be asked.
    refused = cluster.proxy.client(robot.credential).request("GET", PODS)
    cluster.wait_until_written()
    log = cluster.server.audit_log.read_text()

    assert refused.status == 403
    assert '"resource":"tokenreviews"' in log
    assert (robot.credential.value in log) == is_told
