"""What we do not protect against, shown: each is in the threat model, with what helps instead."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.objects import apply
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, running_understudy
from tests.support.control_plane import fresh_name, who_am_i
from tests.support.impersonation import (
    RBAC,
    Caller,
    Rights,
    as_node,
    as_user,
    is_refused_impersonation,
    may,
    may_ask_who,
    may_be,
    may_do,
    may_impersonate,
    message_of,
)
from tests.support.kubectl import Kubectl

MANIFESTS = Path(__file__).parents[2] / "manifests"
OURS = "understudy"
PODS = "/api/v1/pods"
SECRETS = "/api/v1/secrets"
MASTERS = as_user("anybody", groups=["system:masters"])
A_NODES_GROUPS = ["system:nodes", "system:authenticated"]


@pytest.fixture(scope="module")
def replicas(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Understudy, Understudy]]:
    """Two proxies before one server without the feature; who reloads one puts it back."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    with (
        running_understudy(control_plane, plain_api_server, first) as one,
        running_understudy(control_plane, plain_api_server, second) as other,
    ):
        yield one, other


@pytest.fixture(scope="module")
def understudy(replicas: tuple[Understudy, Understudy]) -> Understudy:
    return replicas[0]


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


@pytest.fixture
def rights(plain_api_server: ApiServer, native_api_server: ApiServer) -> Rights:
    return Rights(plain_api_server, native_api_server)


def test_what_is_refused_here_stays_open_to_who_reaches_the_api_server_directly(
    understudy: Understudy, plain_api_server: ApiServer, cast: Cast, rights: Rights
) -> None:
    former = cast.user("former")
    rights.grant(former, may_impersonate("users"))
    understudy.reload(legacy="deny")

    try:
        here = understudy.client(former.credential).request("GET", "/version", headers=as_user("x"))
    finally:
        understudy.reload()
    there = plain_api_server.client(former.credential).request(
        "GET", "/version", headers=as_user("x")
    )

    assert here.status == 403
    assert there.status == 200


def test_grants_made_for_the_proxy_open_a_server_that_has_the_feature_without_it(
    understudy: Understudy,
    plain_api_server: ApiServer,
    native_api_server: ApiServer,
    cast: Cast,
    rights: Rights,
) -> None:
    deputy, target = cast.user("deputy"), cast.user("target")
    rights.grant(target, may("list"))
    rights.grant(deputy, may_be("user-info", "users", target.name), may_do("user-info", "list"))

    through_us, before, after = (
        client.request("GET", PODS, headers=as_user(target.name))
        for client in (
            understudy.client(deputy.credential),
            plain_api_server.client(deputy.credential),
            native_api_server.client(deputy.credential),
        )
    )

    assert through_us.status == 200
    assert is_refused_impersonation(before)
    assert after.status == 200


@pytest.fixture
def our_namespace(control_plane: ControlPlane, plain_api_server: ApiServer) -> str:
    kubeconfig = plain_api_server.kubeconfig_for(control_plane.admin, name="known-limits")
    kubectl = Kubectl(control_plane.binaries.kubectl, kubeconfig)
    done = kubectl.run("apply", "-k", str(MANIFESTS / "base"))
    assert done.returncode == 0, done.stderr
    return OURS


