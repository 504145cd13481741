"""A certificate authority, and the certificates that it issues.

The sandbox issues the certificates of its users with it. `understudy act` and
`understudy certificate` issue their serving certificates. The key of an authority is never written,
so it can sign nothing after its object is gone.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)
UID_ATTRIBUTE = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
CLIENT_USAGE = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER_USAGE = ExtendedKeyUsageOID.SERVER_AUTH
_MAX_COMMON_NAME = 64


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write `NAME.crt` and `NAME.key` and return both paths."""
        certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
        certificate.write_bytes(self.certificate_pem)
        write_secret(key, self.key_pem)
        return certificate, key


@dataclass(frozen=True, slots=True)
class Validity:
    """The validity period of a certificate, relative to the time of issue."""

    start_offset: timedelta = timedelta(hours=-1)
    duration: timedelta = 30 * DAY


DEFAULT_VALIDITY = Validity()


class CertificateAuthority:
    """A certificate authority whose key never leaves this process."""

    def __init__(self, name: str, *, validity: Validity = DEFAULT_VALIDITY) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name)
        certificate = (
            _builder(self._name, self._name, self._key.public_key(), validity)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(self._own_key_identifier(), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)

    def issue_client(
        self,
        name: str,
        *,
        groups: Sequence[str] = (),
        uid: str | None = None,
        validity: Validity = DEFAULT_VALIDITY,
        usages: Sequence[x509.ObjectIdentifier] = (CLIENT_USAGE,),
    ) -> KeyPair:
        """Issue a user certificate: name as CN, each group as an O, uid in its own attribute."""
        return self._issue(_subject(name, groups, uid), validity=validity, usages=usages)

    def issue_node(self, node: str) -> KeyPair:
        """Issue a kubelet certificate, as the Node authorizer expects it."""
        return self.issue_client(f"system:node:{node}", groups=("system:nodes",))

    def issue_server(
        self,
        *names: str,
        validity: Validity = DEFAULT_VALIDITY,
        usages: Sequence[x509.ObjectIdentifier] = (SERVER_USAGE,),
    ) -> KeyPair:
        """Issue a server certificate for DNS names and addresses; the first is the CN, if short."""
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        return self._issue(
            _server_subject(names[0]), validity=validity, usages=usages, extensions=[alternatives]
        )

    def _own_key_identifier(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())

    def _issue(
        self,
        subject: x509.Name,
        *,
        validity: Validity,
        usages: Sequence[x509.ObjectIdentifier],
        extensions: Iterable[x509.ExtensionType] = (),
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._name, key.public_key(), validity)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            # Python 3.13 and later reject a certificate that does not name its issuer's key.
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                    self._own_key_identifier()
                ),
                critical=False,
            )
        )
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its creation on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(content)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, validity: Validity
) -> x509.CertificateBuilder:
    start = datetime.now(UTC) + validity.start_offset
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + validity.duration)
    )


def _subject(name: str, groups: Iterable[str] = (), uid: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    if uid is not None:
        attributes.append(x509.NameAttribute(UID_ATTRIBUTE, uid))
    # Each attribute is a separate RDN, as openssl and kubeadm write them.
    return x509.Name([x509.RelativeDistinguishedName([attribute]) for attribute in attributes])


def _server_subject(name: str) -> x509.Name:
    # Clients read the subject alternative names. The CN is informational and of limited length.
    return _subject(name if len(name) <= _MAX_COMMON_NAME else "server")


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
