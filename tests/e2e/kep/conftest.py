"""The proxy before the server without the feature, the native server beside it, and a cast."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions, webhook_authorization
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import write_kubeconfig
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.scenes import MODES, Scene, set_scene
from tests.e2e.kep.understudy import Understudy, running_understudy
from tests.e2e.kep.webhook import Webhook, running_webhook
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Doors, Rights


@pytest.fixture(scope="package")
def understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    """One proxy for all modules here; who reloads it puts it back."""
    directory = tmp_path_factory.mktemp("understudy")
    with running_understudy(control_plane, plain_api_server, directory) as running:
        yield running


@pytest.fixture(scope="package")
def doors(understudy: Understudy, native_api_server: ApiServer) -> Doors:
    """Our door and the native one, of the same cluster."""
    return Doors(understudy.client, native_api_server.client)


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    """Callers, nodes, pods and namespaces of the test's own."""
    return Cast(control_plane, admin)


@pytest.fixture
def rights(plain_api_server: ApiServer, native_api_server: ApiServer) -> Rights:
    """Grants that both doors know of as soon as they are made."""
    return Rights(plain_api_server, native_api_server)


@pytest.fixture(params=MODES)
def scene(request: pytest.FixtureRequest, cast: Cast, rights: Rights) -> Scene:
    """A caller and a target for each constrained mode."""
    return set_scene(request.param, cast, rights)


@pytest.fixture(scope="package")
def webhook() -> Iterator[Webhook]:
    """An authorizer that remembers what it was asked."""
    with running_webhook() as running:
        yield running


@pytest.fixture(scope="package")
def asking_server(
    control_plane: ControlPlane, webhook: Webhook, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """A server without the feature that leaves every decision to the webhook."""
    file = tmp_path_factory.mktemp("webhook") / "kubeconfig"
    kubeconfig = write_kubeconfig(file, url=webhook.url, ca_pem=b"", credential=None)
    options = ApiServerOptions(
        name=fresh_name("webhook"),
        constrained_impersonation=False,
        authorization=webhook_authorization(kubeconfig),
    )
    with closing(control_plane.start_api_server(options)) as running:
        yield running


@pytest.fixture(scope="package")
def asking(
    control_plane: ControlPlane, asking_server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Understudy]:
    """The proxy before that server; who reloads it puts it back."""
    directory = tmp_path_factory.mktemp("asking")
    with running_understudy(control_plane, asking_server, directory) as running:
        yield running
