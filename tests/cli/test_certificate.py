"""`understudy certificate`: manifests that a cluster takes, and a certificate that clients take."""

import base64
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from proxy.cli.main import main

Print = Callable[..., list[Any]]


@pytest.fixture
def print_manifests(capsys: pytest.CaptureFixture[str]) -> Print:
    def run(*arguments: str) -> list[Any]:
        assert main(["certificate", *arguments]) == 0
        return list(yaml.safe_load_all(capsys.readouterr().out))

    return run


def names_in(secret: Any) -> list[str]:
    certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_a_ca_and_a_serving_secret_are_printed(print_manifests: Print) -> None:
    config_map, secret = print_manifests("proxy.example.com", "192.0.2.7", "2001:DB8::1")

    assert (config_map["kind"], config_map["metadata"]) == (
        "ConfigMap",
        {"name": "understudy-ca", "namespace": "understudy"},
    )
    assert (secret["kind"], secret["type"]) == ("Secret", "kubernetes.io/tls")
    assert names_in(secret) == ["proxy.example.com", "192.0.2.7", "2001:db8::1"]
    assert base64.b64decode(secret["data"]["ca.crt"]).decode() == config_map["data"]["ca.crt"]


def test_a_service_is_known_by_every_name_it_has_inside(print_manifests: Print) -> None:
    _, secret = print_manifests("--service", "door", "--namespace", "team-a", "--secret", "s")

    assert secret["metadata"] == {"name": "s", "namespace": "team-a"}
    assert names_in(secret) == [
        "door.team-a.svc",
        "door.team-a.svc.cluster.local",
        "door.team-a",
        "door",
    ]


def test_a_client_that_has_the_ca_accepts_the_server(
    print_manifests: Print, tmp_path: Path
) -> None:
    _, secret = print_manifests("localhost", "--ca-out", str(tmp_path / "ca.crt"))
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_bytes(base64.b64decode(secret["data"][name]))
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))

    assert shake_hands(serving, trusting, "localhost") == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(serving, trusting, "example.com")


def shake_hands(serving: ssl.SSLContext, trusting: ssl.SSLContext, name: str) -> str | None:
    """Return the TLS version that a client and a server agree on."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(down, up, server_hostname=name)
    server = serving.wrap_bio(up, down, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.version()


def test_how_long_it_holds_can_be_said(print_manifests: Print) -> None:
    _, secret = print_manifests("a", "--days", "30")

    certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days == 30


def test_a_name_longer_than_a_common_name_is_taken(print_manifests: Print) -> None:
    name = ".".join(["a" * 60] * 3)

    _, secret = print_manifests(name)

    assert names_in(secret) == [name]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "specify at least one DNS name or IP address"),
        (("--service", "No Service"), "is not a valid DNS name"),
        (("a", "--ca-out", "/no/such/place"), "cannot write /no/such/place: No such file"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certificate", *arguments]) == 1

    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert expected in line


@pytest.mark.parametrize("arguments", [("a b",), ("a", "--days", "0"), ("a", "--days", "-1")])
def test_a_wrong_value_is_explained(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["certificate", *arguments])

    assert ended.value.code == 2
    assert "See 'understudy certificate --help'." in capsys.readouterr().err
