"""Both doors of one cluster, and everybody who may stand before them."""

from collections.abc import Iterator, Mapping

import pytest

from proxy.sandbox.aggregated.api import AggregatedServer
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.identity.actors import ACTORS, Actor, Stage, make_actors
from tests.e2e.identity.place import Place, make_place, wait_for
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Caller, Doors, Rights, poll, user_subject


@pytest.fixture(scope="package", params=["filter off behind us", "filter on behind us"])
def understudy(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    native_api_server: ApiServer,
) -> Iterator[ProxyProcess]:
    """Before a server without the feature, and before one that judges even us by it."""
    server = plain_api_server if request.param == "filter off behind us" else native_api_server
    with ProxyProcess(control_plane, server, components=["all-extras"]) as running:
        # Our own rights, and who we are, may take the API server a moment longer.
        anybody = running.client(control_plane.clients.issue_client(fresh_name("anybody")))
        poll(lambda: anybody.request("GET", "/version").status == 200, "nobody is served")
        yield running


@pytest.fixture(scope="package")
def doors(understudy: ProxyProcess, native_api_server: ApiServer) -> Doors:
    return Doors(understudy.client, native_api_server.client)


@pytest.fixture(scope="package")
def aggregated(
    control_plane: ControlPlane, plain_api_server: ApiServer, native_api_server: ApiServer
) -> Iterator[AggregatedServer]:
    """Behind both doors."""
    with AggregatedServer(control_plane) as server:
        server.register(plain_api_server.admin, native_api_server.admin)
        yield server


@pytest.fixture(scope="package")
def place(plain_api_server: ApiServer) -> Place:
    return make_place(plain_api_server.admin)


@pytest.fixture(scope="package")
def actors(
    place: Place,
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    native_api_server: ApiServer,
    aggregated: AggregatedServer,
) -> Mapping[str, Actor]:
    """Everybody, once both servers judge them by all there is."""
    name = f"system:node:{place.near}"
    credential = control_plane.clients.issue_node(place.near)
    kubelet = Caller(name, credential, user_subject(name))
    for server in (plain_api_server, native_api_server):
        wait_for(place, server, credential)
    cast = Cast(control_plane, plain_api_server.admin)
    return make_actors(Stage(place, cast, Rights(plain_api_server, native_api_server), kubelet))


@pytest.fixture(params=ACTORS)
def actor(request: pytest.FixtureRequest, actors: Mapping[str, Actor]) -> Actor:
    """Each in turn."""
    name: str = request.param
    return actors[name]
