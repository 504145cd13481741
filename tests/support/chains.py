"""Chains of certificates as clients show them, odd ones too."""

import datetime
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID, ObjectIdentifier

from proxy.sandbox.identities import (
    CLIENT_USAGE,
    SERVER_USAGE,
    UID_ATTRIBUTE,
    KeyPair,
)

CN, ORG, UID = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, UID_ATTRIBUTE
Attribute = tuple[ObjectIdentifier, str]
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

NO_USAGE: tuple[ObjectIdentifier, ...] = ()
FOR_CLIENTS = (CLIENT_USAGE,)
FOR_SERVERS = (SERVER_USAGE,)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def name_attribute(oid: ObjectIdentifier, value: str) -> x509.NameAttribute[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty or long name is what the test is about
        return x509.NameAttribute(oid, value, _validate=False)


def subject_of(*attributes: Attribute) -> x509.Name:
    """Return a subject, each attribute in an RDN of its own."""
    return x509.Name([name_attribute(*attribute) for attribute in attributes])


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when a certificate is valid, in hours from now."""

    first: float = -1
    last: float = 24

    @property
    def moments(self) -> tuple[datetime.datetime, datetime.datetime]:
        now = datetime.datetime.now(datetime.UTC)
        hours = datetime.timedelta(hours=1)
        return now + self.first * hours, now + self.last * hours


USUAL = Window()


@dataclass(frozen=True)
class Issuer:
    """Whoever signs: a root, or one that another has signed."""

    name: str = "root"
    parent: "Issuer | None" = None
    usages: Sequence[ObjectIdentifier] = NO_USAGE
    window: Window = USUAL
    is_ca: bool = True
    path_length: int | None = None
    key: Key = field(default_factory=new_key)

    @property
    def subject(self) -> x509.Name:
        return subject_of((CN, self.name))

    @property
    def certificate(self) -> x509.Certificate:
        signer = self.parent or self
        draft = _draft(self.subject, signer, self.key, self.window)
        constraints = x509.BasicConstraints(self.is_ca, self.path_length if self.is_ca else None)
        draft = draft.add_extension(constraints, critical=True)
        return _signed(draft, signer, self.usages)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        *attributes: Attribute,
        subject: x509.Name | None = None,
        usages: Sequence[ObjectIdentifier] = FOR_CLIENTS,
        window: Window = USUAL,
        key: Key | None = None,
        extensions: Sequence[x509.Extension[x509.ExtensionType]] = (),
    ) -> "Shown":
        """Certify a client; what it shows is its certificate and those between it and the root."""
        key = key or new_key()
        named = subject if subject is not None else subject_of(*attributes)
        draft = _draft(named, self, key, window)
        for extension in extensions:
            draft = draft.add_extension(extension.value, critical=extension.critical)
        certificate = _signed(draft, self, usages)
        return Shown((certificate, *self._between()), key)

    def _between(self) -> tuple[x509.Certificate, ...]:
        if self.parent is None:
            return ()
        return (self.certificate, *self.parent._between())


@dataclass(frozen=True, slots=True)
class Shown:
    """What a client shows, and the key it holds."""

    certificates: tuple[x509.Certificate, ...]
    key: Key

    @property
    def chain(self) -> tuple[bytes, ...]:
        """As DER, as it comes out of a handshake."""
        return tuple(one.public_bytes(serialization.Encoding.DER) for one in self.certificates)

    @property
    def key_pair(self) -> KeyPair:
        """As a credential of the sandbox's client."""
        pem = b"".join(one.public_bytes(serialization.Encoding.PEM) for one in self.certificates)
        key = self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        return KeyPair(pem, key)

    @property
    def alone(self) -> "Shown":
        """Without the certificates between it and the root."""
        return Shown(self.certificates[:1], self.key)


def _draft(subject: x509.Name, issuer: Issuer, key: Key, window: Window) -> x509.CertificateBuilder:
    first, last = window.moments
    return x509.CertificateBuilder(
        issuer_name=issuer.subject,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=first,
        not_valid_after=last,
    )


def _signed(
    draft: x509.CertificateBuilder, issuer: Issuer, usages: Sequence[ObjectIdentifier]
) -> x509.Certificate:
    if usages:
        draft = draft.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return draft.sign(issuer.key, hashes.SHA256())
