"""The sidecar's serving certificate, self-issued and for the local machine only.

Its CA signs once and its key is discarded. The CA that applications trust therefore verifies this
one key, and can never verify another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from OpenSSL import SSL

from proxy.pki.authority import (
    DAY,
    CertificateAuthority,
    KeyPair,
    Validity,
)
from proxy.serving.certificates import CertificateError, build_context

LOOPBACK_NAMES = ("127.0.0.1", "::1", "localhost")
# Longer than the lifetime of any pod: many applications read the CA once and would miss a change.
# The key has no value outside the pod, and is lost with it.
_VALIDITY = Validity(duration=3650 * DAY)
_MIN_REMAINING = timedelta(days=365)
_CA, _NAME = "ca.crt", "serving"


@dataclass(frozen=True, slots=True)
class SidecarCertificate:
    """A serving certificate with its key, and the CA that verifies it."""

    ca_pem: bytes
    pair: KeyPair


def load_or_create_certificate(names: Sequence[str], directory: Path | None) -> SidecarCertificate:
    """Return a new certificate for these names, or the one stored in `directory`.

    A stored certificate lets applications keep their trust across a restart of the sidecar. It is
    reused while it covers these names and is valid for another year. Raise CertificateError if the
    directory cannot be read or written.
    """
    if directory is None:
        return _create(names)
    try:
        return _load(directory, names) or _store(directory, _create(names))
    except OSError as error:
        raise CertificateError(
            f"cannot store a certificate in {directory}: {error.strerror}"
        ) from error


def server_context(pair: KeyPair) -> SSL.Context:
    """Return the TLS context of the listener; the key is not written to disk."""
    return build_context(pair.certificate_pem, pair.key_pem)


def _create(names: Sequence[str]) -> SidecarCertificate:
    authority = CertificateAuthority("understudy act", validity=_VALIDITY)
    pair = authority.issue_server(*names, validity=_VALIDITY)
    return SidecarCertificate(authority.certificate_pem, pair)


def _load(directory: Path, names: Sequence[str]) -> SidecarCertificate | None:
    files = (directory / _CA, directory / f"{_NAME}.crt", directory / f"{_NAME}.key")
    if not all(file.exists() for file in files):
        return None
    ca_pem, certificate_pem, key_pem = (file.read_bytes() for file in files)
    stored = SidecarCertificate(ca_pem, KeyPair(certificate_pem, key_pem))
    return stored if _is_usable(stored, names) else None


def _store(directory: Path, stored: SidecarCertificate) -> SidecarCertificate:
    stored.pair.write(directory, _NAME)
    # The CA is written last: a directory that contains it is complete.
    (directory / _CA).write_bytes(stored.ca_pem)
    return stored


def _is_usable(stored: SidecarCertificate, names: Sequence[str]) -> bool:
    """Return whether a stored certificate can be served; any defect means it cannot."""
    try:
        certificate = x509.load_pem_x509_certificate(stored.pair.certificate_pem)
        authority = x509.load_pem_x509_certificate(stored.ca_pem)
        certificate.verify_directly_issued_by(authority)
        server_context(stored.pair)  # raises unless certificate and key match
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, TypeError, x509.ExtensionNotFound, CertificateError, InvalidSignature):
        return False
    covered = {str(name.value) for name in alternatives.value}
    return covered >= set(names) and _is_fresh(certificate)


def _is_fresh(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc - datetime.now(UTC) > _MIN_REMAINING
