"""Certificates for tests: one CA for servers, one for clients, and contexts that use them."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from OpenSSL import SSL

from proxy.wire.tls_server import build_server_context


@dataclass(frozen=True, slots=True)
class Certificates:
    """Two CAs, so that a test notices when one is taken for the other."""

    servers: trustme.CA
    clients: trustme.CA

    def server_context(self) -> ssl.SSLContext:
        """A server at 127.0.0.1 that asks for no certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.servers.issue_cert("127.0.0.1").configure_cert(context)
        return context

    def listening_context(self, *, asks_for_certificate: bool = True) -> SSL.Context:
        """A listener of ours at 127.0.0.1."""
        context = build_server_context(requests_client_certificate=asks_for_certificate)
        leaf = self.servers.issue_cert("127.0.0.1")
        context.use_certificate(x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()))
        key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        context.use_privatekey(key)
        return context

    def client_context(
        self, user: str | None = None, *, group: str | None = None
    ) -> ssl.SSLContext:
        """A client that trusts our servers, and shows a certificate if it has a user."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.servers.configure_trust(context)
        if user is not None:
            # Without a name trustme adds an empty list of names, critical, which Go does not take.
            leaf = self.clients.issue_cert("client.test", common_name=user, organization_name=group)
            leaf.configure_cert(context)
        return context

    def write_server_files(self, directory: Path) -> tuple[Path, Path]:
        """Write certificate and key of a server at 127.0.0.1."""
        leaf = self.servers.issue_cert("127.0.0.1")
        certificate, key = directory / "server.crt", directory / "server.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        key.write_bytes(leaf.private_key_pem.bytes())
        return certificate, key

    def write_client_ca(self, directory: Path) -> Path:
        """Write the CA that client certificates come from."""
        file = directory / "client-ca.crt"
        file.write_bytes(self.clients.cert_pem.bytes())
        return file

    def write_server_ca(self, directory: Path) -> Path:
        """Write the CA that server certificates come from."""
        file = directory / "server-ca.crt"
        file.write_bytes(self.servers.cert_pem.bytes())
        return file


def new_certificates() -> Certificates:
    """Make two new CAs."""
    return Certificates(trustme.CA(), trustme.CA())
