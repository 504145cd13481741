"""CA certificates, and what they prove of a client's chain.

A chain is judged with the first request of its connection, and again only when time may have
changed the outcome. So an outcome is remembered with the moments between which it holds, be it good
or bad: the same question at such a moment has the same answer.

Two verifiers must agree on a path. The rules of Go's crypto/x509 come first (`x509`): cheap, and
what the API server applies. OpenSSL then verifies that one path again, so a mistake in the first
can refuse a good chain, but cannot accept one that OpenSSL refuses.
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

from proxy.authentication.x509.certificate import Certificate, CertificateError, read_certificate
from proxy.authentication.x509.der import Budget
from proxy.authentication.x509.names import COMMON_NAME, ORGANIZATION
from proxy.authentication.x509.path import find_paths
from proxy.authentication.x509.pem import PemError, read_certificates
from proxy.authentication.x509.signatures import is_signed_by
from proxy.core.errors import OperatorError, StatusError, Unauthorized
from proxy.core.http.headers import check_caller
from proxy.core.userinfo import (
    Caller,
    UserInfo,
    authenticated_groups,
    make_extra,
)
from proxy.telemetry.logs import fields
from proxy.wire.exchange import Peer

log = logging.getLogger(__name__)

Meaning = TypeVar("Meaning")

_REMEMBERED_BUNDLES = 8
# No real chain is near these. They bound what reading a chain costs, before anything is verified:
# certificates, all their bytes, and all their names, extensions and constraints.
_MOST_CERTIFICATES = 8
_MOST_BYTES = 32 * 1024
_MOST_ITEMS = 512
# As in Go, in handshakes only: an anchor may be larger.
_MOST_RSA_BITS = 8192
# Each of them is verified by OpenSSL, which takes a third of a millisecond.
_MOST_PATHS = 4
_NEVER_OVER = datetime.max.replace(tzinfo=UTC)
_NO_PROOF = (
    crypto.Error,
    crypto.X509StoreContextError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
    ValueError,
)


class ClientCAError(OperatorError):
    """What is to be believed cannot be read, or cannot be used."""


@dataclass(frozen=True, slots=True)
class PEMBundle:
    """CA certificates in PEM, and where they come from."""

    pem: bytes
    origin: str


@dataclass(frozen=True, slots=True)
class ChainVerification(Generic[Meaning]):
    """What a chain proves, and the first and the last moment of which that is said."""

    verified: bool
    subject: Meaning | None
    not_before: datetime
    not_after: datetime
    error: StatusError | None = None
    """The chain is good, and whoever shows it is told this."""


class CABundle(Generic[Meaning]):
    """Tells what a client's chain means, if one of its CAs vouches for it."""

    def __init__(self, text: PEMBundle, *, read: Callable[[Certificate], Meaning]) -> None:
        """Load the CAs or raise ClientCAError. `read` gives a client's certificate its meaning.

        If `read` raises Unauthorized the chain proves nothing. Any other Refusal is the outcome of
        the chain: `judge` raises it.
        """
        self._read = read
        self._origin = text.origin
        self._anchors = _read_anchors(text)
        self._loaded = {one.der: _loaded(one) for one in self._anchors}
        self.expires_at = min((one.not_after.timestamp() for one in self._anchors), default=0.0)
        """When the first of the CAs ends, in seconds since 1970."""
        self.signers = frozenset((one.subject, one.key_info) for one in self._anchors)
        """What makes two CA certificates one signer: name and key, however often renewed."""

    def verify(self, peer: Peer, now: datetime) -> ChainVerification[Meaning]:
        """Tell what the chain that a peer has shown proves at this moment.

        A Refusal if it is good, but whoever it stands for is to be told something else.
        """
        known = cast(
            "ChainVerification[Meaning] | None", peer.verification_cache.get(self)
        )  # only we write there
        if known is None or not known.not_before <= now <= known.not_after:
            known = self._judge(peer.chain, now)
            if len(peer.verification_cache) >= _REMEMBERED_BUNDLES:
                peer.verification_cache.clear()  # of bundles that were replaced long ago
            peer.verification_cache[self] = known
        if known.error is not None:
            # A new one each time: an exception that was raised keeps the frames it went through.
            raise copy.copy(known.error)
        return known

    def _judge(self, chain: Sequence[bytes], now: datetime) -> ChainVerification[Meaning]:
        try:
            certificates = read_chain(chain)
        except CertificateError as error:
            return self._refuse(error, now, _NEVER_OVER)
        try:
            path = self._verified_path(certificates, now)
            meaning, status_error = self._meaning_of(path[0])
        except (Unauthorized, *_NO_PROOF) as error:
            return self._refuse(error, now, self._unproven_until(certificates, now))
        first = max(one.not_before for one in path)
        last = min(one.not_after for one in path)
        return ChainVerification(status_error is None, meaning, first, last, status_error)

    def _meaning_of(self, certificate: Certificate) -> tuple[Meaning | None, StatusError | None]:
        try:
            return self._read(certificate), None
        except Unauthorized:
            raise
        except StatusError as refusal:
            return None, copy.copy(refusal)

    def _refuse(
        self, error: Exception, now: datetime, last_moment: datetime
    ) -> ChainVerification[Meaning]:
        # Not more than that: users are no front proxies, and there is nothing wrong with it.
        log.debug(
            "client certificate chain rejected", extra=fields(ca=self._origin, error=str(error))
        )
        return ChainVerification(
            verified=False, subject=None, not_before=now, not_after=last_moment
        )

    def _unproven_until(self, chain: Sequence[Certificate], now: datetime) -> datetime:
        """Return how long a chain that proves nothing will go on to prove nothing.

        Time can only help where something is not valid yet.
        """
        to_come = [one.not_before for one in (*self._anchors, *chain) if one.not_before > now]
        return min(to_come) - timedelta.resolution if to_come else _NEVER_OVER

    def _verified_path(self, chain: Sequence[Certificate], now: datetime) -> list[Certificate]:
        """Return a path to an anchor on which Go's rules and OpenSSL agree, or raise."""
        error: Exception = CertificateError("no path to an anchor")
        paths = find_paths(chain, self._anchors, now, is_signed_by)
        for path in itertools.islice(paths, _MOST_PATHS):
            try:
                self._verify_again(path, now)
            except _NO_PROOF as refused:
                error = refused
            else:
                return path
        raise error

    def _verify_again(self, path: Sequence[Certificate], now: datetime) -> None:
        """Have OpenSSL verify a path; one of `_NO_PROOF` if it finds fault with it."""
        anchor = self._loaded[path[-1].der]
        if anchor is None:
            raise CertificateError("OpenSSL cannot read the anchor")
        own, *others = (
            crypto.load_certificate(crypto.FILETYPE_ASN1, one.der) for one in path[:-1] or path
        )
        # A new one each time: OpenSSL sets the moment of a store once, and not again.
        store = crypto.X509Store()
        # As in Go, each certificate of the bundle is an anchor, whoever has signed it.
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
        store.set_time(now)
        store.add_cert(anchor)
        crypto.X509StoreContext(store, own, others).verify_certificate()


