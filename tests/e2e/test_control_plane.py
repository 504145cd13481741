"""The control plane itself: it starts, is what it was asked to be, and leaves nothing behind."""

import json
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.objects import grant
from proxy.sandbox.processes import ReservedPort
from proxy.sandbox.programs.binaries import Binaries
from tests.support.control_plane import fresh_name, processes_naming
from tests.support.streaming import wait_until

# Starting and stopping servers takes long on a busy machine.
pytestmark = pytest.mark.timeout(90)

# Starts a whole control plane, says so, and waits to be ended.
STARTER = """
import time
from proxy.sandbox.programs.binaries import find_binaries
from proxy.sandbox.control_plane import ControlPlane

with ControlPlane(find_binaries()) as control_plane:
    control_plane.start_api_server()
    print(control_plane.directory, flush=True)
    time.sleep(600)
"""


def test_a_control_plane_with_two_api_servers_is_ready_within_fifteen_seconds(
    binaries: Binaries, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()

    with ControlPlane(binaries) as own:
        own.start_api_servers(ApiServerOptions(name="one"), ApiServerOptions(name="two"))
        seconds = time.monotonic() - started

    with capsys.disabled():
        sys.stdout.write(f" [control plane ready in {seconds:.1f} s] ")
    assert seconds < 15
    assert processes_naming(own.directory) == []
    assert not own.directory.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_nothing_runs_on_after_the_process_that_started_it(
    binaries: Binaries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        directory = Path(starter.stdout.readline().strip())
        programs = [words[0].rpartition("/")[2] for words in processes_naming(directory)]
        assert {"etcd", "kube-apiserver"} < set(programs)

        starter.send_signal(number)

    wait_until(lambda: processes_naming(directory) == [], "a process runs on")
    assert directory.exists() == (number == signal.SIGKILL)


def test_a_stopped_server_comes_back_at_the_same_address(control_plane: ControlPlane) -> None:
    options = ApiServerOptions(name=fresh_name("restarted"), etcd_prefix="/restarted")
    with closing(control_plane.start_api_server(options)) as server:
        server.stop()
        assert not server.is_ready()
        with pytest.raises(SandboxError, match="is not running"):
            _ = server.process

        server.launch()
        server.wait_until_ready()

        assert server.is_ready()


def test_grants_are_effective(control_plane: ControlPlane, plain_api_server: ApiServer) -> None:
    name = fresh_name("reader")
    client = plain_api_server.client(control_plane.clients.issue_client(name))
    before = client.request("GET", "/api/v1/nodes").status

    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    grant(plain_api_server.admin, name, rules=[rule], to={"kind": "User", "name": name})

    assert before == 403
    wait_until(
        lambda: client.request("GET", "/api/v1/nodes").status == 200, "the grant has no effect"
    )
    assert client.request("GET", "/api/v1/pods").status == 403


def test_kubectl_works_with_a_kubeconfig_of_ours(
    control_plane: ControlPlane, plain_api_server: ApiServer
) -> None:
    kubeconfig = plain_api_server.kubeconfig_for(
        control_plane.clients.issue_client("kate", groups=("dev",)), name=fresh_name("kate")
    )

    said = subprocess.run(
        [control_plane.binaries.kubectl, "--kubeconfig", kubeconfig, "auth", "whoami", "-o=json"],
        capture_output=True,
        check=True,
    )

    assert json.loads(said.stdout)["status"]["userInfo"]["username"] == "kate"


def test_a_missing_program_is_one_clear_line(binaries: Binaries) -> None:
    broken = replace(binaries, etcd=Path("/nowhere/etcd"))

    with pytest.raises(SandboxError) as failure, ControlPlane(broken):
        pass

    assert str(failure.value) == "cannot start /nowhere/etcd: No such file or directory"


def test_a_taken_port_is_one_clear_line(control_plane: ControlPlane) -> None:
    with ReservedPort() as taken, pytest.raises(SandboxError) as failure:
        control_plane.start_api_server(
            ApiServerOptions(name=fresh_name("taken"), port=taken.number)
        )

    assert str(failure.value) == f"cannot bind 127.0.0.1:{taken.number}: Address already in use"


def test_a_server_that_refuses_its_flags_says_why_at_once(control_plane: ControlPlane) -> None:
    options = ApiServerOptions(
        name=fresh_name("refused"), emulated_version="1.34", constrained_impersonation=True
    )
    started = time.monotonic()

    with pytest.raises(SandboxError, match="feature is PreAlpha at emulated version") as failure:
        control_plane.start_api_server(options)

    assert str(failure.value).startswith("kube-apiserver exited with code 1: ")
    assert time.monotonic() - started < 5


def test_a_name_serves_one_server_only(
    control_plane: ControlPlane, plain_api_server: ApiServer
) -> None:
    with pytest.raises(SandboxError) as failure:
        control_plane.start_api_server(ApiServerOptions(name=plain_api_server.options.name))

    assert str(failure.value) == "an API server named plain exists already"
