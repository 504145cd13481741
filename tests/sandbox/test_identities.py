import ssl
import stat
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from blockbuster import BlockingError
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from proxy.sandbox.identities import (
    DAY,
    SERVER_USAGE,
    BearerToken,
    CertificateAuthority,
    KeyPair,
    TokenUser,
    Validity,
    write_kubeconfig,
    write_signing_key,
    write_token_file,
)

AUTHORITY = CertificateAuthority("test")


def parse(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate_pem)


def attributes(pair: KeyPair, kind: x509.ObjectIdentifier) -> list[str | bytes]:
    return [attribute.value for attribute in parse(pair).subject.get_attributes_for_oid(kind)]


def test_a_client_certificate_names_the_user_every_group_and_the_uid() -> None:
    alice = AUTHORITY.issue_client("alice", groups=("dev", "ops", "dev"), uid="42")

    assert attributes(alice, NameOID.COMMON_NAME) == ["alice"]
    assert attributes(alice, NameOID.ORGANIZATION_NAME) == ["dev", "ops", "dev"]
    assert attributes(alice, x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")) == ["42"]


def test_without_a_uid_there_is_no_uid_attribute() -> None:
    alice = AUTHORITY.issue_client("alice")

    assert attributes(alice, x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")) == []


def test_a_node_certificate_is_what_the_node_authorizer_expects() -> None:
    node = AUTHORITY.issue_node("node-1")

    assert attributes(node, NameOID.COMMON_NAME) == ["system:node:node-1"]
    assert attributes(node, NameOID.ORGANIZATION_NAME) == ["system:nodes"]


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        ((SERVER_USAGE,), [ExtendedKeyUsageOID.SERVER_AUTH]),
        ((), None),
    ],
    ids=["server", "none"],
)
def test_the_usage_of_a_client_certificate_can_be_chosen(
    usages: tuple[x509.ObjectIdentifier, ...], expected: list[x509.ObjectIdentifier] | None
) -> None:
    extensions = parse(AUTHORITY.issue_client("alice", usages=usages)).extensions

    found = [each.value for each in extensions if isinstance(each.value, x509.ExtendedKeyUsage)]
    assert [list(usage) for usage in found] == ([] if expected is None else [expected])


def test_the_usual_usage_is_a_clients() -> None:
    usage = parse(AUTHORITY.issue_client("alice")).extensions.get_extension_for_class(
        x509.ExtendedKeyUsage
    )

    assert list(usage.value) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_validity_counts_from_now() -> None:
    usual = parse(AUTHORITY.issue_client("alice"))

    shifted = parse(
        AUTHORITY.issue_client("alice", validity=Validity(start_offset=2 * DAY, duration=3 * DAY))
    )

    lead = shifted.not_valid_before_utc - usual.not_valid_before_utc
    assert abs(lead - timedelta(days=2, hours=1)) < timedelta(minutes=1)
    assert shifted.not_valid_after_utc - shifted.not_valid_before_utc == 3 * DAY


def test_a_serving_certificate_holds_for_names_and_addresses() -> None:
    serving = parse(AUTHORITY.issue_server("localhost", "127.0.0.1"))

    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_certificates_stand_up_to_strict_verification(tmp_path: Path) -> None:
    """Newer Pythons verify so by default; the handshake goes through memory."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(*AUTHORITY.issue_server("localhost").write(tmp_path, "s"))
    client_context = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = server_context.wrap_bio(to_server, to_client, server_side=True)

    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue

    assert client.version() == "TLSv1.3"


def test_keys_are_written_for_our_eyes_only(tmp_path: Path) -> None:
    _, key = AUTHORITY.issue_client("alice").write(tmp_path, "alice")
    write_token_file(tmp_path / "tokens.csv", [TokenUser("tina")])

    for path in (key, tmp_path / "tokens.csv"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_do_not_show_in_a_representation() -> None:
    token = BearerToken("hunter2")

    assert "hunter2" not in repr(token)
    assert "PRIVATE" not in repr(AUTHORITY.issue_client("alice"))


def test_a_token_file_has_a_row_for_each_user(tmp_path: Path) -> None:
    users = [
        TokenUser("tina", uid="7", groups=("a", "b"), token=BearerToken("one")),
        TokenUser("tom", token=BearerToken("two")),
    ]

    write_token_file(tmp_path / "tokens.csv", users)

    rows = (tmp_path / "tokens.csv").read_text().splitlines()
    assert rows == ['one,tina,7,"a,b"', "two,tom,,"]


def test_two_users_never_get_the_same_token() -> None:
    assert TokenUser("tina").token != TokenUser("tina").token


@pytest.mark.parametrize(
    ("credential", "keys"),
    [
        (AUTHORITY.issue_client("alice"), ["client-certificate-data", "client-key-data"]),
        (BearerToken("secret"), ["token"]),
        (None, []),
    ],
    ids=["certificate", "token", "nobody"],
)
def test_a_kubeconfig_carries_the_credential_itself(
    tmp_path: Path, credential: KeyPair | BearerToken | None, keys: list[str]
) -> None:
    path = write_kubeconfig(
        tmp_path / "config", url="https://127.0.0.1:1", ca_pem=b"ca", credential=credential
    )

    document = yaml.safe_load(path.read_text())
    assert document["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "certificate-authority-data": "Y2E=",
    }
    assert list(document["users"][0]["user"]) == keys
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_code_of_ours_that_blocks_the_event_loop_fails_its_test(tmp_path: Path) -> None:
    """The guard of every asynchronous test, shown where we do block."""
    with pytest.raises(BlockingError, match=r"os\.unlink"):
        write_signing_key(tmp_path / "key")
