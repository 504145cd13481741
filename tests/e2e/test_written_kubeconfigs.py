"""kubectl with what `understudy kubeconfig` and `understudy certificate` write, for real."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken, KeyPair
from proxy.sandbox.objects import create_namespace
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.kep.cast import Cast
from tests.support.impersonation import DISCOVERY, Caller, Rights, may, may_be, may_do, may_visit
from tests.support.kubectl import Kubectl

pytestmark = pytest.mark.timeout(120)

NAMESPACE = "printed"
WriteKubeconfig = Callable[..., Kubectl]


def run(*arguments: object) -> str:
    """Run the command as a person would, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "proxy", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What prints a CA and a serving Secret, for where the tests' proxies listen."""
    directory = tmp_path_factory.mktemp("certificate")
    where = ("--namespace", NAMESPACE, "--ca-out", directory / "ca.crt")
    return run("certificate", "127.0.0.1", "localhost", *where)


@pytest.fixture(scope="module")
def secret(manifests: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Secret as a pod has it mounted."""
    directory = tmp_path_factory.mktemp("secret")
    (_, printed) = yaml.safe_load_all(manifests)
    for name, value in printed["data"].items():
        (directory / name).write_bytes(base64.b64decode(value))
    return directory


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane, plain_api_server: ApiServer, secret: Path
) -> Iterator[ProxyProcess]:
    """A proxy that serves by the printed certificate."""
    serving = {"certificateFile": str(secret / "tls.crt"), "keyFile": str(secret / "tls.key")}
    proxy = ProxyProcess(
        control_plane,
        plain_api_server,
        settings={"serving": serving},
        components=["all-extras"],
    )
    proxy.ca_pem = (secret / "ca.crt").read_bytes()
    with proxy as running:
        yield running


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


@pytest.fixture
def rights(plain_api_server: ApiServer) -> Rights:
    return Rights(plain_api_server)


@pytest.fixture
def kubectl(
    understudy: ProxyProcess, control_plane: ControlPlane, secret: Path, tmp_path: Path
) -> WriteKubeconfig:
    """Write a kubeconfig by the command, and return a kubectl that uses it."""

    def write(*arguments: object) -> Kubectl:
        output = tmp_path / "written.yaml"
        to_proxy = ("--server", understudy.url, "--ca", secret / "ca.crt", "--output", output)
        run("kubeconfig", *to_proxy, *arguments)
        return Kubectl(control_plane.binaries.kubectl, output)

    return write


@pytest.fixture
def agent(cast: Cast, rights: Rights) -> Caller:
    """A service account on a node, which may look at pods as that node."""
    caller = cast.service_account(node=cast.node())
    rights.grant(
        caller,
        may_be("associated-node", "nodes"),
        may_do("associated-node", "list"),
        may_visit("associated-node", *DISCOVERY),
    )
    return caller


def token_of(caller: Caller) -> str:
    assert isinstance(caller.credential, BearerToken)
    return caller.credential.value


def pods_on(kubectl: Kubectl, node: str | None) -> Any:
    done = kubectl.run(
        "get", "pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}", "-o", "json"
    )
    assert done.returncode == 0, done.stderr
    return {pod["spec"]["nodeName"] for pod in json.loads(done.stdout)["items"]}


def test_the_cluster_takes_the_printed_manifests(
    manifests: str, control_plane: ControlPlane, plain_api_server: ApiServer
) -> None:
    create_namespace(plain_api_server.admin, NAMESPACE)
    kubeconfig = plain_api_server.kubeconfig_for(control_plane.admin, name="certificate")
    admin = Kubectl(control_plane.binaries.kubectl, kubeconfig)

    applied = admin.run(
        "apply", "--server-side", "--validate=strict", "-f", "-", stdin=manifests.encode()
    )

    assert applied.returncode == 0, applied.stderr
    assert applied.stdout.decode().splitlines() == [
        "configmap/understudy-ca serverside-applied",
        "secret/understudy-serving serverside-applied",
    ]


def test_a_token_acts_as_its_node(kubectl: WriteKubeconfig, agent: Caller, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{token_of(agent)}\n")

    written = kubectl("--token-file", token, "--as", f"system:node:{agent.node}")

    assert pods_on(written, agent.node) == {agent.node}
    assert written.run("get", "pods", "--all-namespaces").returncode == 1


@pytest.mark.parametrize("options", [(), ("--by-path",)], ids=["copied", "by path"])
def test_a_certificate_acts_as_a_user_with_everything(
    options: tuple[str, ...], kubectl: WriteKubeconfig, cast: Cast, rights: Rights, tmp_path: Path
) -> None:
    deputy = cast.user("deputy")
    rights.grant(deputy, may("impersonate", resources=["users", "groups"]))
    for resource in ("uids", "userextras/example.com/why"):
        rights.grant(
            deputy, may("impersonate", resources=[resource], group="authentication.k8s.io")
        )
    assert isinstance(deputy.credential, KeyPair)
    certificate, key = deputy.credential.write(tmp_path, "deputy")
    wanted = ("--as", "alice", "--as-uid", "u-1", "--as-group", "dev", "--as-group", "ops")

    written = kubectl(
        *("--client-certificate", certificate, "--client-key", key, *options),
        *(*wanted, "--as-user-extra", "example.com/why=test"),
    )
    seen = written.run("auth", "whoami", "-o", "json")

    assert seen.returncode == 0, seen.stderr
    assert json.loads(seen.stdout)["status"]["userInfo"] == {
        "username": "alice",
        "uid": "u-1",
        "groups": ["dev", "ops", "system:authenticated"],
        "extra": {"example.com/why": ["test"]},
    }


def test_a_context_keeps_its_exec_plugin(
    kubectl: WriteKubeconfig, agent: Caller, tmp_path: Path, understudy: ProxyProcess
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write_plugin(home / "get-token", token_of(agent))
    theirs = home / "config"
    theirs.write_text(yaml.safe_dump(kubeconfig_with_plugin("./get-token")))

    written = kubectl(
        *("--from-context", "prod", "--kubeconfig", theirs, "--as", f"system:node:{agent.node}")
    )

    assert pods_on(written, agent.node) == {agent.node}
    # The plugin was run from where it is, with its arguments, and told of the proxy's address.
    told = json.loads((home / "told").read_text().splitlines()[0])
    assert told["spec"]["cluster"]["server"] == understudy.url
    assert (home / "arguments").read_text().splitlines()[0] == "--region x"


def write_plugin(program: Path, token: str) -> None:
    """Write an exec plugin that gives this token, and keeps what it was told."""
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$KUBERNETES_EXEC_INFO" >> {program.parent}/told\n'
        f'echo "$@" >> {program.parent}/arguments\n'
        f"echo '{json.dumps(credential)}'\n"
    )
    program.chmod(0o755)


def kubeconfig_with_plugin(command: str) -> dict[str, Any]:
    """Return what somebody has for the API server itself, at an address that answers nobody."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": command,
        "args": ["--region", "x"],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    cluster = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "",
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
    }
