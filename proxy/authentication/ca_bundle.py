"""A CA bundle, and the verification of a client's certificate chain against it.

A chain is verified with the first request of its connection, and again only if time may have
changed the outcome. So each outcome, valid or not, is cached with the period in which it holds:
within that period the same verification has the same outcome.

Two verifiers must agree on a path. The rules of Go's crypto/x509 come first (`x509`): they are
cheap, and kube-apiserver applies them. OpenSSL then verifies that one path again. So a bug in the
first verifier can reject a valid chain, but cannot accept one that OpenSSL rejects.
"""

import copy
import hashlib
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar, cast

from cryptography import x509
from OpenSSL import crypto

from proxy.authentication.x509.certificate import (
    Certificate,
    CertificateParseError,
    read_certificate,
)
from proxy.authentication.x509.der import Budget
from proxy.authentication.x509.names import COMMON_NAME, ORGANIZATION
from proxy.authentication.x509.path import find_paths
from proxy.authentication.x509.pem import PemError, read_certificates
from proxy.authentication.x509.signatures import is_signed_by
from proxy.core.errors import OperatorError, StatusError, Unauthorized
from proxy.core.http.headers import check_caller_forwardable
from proxy.core.userinfo import (
    Caller,
    UserInfo,
    authenticated_groups,
    make_extra,
)
from proxy.telemetry.logs import fields
from proxy.wire.exchange import Peer

log = logging.getLogger(__name__)

CertificateSubject = TypeVar("CertificateSubject")

_MAX_CACHED_BUNDLES = 8
# No real chain is near these limits. They bound the cost of parsing a chain before anything is
# verified: certificates, all their bytes, and all their names, extensions and constraints.
_MAX_CERTIFICATES = 8
_MAX_CHAIN_BYTES = 32 * 1024
_MAX_ITEMS = 512
# As in Go, for handshakes only: the key of an anchor may be larger.
_MAX_RSA_BITS = 8192
# OpenSSL verifies each path, which takes a third of a millisecond.
_MAX_PATHS = 4
_FOREVER = datetime.max.replace(tzinfo=UTC)
_VERIFICATION_ERRORS = (
    crypto.Error,
    crypto.X509StoreContextError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
    ValueError,
)


class ClientCAError(OperatorError):
    """Raised when the configured CAs cannot be read or used."""


@dataclass(frozen=True, slots=True)
class PEMBundle:
    """CA certificates in PEM, and their source for messages."""

    pem: bytes
    origin: str


@dataclass(frozen=True, slots=True)
class ChainVerification(Generic[CertificateSubject]):
    """The outcome of verifying a chain, and the period in which it holds."""

    verified: bool
    subject: CertificateSubject | None
    not_before: datetime
    not_after: datetime
    error: StatusError | None = None
    """The chain is valid, but its client receives this error."""