def read_chain(chain: Sequence[bytes]) -> list[Certificate]:
    """Parse the certificates of a chain at bounded cost, or raise CertificateError."""
    if len(chain) > _MOST_CERTIFICATES or sum(map(len, chain)) > _MOST_BYTES:
        raise CertificateError("a chain that is too long")
    budget = Budget(_MOST_ITEMS)
    certificates = [read_certificate(one, budget) for one in chain]
    if any(one.key.rsa_bits > _MOST_RSA_BITS for one in certificates):
        raise CertificateError("an RSA key that is too long")
    return certificates


def _read_anchors(text: PEMBundle) -> list[Certificate]:
    """Return the CAs of a text: those that kube-apiserver takes from it, or ClientCAError."""
    try:
        return [read_certificate(der) for der in read_certificates(text.pem)]
    except (CertificateError, PemError) as error:
        raise ClientCAError(f"cannot use {text.origin}: {error}") from error


def _loaded(anchor: Certificate) -> crypto.X509 | None:
    """Return an anchor for OpenSSL, None if that cannot read it.

    Go reads it, so it does not spoil the bundle. It proves nothing: OpenSSL has to agree.
    """
    try:
        return crypto.load_certificate(crypto.FILETYPE_ASN1, anchor.der)
    except _NO_PROOF:
        return None


_UID_ATTRIBUTE = bytes.fromhex("2b0601040183c25302")  # 1.3.6.1.4.1.57683.2
_CREDENTIAL_ID_KEY = "authentication.kubernetes.io/credential-id"


def caller_from_certificate(certificate: Certificate) -> Caller | None:
    """Return whom a certificate stands for, None if nobody; Unauthorized if it is flawed.

    A name that would change on its way upstream is Forbidden.
    """
    name = read_common_name(certificate)
    if not name:
        return None
    uids = certificate.values(_UID_ATTRIBUTE)
    # A uid is there once and not empty, or the certificate is no credential.
    if len(uids) > 1 or "" in uids:
        raise Unauthorized
    fingerprint = hashlib.sha256(certificate.der).hexdigest()
    user = UserInfo(
        name=name,
        uid=uids[0] if uids else "",
        groups=authenticated_groups(name, certificate.values(ORGANIZATION)),
        extra=make_extra({_CREDENTIAL_ID_KEY: (f"X509SHA256={fingerprint}",)}),
    )
    check_caller(user)
    return Caller(user)


def read_common_name(certificate: Certificate) -> str:
    """Return the common name, of several the last one, as in Go; empty if there is none."""
    names = certificate.values(COMMON_NAME)
    return names[-1] if names else ""
