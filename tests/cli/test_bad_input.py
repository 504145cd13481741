"""A user's mistake is one clear line and a non-zero exit, never a traceback."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.sandbox.identities import CertificateAuthority, write_kubeconfig


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with everything a config needs, all of it good."""
    authority = CertificateAuthority("test")
    authority.issue_server("127.0.0.1").write(tmp_path, "serving")
    (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
    write_kubeconfig(
        tmp_path / "upstream.yaml",
        url="https://127.0.0.1:1",
        ca_pem=authority.certificate_pem,
        credential=authority.issue_client("understudy"),
    )
    return tmp_path


def config(files: Path, **serving: str) -> Path:
    document: dict[str, Any] = {
        "apiVersion": "kube-understudy.io/v1alpha1",
        "kind": "ProxyConfiguration",
        "serving": {
            "address": "127.0.0.1:0",
            "certificateFile": "serving.crt",
            "keyFile": "serving.key",
            # So few that the open files of any machine suffice: else there is a warning.
            "limits": {"connections": 100},
            **serving,
        },
        "authentication": {"clientCertificate": {"caFile": "ca.crt"}},
        "upstream": {"kubeconfig": "upstream.yaml"},
    }
    path = files / "config.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def understudy(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "proxy", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=25,
        check=False,
        env=os.environ | environment,
    )


def assert_one_line(result: subprocess.CompletedProcess[str], *expected: str) -> None:
    assert result.returncode == 1, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("understudy: ")
    for text in expected:
        assert text.lower() in line.lower()


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_port_that_is_taken(files: Path, taken_port: int) -> None:
    result = understudy("serve", "--config", config(files, address=f"127.0.0.1:{taken_port}"))

    assert_one_line(result, f"cannot listen on 127.0.0.1:{taken_port}", "address already in use")


def test_an_admin_port_that_is_taken(files: Path, taken_port: int) -> None:
    path = config(files)
    path.write_text(path.read_text() + f"admin: {{address: '127.0.0.1:{taken_port}'}}\n")

    result = understudy("serve", "--config", path)

    assert_one_line(result, f"cannot listen on 127.0.0.1:{taken_port}", "address already in use")


def test_a_config_file_that_is_missing(tmp_path: Path) -> None:
    result = understudy("serve", "--config", tmp_path / "none.yaml")

    assert_one_line(result, "none.yaml: cannot be read: No such file or directory")


def test_a_config_file_that_is_broken(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("serving: [")

    result = understudy("serve", "--config", tmp_path / "config.yaml")

    assert_one_line(result, "config.yaml: is not YAML")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "No such file or directory"),
        (b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n", "cannot use"),
        (b"", "cannot use"),
    ],
    ids=["missing", "nonsense", "empty"],
)
def test_a_certificate_that_cannot_be_read(
    files: Path, content: bytes | None, expected: str
) -> None:
    path = config(files, certificateFile="broken.crt")
    if content is not None:
        (files / "broken.crt").write_bytes(content)

    result = understudy("serve", "--config", path)

    assert_one_line(result, "broken.crt", expected)


def test_an_audit_file_that_cannot_be_written(files: Path) -> None:
    path = config(files)
    path.write_text(path.read_text() + "audit: {log: {path: missing/audit.log}}\n")

    result = understudy("serve", "--config", path)

    assert_one_line(result, "missing/audit.log: No such file or directory")


def test_an_audit_webhook_that_cannot_be_read(files: Path) -> None:
    path = config(files)
    path.write_text(path.read_text() + "audit: {webhook: {kubeconfig: webhook.yaml}}\n")

    result = understudy("serve", "--config", path)

    assert_one_line(result, "audit.webhook.kubeconfig: cannot use kubeconfig", "webhook.yaml")


def test_a_kubeconfig_that_cannot_be_read(files: Path) -> None:
    path = config(files)
    (files / "upstream.yaml").unlink()

    result = understudy("serve", "--config", path)

    assert_one_line(result, "cannot use kubeconfig", "upstream.yaml")


@pytest.mark.parametrize("command", [("serve",), ("fly",)])
def test_a_wrong_command_line_is_explained(command: tuple[str, ...]) -> None:
    result = understudy(*command)

    assert result.returncode == 2
    assert "See 'understudy" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_control_plane_that_cannot_be_had_names_every_way_that_was_tried(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()

    result = understudy(
        "dev",
        "--once",
        KUBEBUILDER_ASSETS=str(nothing),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        UNDERSTUDY_ENVTEST_INDEX="https://127.0.0.1:1/index.yaml",
        PATH=str(nothing),
    )

    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    for way in ("KUBEBUILDER_ASSETS", str(tmp_path / "cache"), "envtest", "go"):
        assert way in result.stderr


def test_version_is_told() -> None:
    result = understudy("version")

    assert result.returncode == 0
    assert result.stdout.startswith("understudy 0.")


def test_a_production_proxy_never_loads_the_sandbox(files: Path) -> None:
    program = (
        "import sys\n"
        "from proxy.cli.main import main\n"
        f"main(['check-config', {str(config(files))!r}])\n"
        "import proxy.cli.serve\n"
        "print([name for name in sys.modules if name.startswith('proxy.sandbox.')])\n"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert result.stdout.splitlines()[-1] == "[]"
