"""`understudy act` as its operators meet it: options, signals, exit codes."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.cli.main import main
from proxy.pki.authority import CertificateAuthority
from tests.support.restored_logging import restored_logging

pytestmark = pytest.mark.usefixtures("own_logging")
NEEDED = ("--server", "https://proxy:8443", "--as", "system:node:node-1")


@pytest.fixture
def own_logging() -> Iterator[None]:
    with restored_logging():
        yield


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--listen", "0.0.0.0:0"), "--listen 0.0.0.0:0 can be reached by others"),
        (("--listen", "[::]:0"), "can be reached by others"),
        (("--listen", "localhost:0"), "can be reached by others"),
        (("--as", "system:node:$(NODE_NAME)"), "$(...) was not expanded"),
        (("--as", "system:node:"), "not a valid node name"),
        (("--as", "a\nb"), "whose user name has control characters"),
        (("--as", ""), "without a user name"),
        (("--namespace", "a"), "need --in-cluster-dir"),
        (("--token-link", "/a"), "need --in-cluster-dir"),
        (("--ca", "/no/such/file"), "cannot read /no/such/file: No such file or directory"),
        (
            ("--certificate-dir", "/no/such/dir", "--listen", "127.0.0.1:0"),
            "cannot store a certificate in",
        ),
        (("--ca-out", "/no/such/dir/ca", "--listen", "127.0.0.1:0"), "cannot write /no/such/dir"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["act", *NEEDED, *arguments]) == 1

    lines = capsys.readouterr().err.splitlines()
    assert expected in lines[-1]
    assert lines[-1].startswith("understudy: ")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--as", "a"),
        ("--as", "a", "--server", "http://proxy"),
        ("--as", "a", "--server", "https://proxy/path"),
        (*NEEDED, "--listen", "7443"),
        (*NEEDED, "--as-user-extra", "novalue"),
    ],
)
def test_wrong_options_are_explained(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["act", *arguments])

    assert ended.value.code == 2
    assert "See 'understudy act --help'." in capsys.readouterr().err


@pytest.mark.parametrize("command", ["act", "certificate", "kubeconfig", "version"])
def test_help_teaches(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert f"usage: understudy {command}" in told
    assert command == "version" or "exit codes: 0" in told


def test_the_version_can_be_told_to_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--output", "json"]) == 0

    facts = json.loads(capsys.readouterr().out)
    assert facts["version"].startswith("0.")
    assert facts["decidesAs"] == "kube-apiserver 1.37"


@pytest.mark.timeout(90)  # it starts Python anew, on a machine that may be busy
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(CertificateAuthority("test").certificate_pem)
    shared = tmp_path / "shared"
    options = ("--ca", tmp_path / "ca.crt", "--listen", "127.0.0.1:0", "--in-cluster-dir", shared)
    command = [sys.executable, "-m", "proxy", "act", *NEEDED, *map(str, options)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(shared / "ca.crt", process)
            process.send_signal(number)
            _, log = process.communicate(timeout=60)
        finally:
            process.kill()

    assert process.returncode == 0
    (first, *_) = log.splitlines()
    assert json.loads(first)["message"] == "sidecar started"
    assert json.loads(first)["user"] == "system:node:node-1"


def wait_for(file: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_hop_loads_no_kubernetes_client_and_no_sandbox() -> None:
    """It runs beside every application: what it does not need it does not carry."""
    heavy = ("kubernetes_asyncio", "aiohttp", "prometheus_client", "proxy.sandbox")
    program = (
        "import sys, proxy.cli.act\n"
        f"print([name for name in sys.modules if name.startswith({heavy!r})])\n"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert result.stdout == "[]\n"
