"""The certificate that the hop serves by: of its own making, for this machine alone.

Its authority signs once and is forgotten, so the CA that applications are given vouches for this
one key and for nothing else, ever.
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
from proxy.serving.certificates import CertificateError, context_of

LOOPBACK_NAMES = ("127.0.0.1", "::1", "localhost")
# Longer than any pod lives: many applications read the CA once, and would not follow a change. The
# key is worth nothing beyond the pod, and ends with it.
_VALIDITY = Validity(lasts=3650 * DAY)
_LEAST_LEFT = timedelta(days=365)
_CA, _NAME = "ca.crt", "serving"


@dataclass(frozen=True, slots=True)
class SidecarCertificate:
    """What is served by, and the CA that vouches for it."""

    ca_pem: bytes
    pair: KeyPair


def load_or_create_certificate(names: Sequence[str], kept: Path | None) -> SidecarCertificate:
    """Return a new certificate for these names, or the one that is kept in a directory.

    One that is kept lets applications go on over a restart of the hop: it stays as long as it is
    good for these names and for a while. CertificateError if it cannot be kept.
    """
    if kept is None:
        return _minted(names)
    try:
        return _kept(kept, names) or _keep(kept, _minted(names))
    except OSError as error:
        raise CertificateError(f"cannot keep a certificate in {kept}: {error.strerror}") from error


def server_context(pair: KeyPair) -> SSL.Context:
    """Return the context of the listening side; the key touches no disk on its way."""
    return context_of(pair.certificate_pem, pair.key_pem)


def _minted(names: Sequence[str]) -> SidecarCertificate:
    authority = CertificateAuthority("understudy act", validity=_VALIDITY)
    pair = authority.issue_server(*names, validity=_VALIDITY)
    return SidecarCertificate(authority.certificate_pem, pair)


def _kept(directory: Path, names: Sequence[str]) -> SidecarCertificate | None:
    files = (directory / _CA, directory / f"{_NAME}.crt", directory / f"{_NAME}.key")
    if not all(file.exists() for file in files):
        return None
    ca_pem, certificate_pem, key_pem = (file.read_bytes() for file in files)
    own = SidecarCertificate(ca_pem, KeyPair(certificate_pem, key_pem))
    return own if _is_good(own, names) else None


def _keep(directory: Path, own: SidecarCertificate) -> SidecarCertificate:
    own.pair.write(directory, _NAME)
    # Last: a directory with a CA in it is a whole one.
    (directory / _CA).write_bytes(own.ca_pem)
    return own


def _is_good(own: SidecarCertificate, names: Sequence[str]) -> bool:
    """Tell whether a kept certificate can be served by; whatever is odd about it, it cannot."""
    try:
        certificate = x509.load_pem_x509_certificate(own.pair.certificate_pem)
        authority = x509.load_pem_x509_certificate(own.ca_pem)
        certificate.verify_directly_issued_by(authority)
        server_context(own.pair)  # certificate and key belong together
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, TypeError, x509.ExtensionNotFound, CertificateError, InvalidSignature):
        return False
    known = {str(name.value) for name in alternatives.value}
    return known >= set(names) and _is_fresh(certificate)


def _is_fresh(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc - datetime.now(UTC) > _LEAST_LEFT
