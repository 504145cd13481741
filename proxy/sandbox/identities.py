"""Minting who someone is: certificate authorities, client and serving certificates, tokens.

    authority = Authority("clients")
    alice = authority.issue_client("alice", groups=("dev", "ops"), uid="42")
    late = authority.issue_client("bob", validity=Validity(starts_in=-2 * DAY, lasts=DAY))
    agent = authority.issue_node("node-1")
    serving = authority.issue_server("127.0.0.1", "localhost")

A `Credential` is what a client shows: a `KeyPair`, a `BearerToken`, or None for nobody.
`write_kubeconfig` hands one to kubectl. Keys here protect throw-away clusters on this machine.
"""

import base64
import csv
import ipaddress
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)
UID_ATTRIBUTE = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
CLIENT_USAGE = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER_USAGE = ExtendedKeyUsageOID.SERVER_AUTH
ADMIN_GROUP = "system:masters"


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
class BearerToken:
    """A token as it stands in an Authorization header."""

    value: str = field(repr=False)


Credential = KeyPair | BearerToken | None


@dataclass(frozen=True, slots=True)
class Validity:
    """When a certificate holds, counted from the moment it is issued."""

    starts_in: timedelta = timedelta(hours=-1)
    lasts: timedelta = 30 * DAY


USUAL_VALIDITY = Validity()


class Authority:
    """A certificate authority whose key never leaves this process."""

    def __init__(self, name: str, *, validity: Validity = USUAL_VALIDITY) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name)
        certificate = (
            _draft(self._name, self._name, self._key.public_key(), validity)
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
        validity: Validity = USUAL_VALIDITY,
        usages: Sequence[x509.ObjectIdentifier] = (CLIENT_USAGE,),
    ) -> KeyPair:
        """Certify a user: the name as CN, each group as an O, the uid in its own attribute."""
        return self._issue(_subject(name, groups, uid), validity=validity, usages=usages)

    def issue_node(self, node: str) -> KeyPair:
        """Certify a kubelet as the Node authorizer expects it."""
        return self.issue_client(f"system:node:{node}", groups=("system:nodes",))

    def issue_server(
        self,
        *names: str,
        validity: Validity = USUAL_VALIDITY,
        usages: Sequence[x509.ObjectIdentifier] = (SERVER_USAGE,),
    ) -> KeyPair:
        """Certify a server for these DNS names and addresses; the first is its CN too."""
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        return self._issue(
            _subject(names[0]), validity=validity, usages=usages, extensions=[alternatives]
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
        draft = (
            _draft(subject, self._name, key.public_key(), validity)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            # Python 3.13 and later refuse a certificate that does not name its issuer's key.
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                    self._own_key_identifier()
                ),
                critical=False,
            )
        )
        if usages:
            draft = draft.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        for extension in extensions:
            draft = draft.add_extension(extension, critical=False)
        certificate = draft.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


@dataclass(frozen=True, slots=True)
class TokenUser:
    """A user of the API server's static token file."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    token: BearerToken = field(default_factory=lambda: BearerToken(secrets.token_urlsafe(24)))


def write_token_file(path: Path, users: Iterable[TokenUser]) -> None:
    """Write the file behind `--token-auth-file`, readable by us alone."""
    write_secret(path, b"")
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        for user in users:
            rows.writerow([user.token.value, user.name, user.uid, ",".join(user.groups)])


def write_signing_key(path: Path) -> None:
    """Write a fresh key for service-account tokens; its public half is read from the same file."""
    write_secret(path, _private_pem(ec.generate_private_key(ec.SECP256R1())))


def write_kubeconfig(
    path: Path, *, url: str, ca_pem: bytes, credential: Credential, namespace: str = "default"
) -> Path:
    """Write a kubeconfig that needs no other file, and return its path."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "sandbox",
        "clusters": [
            {
                "name": "sandbox",
                "cluster": {"server": url, "certificate-authority-data": _base64(ca_pem)},
            }
        ],
        "contexts": [
            {
                "name": "sandbox",
                "context": {"cluster": "sandbox", "user": "sandbox", "namespace": namespace},
            }
        ],
        "users": [{"name": "sandbox", "user": _kubeconfig_user(credential)}],
    }
    write_secret(path, yaml.safe_dump(document, sort_keys=False).encode())
    return path


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that nobody but us may read, not even for a moment."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(content)


def _kubeconfig_user(credential: Credential) -> dict[str, str]:
    match credential:
        case KeyPair(certificate_pem=certificate, key_pem=key):
            return {
                "client-certificate-data": _base64(certificate),
                "client-key-data": _base64(key),
            }
        case BearerToken(value=token):
            return {"token": token}
        case None:
            return {}


def _draft(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, validity: Validity
) -> x509.CertificateBuilder:
    start = datetime.now(UTC) + validity.starts_in
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + validity.lasts)
    )


def _subject(name: str, groups: Iterable[str] = (), uid: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    if uid is not None:
        attributes.append(x509.NameAttribute(UID_ATTRIBUTE, uid))
    # Each attribute is a relative name of its own, as openssl and kubeadm write them.
    return x509.Name([x509.RelativeDistinguishedName([attribute]) for attribute in attributes])


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


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
