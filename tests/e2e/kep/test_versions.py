"""Version skew: the proxy before servers of 1.34, 1.35, and 1.36, which has the filter itself."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.scenes import MODES, set_scene
from tests.e2e.kep.understudy import Understudy, running_understudy
from tests.support.control_plane import emulated_version, fresh_name, is_gate_on, who_am_i
from tests.support.impersonation import (
    Rights,
    as_user,
    is_refused_impersonation,
    may_ask_who,
    may_impersonate,
)

pytestmark = pytest.mark.timeout(180)  # three API servers of their own are started

VERSIONS = ("1.34", "1.35", "1.36")


@pytest.fixture(scope="module")
def servers(control_plane: ControlPlane) -> Iterator[dict[str, ApiServer]]:
    """One server for each version, with nothing in common but the machine."""
    options = [
        ApiServerOptions(
            name=fresh_name("emulated"),
            emulated_version=version,
            etcd_prefix=f"/{fresh_name('emulated')}",
        )
        for version in VERSIONS
    ]
    with ExitStack() as running:
        started = control_plane.start_api_servers(*options)
        for server in started:
            running.enter_context(closing(server))
        yield dict(zip(VERSIONS, started, strict=True))


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: dict[str, ApiServer]) -> ApiServer:
    return servers[request.param]


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane, server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Understudy]:
    directory = tmp_path_factory.mktemp("emulated")
    with running_understudy(control_plane, server, directory) as running:
        yield running


@pytest.fixture
def cast(control_plane: ControlPlane, server: ApiServer) -> Cast:
    return Cast(control_plane, server.admin)


@pytest.fixture
def rights(server: ApiServer) -> Rights:
    return Rights(server)


def test_older_versions_are_emulated(server: ApiServer) -> None:
    """Without a setting of its own, the gate is as it was in that version."""
    assert emulated_version(server) == server.options.emulated_version
    assert is_gate_on(server) == (server.options.emulated_version == "1.36")


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_works_before_older_servers(
    mode: str, understudy: Understudy, cast: Cast, rights: Rights
) -> None:
    scene = set_scene(mode, cast, rights)
    client = understudy.client(scene.caller.credential)
    before = client.request("GET", scene.path, headers=scene.headers)

    rights.grant(scene.caller, scene.identity, scene.action, may_ask_who(mode))
    after = client.request("GET", scene.path, headers=scene.headers)

    assert is_refused_impersonation(before)
    assert f"cannot impersonate-on:{mode}:list" in before.json()["message"]
    assert after.status == 200
    assert who_am_i(client, *scene.headers)["username"] == scene.target


def test_legacy_works_before_older_servers(
    understudy: Understudy, cast: Cast, rights: Rights
) -> None:
    caller = cast.user("former")
    rights.grant(caller, may_impersonate("users"), may_impersonate("groups"))

    seen = who_am_i(understudy.client(caller.credential), *as_user("bob", groups=["dev"]))

    assert seen == {"username": "bob", "groups": ["dev", "system:authenticated"]}
