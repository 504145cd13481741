"""Our door and the native one of one cluster, with callers, grants, and a node to run pods on."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from proxy.sandbox.aggregated.api import AggregatedServer
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import create_namespace, create_service_account
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import ALL_EXTRAS
from tests.e2e.kep.cast import Cast
from tests.support.impersonation import Caller, Rights
from tests.support.kubectl import STREAMING_CLIENTS, Kubectl, streaming_kubectl
from tests.support.kubelet import FakeKubelet, running_kubelet
from tests.support.old_kubectl import old_kubectl
from tests.support.proxy_and_native import BothDoors
from tests.support.rbac_example import Robot, Use, applied_example

# Not the default namespace: others look there, and expect it empty.
PODS_NAMESPACE = "clients"
# Where the callers of the RBAC examples are.
ROBOTS = "robots"


@pytest.fixture(scope="package")
def understudy(control_plane: ControlPlane, plain_api_server: ApiServer) -> Iterator[ProxyProcess]:
    with ProxyProcess(control_plane, plain_api_server, components=[ALL_EXTRAS]) as running:
        yield running


@pytest.fixture(scope="package")
def kubelet(control_plane: ControlPlane, native_api_server: ApiServer) -> Iterator[FakeKubelet]:
    """A node whose pods both servers reach."""
    node = "clients-node"
    with running_kubelet(
        control_plane, native_api_server, node=node, namespace=PODS_NAMESPACE
    ) as running:
        yield running


@pytest.fixture(scope="package")
def aggregated(
    control_plane: ControlPlane, plain_api_server: ApiServer, native_api_server: ApiServer
) -> Iterator[AggregatedServer]:
    """A group of its own, served behind both doors; discovery shows it as long as it lasts."""
    with AggregatedServer(control_plane) as server:
        server.register(plain_api_server.admin, native_api_server.admin)
        yield server


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


@pytest.fixture
def rights(plain_api_server: ApiServer, native_api_server: ApiServer) -> Rights:
    """Grants that both doors know of as soon as they are made."""
    return Rights(plain_api_server, native_api_server)


@pytest.fixture(params=["1.37", "1.20"])
def kubectl(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    understudy: ProxyProcess,
    native_api_server: ApiServer,
    aggregated: AggregatedServer,
) -> BothDoors:
    """The newest kubectl and the oldest, at both doors."""
    program = old_kubectl() if request.param == "1.20" else control_plane.binaries.kubectl
    return BothDoors(partial(Kubectl, program), understudy, native_api_server)


@pytest.fixture
def new_kubectl(
    control_plane: ControlPlane, understudy: ProxyProcess, native_api_server: ApiServer
) -> BothDoors:
    """The newest kubectl, for what the oldest does not know."""
    program = control_plane.binaries.kubectl
    return BothDoors(partial(Kubectl, program), understudy, native_api_server)


@pytest.fixture(params=STREAMING_CLIENTS)
def streaming(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    understudy: ProxyProcess,
    native_api_server: ApiServer,
) -> BothDoors:
    """Every kubectl by every way to stream, at both doors."""
    with_kubeconfig = partial(streaming_kubectl, request.param, control_plane.binaries.kubectl)
    return BothDoors(with_kubeconfig, understudy, native_api_server)


@pytest.fixture
def administrator(control_plane: ControlPlane, plain_api_server: ApiServer) -> Kubectl:
    kubeconfig = plain_api_server.kubeconfig_for(control_plane.admin, name="examples")
    return Kubectl(control_plane.binaries.kubectl, kubeconfig)


@pytest.fixture
def use(administrator: Kubectl, rights: Rights) -> Iterator[Use]:
    """Have an RBAC example until the test is over."""
    with ExitStack() as examples:

        def use_example(name: str) -> None:
            examples.enter_context(applied_example(name, administrator, rights))

        yield use_example


@pytest.fixture
def robot(cast: Cast, admin: ApiClient) -> Robot:
    """Make one of the service accounts that the examples speak of."""

    def make(name: str, *, node: str | None = None) -> Caller:
        create_namespace(admin, ROBOTS)
        create_service_account(admin, ROBOTS, name)
        return cast.account_on(ROBOTS, name, node=node)

    return make
