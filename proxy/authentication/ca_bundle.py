"""CA certificates, and the chains they have verified.

A client's chain is verified with its first request and not again while all of it is valid: what
changes with time is judged each time, what does not is remembered.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import crypto

from proxy.core.errors import SetupError, Unauthorized

Chain = tuple[bytes, ...]
"""Certificates as DER, the client's own first."""

Meaning = TypeVar("Meaning")

_REMEMBERED_CHAINS = 4096
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
class _Verified(Generic[Meaning]):
    """What a chain means, and from when to when all of it is valid."""

    meaning: Meaning
    first_moment: datetime
    last_moment: datetime


class CaBundle(Generic[Meaning]):
    """Tells what a client's chain means, if one of its CAs vouches for it."""

    def __init__(self, text: CaText, *, read: Callable[[bytes], Meaning]) -> None:
        """Load the CAs or raise TrustError. `read` gives a client's certificate its meaning.

        What `read` raises is told to whoever asks, and not remembered.
        """
        self._read = read
        certificates = _load(text)
        self.signers = frozenset(_signer(one) for one in certificates)
        self._anchors = [crypto.X509.from_cryptography(one) for one in certificates]
        self._verified: dict[Chain, _Verified[Meaning]] = {}

    def meaning(self, chain: Chain, now: datetime) -> Meaning:
        """Return what a chain means at this moment; Unauthorized if it proves nothing."""
        known = self._verified.get(chain)
        if known is None or not known.first_moment <= now <= known.last_moment:
            known = self._verify(chain, now)
        return known.meaning

    def _verify(self, chain: Chain, now: datetime) -> _Verified[Meaning]:
        try:
            verified = self._chain_to_anchor(chain, now)
            _check(verified)
        except _NO_PROOF as error:
            raise Unauthorized from error
        known = _Verified(
            self._read(chain[0]),
            max(one.not_valid_before_utc for one in verified),
            min(one.not_valid_after_utc for one in verified),
        )
        if not known.first_moment <= now <= known.last_moment:
            raise Unauthorized
        while len(self._verified) >= _REMEMBERED_CHAINS:
            del self._verified[next(iter(self._verified))]
        self._verified[chain] = known
        return known

    def _chain_to_anchor(self, chain: Chain, now: datetime) -> list[x509.Certificate]:
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
