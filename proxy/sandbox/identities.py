"""Credentials of the sandbox: CAs, client and serving certificates, and tokens.

    authority = CertificateAuthority("clients")
    alice = authority.issue_client("alice", groups=("dev", "ops"), uid="42")
    late = authority.issue_client("bob", validity=Validity(start_offset=-2 * DAY, duration=DAY))
    agent = authority.issue_node("node-1")
    serving = authority.issue_server("127.0.0.1", "localhost")

A `Credential` is a `KeyPair`, a `BearerToken`, or None for an anonymous client. `write_kubeconfig`
writes one for kubectl. Keys here protect only temporary clusters on this machine.
"""

import base64
import csv
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from proxy.pki.authority import (
    CLIENT_USAGE,
    DAY,
    DEFAULT_VALIDITY,
    SERVER_USAGE,
    UID_ATTRIBUTE,
    CertificateAuthority,
    KeyPair,
    Validity,
    private_pem,
    write_secret,
)

__all__ = [
    "ADMIN_GROUP",
    "CLIENT_USAGE",
    "DAY",
    "DEFAULT_VALIDITY",
    "SERVER_USAGE",
    "UID_ATTRIBUTE",
    "BearerToken",
    "CertificateAuthority",
    "Credential",
    "KeyPair",
    "TokenUser",
    "Validity",
    "write_kubeconfig",
    "write_secret",
    "write_signing_key",
    "write_token_file",
]

ADMIN_GROUP = "system:masters"


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token of an Authorization header."""

    value: str = field(repr=False)


Credential = KeyPair | BearerToken | None


@dataclass(frozen=True, slots=True)
class TokenUser:
    """A user of the API server's static token file."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    token: BearerToken = field(default_factory=lambda: BearerToken(secrets.token_urlsafe(24)))


def write_token_file(path: Path, users: Iterable[TokenUser]) -> None:
    """Write the file of `--token-auth-file`, readable only by the current user."""
    write_secret(path, b"")
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        for user in users:
            rows.writerow([user.token.value, user.name, user.uid, ",".join(user.groups)])


def write_signing_key(path: Path) -> None:
    """Write a new key for service account tokens; the API server derives its public key."""
    write_secret(path, private_pem(ec.generate_private_key(ec.SECP256R1())))


def write_kubeconfig(
    path: Path, *, url: str, ca_pem: bytes, credential: Credential, namespace: str = "default"
) -> Path:
    """Write a self-contained kubeconfig, and return its path."""
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


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
