"""Certificates of an authority: subject, names, usages, validity, and files of keys."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from proxy.pki.authority import (
    DAY,
    SERVER_USAGE,
    UID_ATTRIBUTE,
    CertificateAuthority,
    KeyPair,
    Validity,
    private_pem,
    write_secret,
)

AUTHORITY = CertificateAuthority("test")
CA = x509.load_pem_x509_certificate(AUTHORITY.certificate_pem)


def parse(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate_pem)


def attributes(pair: KeyPair, kind: x509.ObjectIdentifier) -> list[str | bytes]:
    return [attribute.value for attribute in parse(pair).subject.get_attributes_for_oid(kind)]


def test_client_certificate_has_name_groups_and_uid_in_its_subject() -> None:
    alice = AUTHORITY.issue_client("alice", groups=("dev", "ops", "dev"), uid="42")

    assert attributes(alice, NameOID.COMMON_NAME) == ["alice"]
    assert attributes(alice, NameOID.ORGANIZATION_NAME) == ["dev", "ops", "dev"]
    assert attributes(alice, UID_ATTRIBUTE) == ["42"]
    assert UID_ATTRIBUTE.dotted_string == "1.3.6.1.4.1.57683.2"
    assert all(len(list(part)) == 1 for part in parse(alice).subject.rdns)


def test_client_certificate_without_uid_has_no_uid_attribute() -> None:
    assert attributes(AUTHORITY.issue_client("alice"), UID_ATTRIBUTE) == []


def test_node_certificate_has_the_name_and_group_of_the_node_authorizer() -> None:
    node = AUTHORITY.issue_node("node-1")

    assert attributes(node, NameOID.COMMON_NAME) == ["system:node:node-1"]
    assert attributes(node, NameOID.ORGANIZATION_NAME) == ["system:nodes"]


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (AUTHORITY.issue_client("alice"), [[ExtendedKeyUsageOID.CLIENT_AUTH]]),
        (AUTHORITY.issue_server("localhost"), [[ExtendedKeyUsageOID.SERVER_AUTH]]),
        (
            AUTHORITY.issue_client("alice", usages=(SERVER_USAGE,)),
            [[ExtendedKeyUsageOID.SERVER_AUTH]],
        ),
        (AUTHORITY.issue_client("alice", usages=()), []),
        (AUTHORITY.issue_server("localhost", usages=()), []),
    ],
    ids=["client", "server", "client with the usage of a server", "none", "server with none"],
)
def test_certificate_has_its_own_usage_unless_another_is_given(
    pair: KeyPair, expected: list[list[x509.ObjectIdentifier]]
) -> None:
    extensions = [extension.value for extension in parse(pair).extensions]

    found = [list(value) for value in extensions if isinstance(value, x509.ExtendedKeyUsage)]
    assert found == expected


def test_only_the_certificate_of_the_authority_may_sign_certificates() -> None:
    certificates = {"ca": CA, "leaf": parse(AUTHORITY.issue_client("alice"))}

    may_sign = {
        name: (
            certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca,
            certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign,
        )
        for name, certificate in certificates.items()
    }
    assert may_sign == {"ca": (True, True), "leaf": (False, False)}


def test_certificate_is_signed_by_its_authority_and_by_no_other_of_the_same_name() -> None:
    alice = parse(AUTHORITY.issue_client("alice"))
    other = x509.load_pem_x509_certificate(CertificateAuthority("test").certificate_pem)

    alice.verify_directly_issued_by(CA)
    with pytest.raises(InvalidSignature):
        alice.verify_directly_issued_by(other)


def test_key_of_a_pair_belongs_to_its_certificate_and_to_no_other() -> None:
    first, second = AUTHORITY.issue_client("alice"), AUTHORITY.issue_client("alice")

    key = serialization.load_pem_private_key(first.key_pem, password=None)

    assert key.public_key() == parse(first).public_key()
    assert key.public_key() != parse(second).public_key()
    assert parse(first).serial_number != parse(second).serial_number


def test_validity_counts_from_the_time_of_issue() -> None:
    now = datetime.now(UTC)
    usual = parse(AUTHORITY.issue_client("alice"))
    shifted = parse(
        AUTHORITY.issue_client("alice", validity=Validity(start_offset=2 * DAY, duration=3 * DAY))
    )

    assert usual.not_valid_before_utc < now < usual.not_valid_after_utc
    lead = shifted.not_valid_before_utc - usual.not_valid_before_utc
    assert abs(lead - timedelta(days=2, hours=1)) < timedelta(minutes=1)
    assert shifted.not_valid_after_utc - shifted.not_valid_before_utc == 3 * DAY


def test_authority_has_the_validity_that_is_given() -> None:
    authority = CertificateAuthority("old", validity=Validity(-2 * DAY, DAY))

    certificate = x509.load_pem_x509_certificate(authority.certificate_pem)
    assert certificate.not_valid_after_utc < datetime.now(UTC)


def test_server_certificate_is_valid_for_names_and_addresses() -> None:
    serving = parse(AUTHORITY.issue_server("localhost", "127.0.0.1", "::1"))

    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    assert addresses == ["127.0.0.1", "::1"]


@pytest.mark.parametrize(
    ("name", "common_name"),
    [("localhost", "localhost"), ("a" * 64, "a" * 64), ("a" * 63 + ".b", "server")],
)
def test_first_name_of_a_server_is_its_common_name_unless_too_long(
    name: str, common_name: str
) -> None:
    serving = AUTHORITY.issue_server(name, "other")

    assert attributes(serving, NameOID.COMMON_NAME) == [common_name]
    names = parse(serving).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [name, "other"]


def strict_handshake(trusted_pem: bytes, directory: Path) -> str | None:
    """Return the TLS version of a handshake through memory, under strict verification."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(*AUTHORITY.issue_server("localhost").write(directory, "s"))
    client_context = ssl.create_default_context(cadata=trusted_pem.decode())
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.version()


def test_certificate_passes_strict_verification(tmp_path: Path) -> None:
    assert strict_handshake(AUTHORITY.certificate_pem, tmp_path) == "TLSv1.3"


def test_certificate_of_another_authority_fails_verification(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        strict_handshake(CertificateAuthority("test").certificate_pem, tmp_path)


def test_pair_is_written_as_two_files_and_only_its_owner_reads_the_key(tmp_path: Path) -> None:
    pair = AUTHORITY.issue_client("alice")

    certificate, key = pair.write(tmp_path, "alice")

    assert (certificate, key) == (tmp_path / "alice.crt", tmp_path / "alice.key")
    assert certificate.read_bytes() == pair.certificate_pem
    assert key.read_bytes() == pair.key_pem
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_secret_replaces_a_file_that_others_can_read(tmp_path: Path) -> None:
    path, other = tmp_path / "key", tmp_path / "link"
    path.write_bytes(b"old and longer")
    path.chmod(0o644)
    other.hardlink_to(path)

    write_secret(path, b"new")

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # The other link still names the old file, so its readers do not get the secret.
    assert other.read_bytes() == b"old and longer"


def test_private_key_is_not_part_of_a_representation() -> None:
    pair = AUTHORITY.issue_client("alice")

    assert "PRIVATE" not in repr(pair)
    assert b"PRIVATE" in pair.key_pem
    assert b"PRIVATE" not in AUTHORITY.certificate_pem


def test_private_pem_is_not_encrypted() -> None:
    key = ec.generate_private_key(ec.SECP256R1())

    loaded = serialization.load_pem_private_key(private_pem(key), password=None)

    assert loaded.public_key() == key.public_key()