def mint(mallory: ApiClient, namespace: str, account: str) -> tuple[int, BearerToken]:
    """Return what became of a TokenRequest, and the token if there is one."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    response = mallory.request("POST", path, body=request)
    token = response.json()["status"]["token"] if response.status == 201 else "none"
    return response.status, BearerToken(token)


def test_who_mints_tokens_in_our_namespace_becomes_anyone(
    our_namespace: str, plain_api_server: ApiServer, cast: Cast, rights: Rights
) -> None:
    mallory = cast.user("mallory")
    client = plain_api_server.client(mallory.credential)
    refused, _ = mint(client, our_namespace, "understudy-forwarder")

    rights.grant(
        mallory,
        may("create", resources=["serviceaccounts/token"]),
        namespace=our_namespace,
    )
    minted, token = mint(client, our_namespace, "understudy-forwarder")
    forwarder = plain_api_server.client(token)

    assert (refused, minted) == (403, 201)
    assert forwarder.request("GET", SECRETS).status == 403
    assert forwarder.request("GET", SECRETS, headers=MASTERS).status == 200


def test_who_creates_pods_in_our_namespace_may_run_them_as_our_accounts(
    our_namespace: str, plain_api_server: ApiServer, cast: Cast, rights: Rights
) -> None:
    mallory = cast.user("mallory")
    client = plain_api_server.client(mallory.credential)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": fresh_name("thief")},
        "spec": {
            "serviceAccountName": "understudy-reviewer",
            "automountServiceAccountToken": True,  # a pod has the last word
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "thief",
                    "image": "thief",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
    pods = f"/api/v1/namespaces/{our_namespace}/pods?dryRun=All"
    refused = client.request("POST", pods, body=pod)

    rights.grant(mallory, may("create"), namespace=our_namespace)
    created = client.request("POST", pods, body=pod)

    assert (refused.status, created.status) == (403, 201)
    # What the pod would be given is the reviewer's token, and that one asks for the forwarder's.
    projected = [volume for volume in created.json()["spec"]["volumes"] if "projected" in volume]
    assert "serviceAccountToken" in projected[0]["projected"]["sources"][0]


@pytest.fixture
def administrators(admin: ApiClient) -> str:
    """A group of one's own that may do everything."""
    group = fresh_name("administrators")
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": group},
        "subjects": [{"kind": "Group", "apiGroup": RBAC, "name": group}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
    }
    apply(admin, binding)
    return group


def test_a_group_of_administrators_is_protected_only_where_it_is_named(
    understudy: Understudy, administrators: str, cast: Cast, rights: Rights
) -> None:
    deputy = cast.user("deputy")
    rights.grant(
        deputy,
        may_be("user-info", "users"),
        may_be("user-info", "groups"),
        may_do("user-info", "list", resources=["secrets"]),
    )
    client = understudy.client(deputy.credential)
    headers = as_user("anybody", groups=[administrators])

    open_ = client.request("GET", SECRETS, headers=headers)
    understudy.reload(protectedGroups=["system:masters", administrators])
    try:
        closed = client.request("GET", SECRETS, headers=headers)
    finally:
        understudy.reload()

    assert open_.status == 200
    assert closed.status == 403
    assert administrators in message_of(closed)


def groups_at(replica: Understudy, caller: Caller, node: str) -> object:
    return who_am_i(replica.client(caller.credential), *as_node(node))["groups"]


@pytest.mark.parametrize("remembers", [True, False], ids=["with memory", "without memory"])
def test_replicas_differ_by_what_they_remember_of_modes(
    *, remembers: bool, replicas: tuple[Understudy, Understudy], cast: Cast, rights: Rights
) -> None:
    caller, node = cast.user("impersonator"), cast.node()
    mode = "arbitrary-node"
    rights.grant(caller, may_be(mode, "nodes", node), may_ask_who(mode))
    rights.grant(caller, may_impersonate("users"), may_impersonate("groups", "dev"))
    one, other = replicas

    try:
        for replica in replicas:
            replica.reload(modeCache=remembers)
        # Only legacy allows this one, and only one replica hears of it.
        who_am_i(one.client(caller.credential), *as_user("bob", groups=["dev"]))
        seen = [groups_at(replica, caller, node) for replica in (one, other)]
    finally:
        for replica in replicas:
            replica.reload()

    first = ["system:authenticated"] if remembers else A_NODES_GROUPS
    assert seen == [first, A_NODES_GROUPS]


def test_a_service_account_that_is_acted_as_has_neither_pod_nor_node(
    understudy: Understudy, cast: Cast, rights: Rights
) -> None:
    robot, deputy = cast.service_account(node=cast.node()), cast.user("deputy")
    _, _, namespace, name = robot.name.split(":")
    mode = "serviceaccount"
    rights.grant(deputy, may_be(mode, "serviceaccounts", name), namespace=namespace)
    rights.grant(deputy, may_ask_who(mode))

    itself = who_am_i(understudy.client(robot.credential))
    acted_as = who_am_i(understudy.client(deputy.credential), *as_user(robot.name))

    assert {"authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/node-name"} <= (
        set(itself["extra"])  # type: ignore[call-overload]  # userInfo is JSON
    )
    assert (acted_as["username"], acted_as["groups"]) == (robot.name, itself["groups"])
    assert not acted_as.keys() & {"uid", "extra"}
