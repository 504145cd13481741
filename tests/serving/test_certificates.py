"""The TLS settings clients meet."""

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from proxy.serving.certificates import CertificateError, serving_context
from tests.support.certificates import Certificates


def test_a_client_ca_makes_certificates_welcome_but_not_needed(
    certificates: Certificates, tmp_path: Path
) -> None:
    certificate, key = certificates.write_server_files(tmp_path)
    client_ca = certificates.write_client_ca(tmp_path)

    context = serving_context(certificate_file=certificate, key_file=key, client_ca_file=client_ca)

    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.num_tickets == 0
    assert len(context.get_ca_certs()) == 1


def test_without_a_client_ca_no_certificate_is_asked_for(
    certificates: Certificates, tmp_path: Path
) -> None:
    certificate, key = certificates.write_server_files(tmp_path)

    context = serving_context(certificate_file=certificate, key_file=key, client_ca_file=None)

    assert context.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize("which", ["certificate_file", "key_file", "client_ca_file"])
@pytest.mark.parametrize("fault", ["absent", "empty", "text", "directory"])
def test_a_file_that_cannot_be_used_is_named_in_one_line(
    certificates: Certificates, tmp_path: Path, which: str, fault: str
) -> None:
    certificate, key = certificates.write_server_files(tmp_path)
    files = {
        "certificate_file": certificate,
        "key_file": key,
        "client_ca_file": certificates.write_client_ca(tmp_path),
    }
    broken = files[which] = tmp_path / "broken"
    if fault == "directory":
        broken.mkdir()
    elif fault != "absent":
        broken.write_text("" if fault == "empty" else "hello")

    with pytest.raises(CertificateError) as refused:
        serving_context(**files)

    assert str(broken) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_key_of_another_certificate_is_refused(
    certificates: Certificates, tmp_path: Path
) -> None:
    certificate, _ = certificates.write_server_files(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    _, key = certificates.write_server_files(other)

    with pytest.raises(CertificateError, match="KEY_VALUES_MISMATCH"):
        serving_context(certificate_file=certificate, key_file=key, client_ca_file=None)


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(
    certificates: Certificates, tmp_path: Path
) -> None:
    certificate, key = certificates.write_server_files(tmp_path)
    plain = serialization.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        plain.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )

    with pytest.raises(CertificateError):
        serving_context(certificate_file=certificate, key_file=key, client_ca_file=None)
