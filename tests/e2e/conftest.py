"""Short names for what most tests against the real API server want."""

from collections.abc import Iterator

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import create_namespace
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support.auth_methods import Stage, running_stage
from tests.support.control_plane import fresh_name


@pytest.fixture
def admin(plain_api_server: ApiServer) -> ApiClient:
    """A client with every right; the native server shows the same objects."""
    return plain_api_server.admin


@pytest.fixture
def namespace(admin: ApiClient) -> str:
    """A namespace of the test's own, with its default ServiceAccount."""
    name = fresh_name("namespace")
    create_namespace(admin, name)
    return name


@pytest.fixture(scope="session")
def default_understudy(
    control_plane: ControlPlane, plain_api_server: ApiServer
) -> Iterator[ProxyProcess]:
    """The proxy in its default configuration, which no test changes."""
    with ProxyProcess(control_plane, plain_api_server) as running:
        yield running


@pytest.fixture(scope="session")
def understudy(default_understudy: ProxyProcess) -> ProxyProcess:
    """What a module tests, unless it starts a proxy of its own."""
    return default_understudy


@pytest.fixture(scope="session")
def stage(control_plane: ControlPlane) -> Iterator[Stage]:
    """Two doors that believe the same, for tests of who is calling."""
    with running_stage(control_plane) as stage:
        yield stage
