"""CA certificates, and what they prove of a client's chain.

A chain is judged with the first request of its connection, and again only when time may have
changed the outcome. So an outcome is remembered with the moments between which it holds, be it good
or bad: the same question at such a moment has the same answer.
"""

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar, cast

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import crypto

from proxy.core.errors import SetupError, Unauthorized
from proxy.telemetry.logs import fields
from proxy.wire.peer import Peer

log = logging.getLogger(__name__)

Meaning = TypeVar("Meaning")

_REMEMBERED_BUNDLES = 8
# No real chain is near it, and a handshake has room for hundreds, which cost time to read.
_MOST_CERTIFICATES = 16
_NEVER_OVER = datetime.max.replace(tzinfo=UTC)
_CLIENT_USAGES = frozenset(
    (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
)
# As in Go, whose list this is: a signature with one of these proves nothing.
_BROKEN_HASHES = frozenset(("md5", "sha1"))
_LEAST_RSA_BITS = 1024
_NO_PROOF = (
    crypto.Error,
    crypto.X509StoreContextError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
    ValueError,
)


class TrustError(SetupError):
    """What is to be believed cannot be read, or cannot be used."""


@dataclass(frozen=True, slots=True)
class CaText:
    """CA certificates in PEM, and where they come from."""

    pem: bytes
    origin: str


@dataclass(frozen=True, slots=True)
class Judgement(Generic[Meaning]):
    """What a chain proves, and the first and the last moment of which that is said."""

    is_proven: bool
    meaning: Meaning | None
    first_moment: datetime
    last_moment: datetime


class CaBundle(Generic[Meaning]):
    """Tells what a client's chain means, if one of its CAs vouches for it."""

    def __init__(self, text: CaText, *, read: Callable[[bytes], Meaning]) -> None:
        """Load the CAs or raise TrustError. `read` gives a client's certificate its meaning.

        If `read` raises Unauthorized the chain proves nothing; what else it raises is told to
        whoever asks.
        """
        self._read = read
        self._origin = text.origin
        self._certificates = _load(text)
        self._anchors = [crypto.X509.from_cryptography(one) for one in self._certificates]
        self.expires_at = min(
            (one.not_valid_after_utc.timestamp() for one in self._certificates), default=0.0
        )
        """When the first of the CAs ends, in seconds since 1970."""
        self.signers = frozenset(_signer(one) for one in self._certificates)

    def judge(self, peer: Peer, now: datetime) -> Judgement[Meaning]:
        """Tell what the chain that a peer has shown proves at this moment."""
        known = cast("Judgement[Meaning] | None", peer.memory.get(self))  # only we write there
        if known is None or not known.first_moment <= now <= known.last_moment:
            known = self._judge(peer.chain, now)
            if len(peer.memory) >= _REMEMBERED_BUNDLES:
                peer.memory.clear()  # of bundles that were replaced long ago
            peer.memory[self] = known
        return known

    def _judge(self, chain: Sequence[bytes], now: datetime) -> Judgement[Meaning]:
        if len(chain) > _MOST_CERTIFICATES:
            return _proves_nothing(now, _NEVER_OVER)
        try:
            path = self._path_to_anchor(chain, now)
            _check(path)
            meaning = self._read(chain[0])
        except (Unauthorized, *_NO_PROOF) as error:
            # Not more than that: users are no front proxies, and there is nothing wrong with it.
            log.debug("chain proves nothing", extra=fields(ca=self._origin, error=str(error)))
            return _proves_nothing(now, self._unproven_until(chain, now))
        first = max(one.not_valid_before_utc for one in path)
        last = min(one.not_valid_after_utc for one in path)
        if not first <= now <= last:
            return _proves_nothing(now, now)  # OpenSSL counts in whole seconds, Go and we do not.
        return Judgement(is_proven=True, meaning=meaning, first_moment=first, last_moment=last)

    def _unproven_until(self, chain: Sequence[bytes], now: datetime) -> datetime:
        """Return how long a chain that proves nothing will go on to prove nothing.

        Time can only help where something is not valid yet.
        """
        begins = [one.not_valid_before_utc for one in self._certificates]
        for der in chain:
            with contextlib.suppress(*_NO_PROOF):
                begins.append(x509.load_der_x509_certificate(der).not_valid_before_utc)
        to_come = [moment for moment in begins if moment > now]
        return min(to_come) - timedelta.resolution if to_come else _NEVER_OVER

    def _path_to_anchor(self, chain: Sequence[bytes], now: datetime) -> list[x509.Certificate]:
        own, *others = (crypto.load_certificate(crypto.FILETYPE_ASN1, one) for one in chain)
        path = crypto.X509StoreContext(self._store_at(now), own, others).get_verified_chain()
        return [one.to_cryptography() for one in path]

    def _store_at(self, now: datetime) -> crypto.X509Store:
        # A new one each time: OpenSSL sets the moment of a store once, and not again.
        store = crypto.X509Store()
        # As in Go, each certificate of the bundle is an anchor, whoever has signed it.
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
        store.set_time(now)
        for anchor in self._anchors:
            store.add_cert(anchor)
        return store


def _proves_nothing(first_moment: datetime, last_moment: datetime) -> Judgement[Meaning]:
    return Judgement(
        is_proven=False, meaning=None, first_moment=first_moment, last_moment=last_moment
    )


def _load(text: CaText) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text.pem)
    except (UnsupportedAlgorithm, ValueError) as error:
        raise TrustError(f"cannot use {text.origin}: not certificates in PEM") from error


def _signer(certificate: x509.Certificate) -> tuple[bytes, bytes]:
    """Return what makes two CA certificates one signer: name and key, however often renewed."""
    key = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return certificate.subject.public_bytes(), key


def _check(path: Sequence[x509.Certificate]) -> None:
    """Hold a path to what Go asks for and OpenSSL does not; ValueError if it fails."""
    for one in path:
        _check_usage(one)
        key = one.public_key()
        if isinstance(key, rsa.RSAPublicKey) and key.key_size < _LEAST_RSA_BITS:
            raise ValueError("a key that is too short")
    for one in path[:-1]:  # an anchor is trusted for itself, whatever its signature
        if _hash_name(one) in _BROKEN_HASHES:
            raise ValueError("a signature that proves nothing")


def _check_usage(certificate: x509.Certificate) -> None:
    """Ask each certificate that names any extended usage to name clients', the CAs' own too."""
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if _CLIENT_USAGES.isdisjoint(usages):
        raise ValueError("a certificate that is not for clients")


def _hash_name(certificate: x509.Certificate) -> str:
    try:
        algorithm = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm as error:
        raise ValueError("a signature of an unknown kind") from error
    return "" if algorithm is None else algorithm.name