class CABundle(Generic[CertificateSubject]):
    """Verifies client chains against its CAs, and reads their subjects."""

    def __init__(
        self, text: PEMBundle, *, read: Callable[[Certificate], CertificateSubject]
    ) -> None:
        """Load the CAs or raise ClientCAError. `read` returns the subject of a client certificate.

        If `read` raises Unauthorized the chain is not verified. Any other StatusError is the
        outcome of the chain: `verify` raises it.
        """
        self._read = read
        self._origin = text.origin
        self._anchors = _read_anchors(text)
        self._openssl_anchors = {anchor.der: _load_with_openssl(anchor) for anchor in self._anchors}
        self.expires_at = min(
            (anchor.not_after.timestamp() for anchor in self._anchors), default=0.0
        )
        """The earliest expiry of a CA, in seconds since 1970."""
        self.signers = frozenset((anchor.subject, anchor.key_info) for anchor in self._anchors)
        """Subject and key of each CA. Renewed certificates of one CA are the same signer."""

    def verify(self, peer: Peer, now: datetime) -> ChainVerification[CertificateSubject]:
        """Return the outcome of verifying a peer's chain at time `now`.

        Raises a StatusError if the chain is valid, but its client must receive that error.
        """
        known = cast(
            "ChainVerification[CertificateSubject] | None", peer.verification_cache.get(self)
        )  # only this class writes there
        if known is None or not known.not_before <= now <= known.not_after:
            known = self._verify(peer.chain, now)
            if len(peer.verification_cache) >= _MAX_CACHED_BUNDLES:
                peer.verification_cache.clear()  # entries of bundles that were replaced
            peer.verification_cache[self] = known
        if known.error is not None:
            # A copy each time: a raised exception keeps the frames of its traceback.
            raise copy.copy(known.error)
        return known

    def _verify(
        self, chain: Sequence[bytes], now: datetime
    ) -> ChainVerification[CertificateSubject]:
        try:
            certificates = read_chain(chain)
        except CertificateParseError as error:
            return self._reject(error, now, _FOREVER)
        try:
            path = self._verified_path(certificates, now)
            subject, status_error = self._read_subject(path[0])
        except (Unauthorized, *_VERIFICATION_ERRORS) as error:
            return self._reject(error, now, self._rejected_until(certificates, now))
        not_before = max(certificate.not_before for certificate in path)
        not_after = min(certificate.not_after for certificate in path)
        return ChainVerification(status_error is None, subject, not_before, not_after, status_error)

    def _read_subject(
        self, certificate: Certificate
    ) -> tuple[CertificateSubject | None, StatusError | None]:
        try:
            return self._read(certificate), None
        except Unauthorized:
            raise
        except StatusError as error:
            return None, copy.copy(error)

    def _reject(
        self, error: Exception, now: datetime, not_after: datetime
    ) -> ChainVerification[CertificateSubject]:
        # Debug level only: users are not front proxies, so their chains are expected to fail here.
        log.debug(
            "client certificate chain rejected", extra=fields(ca=self._origin, error=str(error))
        )
        return ChainVerification(verified=False, subject=None, not_before=now, not_after=not_after)

    def _rejected_until(self, chain: Sequence[Certificate], now: datetime) -> datetime:
        """Return until when a rejected chain stays rejected.

        Time can change that only if a certificate is not valid yet.
        """
        certificates = (*self._anchors, *chain)
        starts = [each.not_before for each in certificates if each.not_before > now]
        return min(starts) - timedelta.resolution if starts else _FOREVER

    def _verified_path(self, chain: Sequence[Certificate], now: datetime) -> list[Certificate]:
        """Return a path to an anchor that Go's rules and OpenSSL both accept, or raise."""
        error: Exception = CertificateParseError("no path to a trusted CA")
        paths = find_paths(chain, self._anchors, now, is_signed_by)
        for path in itertools.islice(paths, _MAX_PATHS):
            try:
                self._verify_with_openssl(path, now)
            except _VERIFICATION_ERRORS as rejection:
                error = rejection
            else:
                return path
        raise error

    def _verify_with_openssl(self, path: Sequence[Certificate], now: datetime) -> None:
        """Verify a path with OpenSSL; raise one of `_VERIFICATION_ERRORS` if it is rejected."""
        anchor = self._openssl_anchors[path[-1].der]
        if anchor is None:
            raise CertificateParseError("OpenSSL cannot parse the CA certificate")
        own, *others = (
            crypto.load_certificate(crypto.FILETYPE_ASN1, certificate.der)
            for certificate in path[:-1] or path
        )
        # A new store each time: OpenSSL sets the time of a store only once.
        store = crypto.X509Store()
        # As in Go, each certificate of the bundle is an anchor, whatever its issuer is.
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
        store.set_time(now)
        store.add_cert(anchor)
        crypto.X509StoreContext(store, own, others).verify_certificate()


def read_chain(chain: Sequence[bytes]) -> list[Certificate]:
    """Parse the certificates of a chain at bounded cost, or raise CertificateParseError."""
    if len(chain) > _MAX_CERTIFICATES or sum(map(len, chain)) > _MAX_CHAIN_BYTES:
        raise CertificateParseError("certificate chain too long")
    budget = Budget(_MAX_ITEMS)
    certificates = [read_certificate(der, budget) for der in chain]
    if any(certificate.key.rsa_bits > _MAX_RSA_BITS for certificate in certificates):
        raise CertificateParseError("RSA key too long")
    return certificates


def _read_anchors(text: PEMBundle) -> list[Certificate]:
    """Return the CAs that kube-apiserver reads from a text, or raise ClientCAError."""
    try:
        return [read_certificate(der) for der in read_certificates(text.pem)]
    except (CertificateParseError, PemError) as error:
        raise ClientCAError(f"cannot use {text.origin}: {error}") from error


def _load_with_openssl(anchor: Certificate) -> crypto.X509 | None:
    """Return an anchor loaded by OpenSSL, None if OpenSSL cannot parse it.

    Go parses it, so the bundle stays usable. The anchor verifies nothing: OpenSSL has to agree.
    """
    try:
        return crypto.load_certificate(crypto.FILETYPE_ASN1, anchor.der)
    except _VERIFICATION_ERRORS:
        return None


_UID_ATTRIBUTE = bytes.fromhex("2b0601040183c25302")  # 1.3.6.1.4.1.57683.2
_CREDENTIAL_ID_KEY = "authentication.kubernetes.io/credential-id"


def caller_from_certificate(certificate: Certificate) -> Caller | None:
    """Return the caller of a certificate, None if it has no name; Unauthorized if it is invalid.

    Raises Forbidden for a name that would change in the upstream headers.
    """
    name = read_common_name(certificate)
    if not name:
        return None
    uids = certificate.values(_UID_ATTRIBUTE)
    # A certificate with several uids, or with an empty one, is no credential.
    if len(uids) > 1 or "" in uids:
        raise Unauthorized
    fingerprint = hashlib.sha256(certificate.der).hexdigest()
    user = UserInfo(
        name=name,
        uid=uids[0] if uids else "",
        groups=authenticated_groups(name, certificate.values(ORGANIZATION)),
        extra=make_extra({_CREDENTIAL_ID_KEY: (f"X509SHA256={fingerprint}",)}),
    )
    check_caller_forwardable(user)
    return Caller(user)


def read_common_name(certificate: Certificate) -> str:
    """Return the common name, the last one if there are several, as in Go; empty if none."""
    names = certificate.values(COMMON_NAME)
    return names[-1] if names else ""
