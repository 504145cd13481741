"""Who we are at the API server: where it is, how it is verified, and our own credential.

What is written in files becomes plain values here, all of it or nothing: a half-written
certificate, a token file that is just gone or a plugin that fails leave the old identity whole.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration

from proxy.core.errors import OperatorError, StatusError
from proxy.kubeclient.kubeconfig import LoadedKubeconfig
from proxy.settings.types import parse_server
from proxy.upstream.credentials.refresher import expiry_of
from proxy.upstream.endpoints import Endpoint
from proxy.wire.tls_client import client_context

_TOKEN = "BearerToken"  # noqa: S105 - the name of it, in the library
# Stands for whichever endpoint can be reached; no resolver knows it.
ANY_ENDPOINT = "https://any-endpoint.invalid"

Address = tuple[str, int]


class CredentialsError(OperatorError):
    """Our own credential or the API server's address cannot be used."""


class CredentialSource(Protocol):
    """Where our identity is written; its name is for people."""

    async def read(self, last: LoadedKubeconfig | None = None) -> LoadedKubeconfig:
        """Return what is written now; what expires may be what was read `last`."""
        ...


@dataclass(frozen=True, slots=True)
class CredentialState:
    """One state of our identity; `fingerprint` covers everything that connections depend on."""

    authorization: bytes | None
    endpoints: tuple[Endpoint, ...]
    fingerprint: bytes
    certificate: bytes | None
    expires_at: float

    @property
    def api_key(self) -> dict[str, str]:
        """Return the token as the client library takes it, if there is one."""
        token = self.authorization
        return {} if token is None else {_TOKEN: token.decode()}


class UpstreamCredentials:
    """Our own identity: endpoints, and the Authorization header that goes with them.

    `version` grows with every change, so that who has used one identity can tell it from the
    next. The configuration is for our own calls and always holds the newest token.
    """

    def __init__(
        self, source: CredentialSource, addresses: Sequence[Address], reading: LoadedKubeconfig
    ) -> None:
        """Take a first reading. Blocks on files: call it in a thread."""
        self._source = source
        self._addresses = addresses
        self._reading = reading
        self._identity = _identity(reading, addresses, None)
        # The value of our Authorization header, or None when a certificate speaks for us.
        self.authorization = self._identity.authorization
        # They are new objects when a certificate or a CA is. Both are looked at for each request.
        self.endpoints = self._identity.endpoints
        self.version = 1
        self.configuration = Configuration(host=ANY_ENDPOINT)
        self._tell_own_calls()
        # Called with a new credential before it is used; whoever raises keeps it from being used.
        self.introduce: Callable[[CredentialState], Awaitable[None]] | None = None

    @property
    def certificate(self) -> bytes | None:
        """The PEM of the certificate that speaks for us, if one does."""
        return self._identity.certificate

    @property
    def expires_at(self) -> float:
        """When our credential ends, in seconds since 1970; 0 if nothing tells."""
        return self._identity.expires_at

    async def refresh(self, *, renew: bool = False) -> bool:
        """Take what is written now, and tell whether it is something new.

        With `renew` a plugin is run again whatever it said about expiry. On CredentialsError the
        old identity stays, whole: also if the API server does not tell whose the new one is.
        """
        try:
            reading = await self._source.read(None if renew else self._reading)
            identity = await asyncio.to_thread(_identity, reading, self._addresses, self._identity)
        except _UNUSABLE as error:
            raise _cannot_use(self._source, error) from error
        if identity == self._identity:
            self._reading = reading
            return False
        if self.introduce is not None:
            try:
                await self.introduce(identity)
            except StatusError as error:
                raise _cannot_use(self._source, error) from error
        # Nothing waits from here on: whoever was introduced is who is used.
        self._reading = reading
        self._identity = identity
        self.authorization, self.endpoints = identity.authorization, identity.endpoints
        self.version += 1
        self._tell_own_calls()
        return True

    def _tell_own_calls(self) -> None:
        # The token has one owner: our own calls use what was read here, and read nothing.
        self.configuration.api_key = self._identity.api_key


_UNUSABLE = (config.ConfigException, OSError, ValueError)


async def load_credentials(
    source: CredentialSource, addresses: Sequence[Address] = ()
) -> UpstreamCredentials:
    """Read our identity; `addresses` stand in for the one address that is written there."""
    try:
        reading = await source.read()
        return await asyncio.to_thread(UpstreamCredentials, source, addresses, reading)
    except _UNUSABLE as error:
        raise _cannot_use(source, error) from error


def _cannot_use(source: CredentialSource, error: Exception) -> CredentialsError:
    # In one line, whatever a plugin printed.
    return CredentialsError(f"cannot use {source}: {' '.join(str(error).split())}")


def _identity(
    reading: LoadedKubeconfig, addresses: Sequence[Address], old: CredentialState | None
) -> CredentialState:
    """Return the identity that a reading describes; ValueError for what we never use.

    Connections, and so the TLS settings, stay the same ones as long as no file changed.
    """
    configuration = reading.configuration
    token = configuration.api_key.get(_TOKEN)
    authorization = _header_value(token) if token else None
    if authorization is None and not configuration.cert_file:
        raise ValueError("neither a token nor a client certificate")
    if not configuration.verify_ssl:
        raise ValueError("insecure-skip-tls-verify is not supported")
    if configuration.proxy:
        raise ValueError("proxy-url is not supported")
    servers = tuple(addresses) or (_server(configuration),)
    # Read before the context is made: if a file changes in between, the next look sees it.
    fingerprint = _fingerprint(configuration, servers)
    certificate = Path(configuration.cert_file).read_bytes() if configuration.cert_file else None
    told = reading.expires.timestamp() if reading.expires is not None else None
    expires_at = expiry_of(authorization, certificate) if told is None else told
    if old is not None and old.fingerprint == fingerprint:
        return replace(old, authorization=authorization, expires_at=expires_at)
    context = client_context(
        configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file
    )
    name = configuration.tls_server_name
    endpoints = tuple(Endpoint(host, port, name or host, context) for host, port in servers)
    return CredentialState(authorization, endpoints, fingerprint, certificate, expires_at)


def _server(configuration: Configuration) -> Address:
    try:
        return parse_server(configuration.host)
    except ValueError as error:
        raise ValueError(f"the server {error}") from error


def _fingerprint(configuration: Configuration, servers: Sequence[Address]) -> bytes:
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    parts = [repr((servers, configuration.tls_server_name)).encode()]
    parts += [Path(file).read_bytes() if file else b"" for file in files]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def _header_value(token: str) -> bytes:
    """Return a token as the value of a header: without the newline of its file, all printable."""
    value = token.strip()
    if not (value.isascii() and value.isprintable()):
        raise ValueError("its token is not printable ASCII")
    if value in {"Bearer", "Basic"}:
        raise ValueError("its token is empty")
    return value.encode()
