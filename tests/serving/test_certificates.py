"""The TLS settings clients meet."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from OpenSSL import SSL

from proxy.serving.certificates import CertificateError, CertificateFiles, load_certificates
from tests.support.certificates import Certificates


@pytest.fixture
def files(certificates: Certificates, tmp_path: Path) -> CertificateFiles:
    return CertificateFiles(
        *certificates.write_server_files(tmp_path), requests_client_certificate=True
    )


def test_certificates_are_welcome_but_not_needed(files: CertificateFiles) -> None:
    context = load_certificates(files).context

    assert context.get_verify_mode() == SSL.VERIFY_PEER


def test_where_no_certificate_counts_none_is_asked_for(files: CertificateFiles) -> None:
    context = load_certificates(
        CertificateFiles(files.certificate, files.key, requests_client_certificate=False)
    ).context

    assert context.get_verify_mode() == SSL.VERIFY_NONE


@pytest.mark.parametrize("which", ["certificate", "key"])
@pytest.mark.parametrize("fault", ["absent", "empty", "text", "directory"])
def test_a_file_that_cannot_be_used_is_named_in_one_line(
    files: CertificateFiles, which: str, fault: str
) -> None:
    broken: Path = getattr(files, which)
    broken.unlink()
    if fault == "directory":
        broken.mkdir()
    elif fault != "absent":
        broken.write_text("" if fault == "empty" else "hello")

    with pytest.raises(CertificateError) as refused:
        load_certificates(files)

    assert str(broken) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_key_of_another_certificate_is_refused(
    files: CertificateFiles, certificates: Certificates, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    _, key = certificates.write_server_files(other)

    with pytest.raises(CertificateError, match="key values mismatch"):
        load_certificates(
            CertificateFiles(files.certificate, key, requests_client_certificate=True)
        )


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(
    files: CertificateFiles,
) -> None:
    plain = serialization.load_pem_private_key(files.key.read_bytes(), None)
    files.key.write_bytes(
        plain.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )

    with pytest.raises(CertificateError):
        load_certificates(files)
