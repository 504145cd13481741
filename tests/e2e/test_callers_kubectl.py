"""kubectl with certificates that went stale: at our door it fares as at the API server's own."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import DAY, KeyPair, Validity
from proxy.sandbox.programs.binaries import Binaries
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support.kubectl import Kubectl

pytestmark = pytest.mark.timeout(90)

OVER = Validity(start_offset=-2 * DAY, duration=DAY)
Door = ApiServer | ProxyProcess


@pytest.fixture(params=["ours", "native"])
def door(
    request: pytest.FixtureRequest, understudy: ProxyProcess, plain_api_server: ApiServer
) -> Door:
    return understudy if request.param == "ours" else plain_api_server


@pytest.fixture
def stale(control_plane: ControlPlane) -> KeyPair:
    return control_plane.clients.issue_client("dora", validity=OVER)


def who(kubectl: Kubectl) -> tuple[int, str, str]:
    done = kubectl.run("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_stale_certificate_is_told_that_it_is_not_known(
    door: Door, stale: KeyPair, binaries: Binaries
) -> None:
    kubeconfig = door.kubeconfig_for(stale, name="stale")

    code, _, errors = who(Kubectl(binaries.kubectl, kubeconfig))

    assert code == 1
    assert "You must be logged in to the server" in errors


def test_a_token_beside_a_stale_certificate_is_enough(
    door: Door, control_plane: ControlPlane, stale: KeyPair, binaries: Binaries
) -> None:
    kubeconfig = door.kubeconfig_for(stale, name="stale-with-token")
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"]["token"] = control_plane.token_users["bob"].token.value
    kubeconfig.write_text(yaml.safe_dump(document))

    assert who(Kubectl(binaries.kubectl, kubeconfig)) == (0, "bob", "")


def test_an_exec_plugin_whose_certificate_is_stale_is_run_again(
    door: Door, control_plane: ControlPlane, stale: KeyPair, binaries: Binaries, tmp_path: Path
) -> None:
    """A 401 is what makes kubectl ask it anew; a handshake that fails would not."""
    fresh = control_plane.clients.issue_client("dora")
    kubeconfig = door.kubeconfig_for(None, name=f"plugin-{tmp_path.name}")
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"] = {"exec": plugin(tmp_path, stale, fresh)}
    kubeconfig.write_text(yaml.safe_dump(document))
    kubectl = Kubectl(binaries.kubectl, kubeconfig)

    done = kubectl.run("get", "--raw", "/version", "--v=0")
    refused = done.returncode
    runs = (tmp_path / "runs").read_text()

    assert refused == 1, "the request that found out is not repeated"
    assert "You must be logged in" in done.stderr.decode()
    assert runs == "xx", "the plugin was run again after the 401"


def plugin(directory: Path, first: KeyPair, then: KeyPair) -> dict[str, object]:
    """Return an exec plugin that gives out one certificate on its first run, another after it."""
    for name, pair in (("first", first), ("then", then)):
        status = {
            "clientCertificateData": pair.certificate_pem.decode(),
            "clientKeyData": pair.key_pem.decode(),
        }
        credential = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
        (directory / name).write_text(json.dumps(credential))
    script = directory / "plugin.py"
    script.write_text(
        "import pathlib\n"
        f"at = pathlib.Path({str(directory)!r})\n"
        "runs = at / 'runs'\n"
        "name = 'then' if runs.exists() else 'first'\n"
        "runs.write_text((runs.read_text() if runs.exists() else '') + 'x')\n"
        "print((at / name).read_text())\n"
    )
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "interactiveMode": "Never",
    }
