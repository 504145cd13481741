"""The proxy's credential at the API server, with the server's address and CA.

Files are loaded into plain values, all or nothing. A half-written certificate, a missing token file
or a failing plugin leaves the old state in use.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cryptography import x509
from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration

from proxy.core.errors import OperatorError, StatusError
from proxy.kubeclient.kubeconfig import LoadedKubeconfig
from proxy.settings.types import parse_server
from proxy.upstream.endpoints import Endpoint
from proxy.wire.tls_client import build_client_context

_TOKEN = "BearerToken"  # noqa: S105 - the library's key, not a token
# A placeholder for any reachable endpoint; no resolver resolves it.
ANY_ENDPOINT = "https://any-endpoint.invalid"
_JWT_PARTS = 3

Address = tuple[str, int]


class CredentialsError(OperatorError):
    """The proxy's credential or the API server's address cannot be used."""


class CredentialSource(Protocol):
    """Provides a credential; `str()` of it names the source in messages."""

    async def read(self, last: LoadedKubeconfig | None = None) -> LoadedKubeconfig:
        """Return the current configuration; `last` may be reused until it expires."""
        ...


@dataclass(frozen=True, slots=True)
class CredentialState:
    """One state of a credential; `fingerprint` covers everything that connections depend on."""

    authorization: bytes | None
    endpoints: tuple[Endpoint, ...]
    fingerprint: bytes
    certificate: bytes | None
    expires_at: float

    @property
    def api_key(self) -> dict[str, str]:
        """Return the token as the client library expects it; empty without one."""
        token = self.authorization
        return {} if token is None else {_TOKEN: token.decode()}


class UpstreamCredentials:
    """One credential of the proxy: its endpoints and Authorization header.

    `version` increases with every change, so that users of the credential can detect a change. The
    configuration is for the proxy's own calls and always holds the newest token.
    """

    def __init__(
        self, source: CredentialSource, addresses: Sequence[Address], loaded: LoadedKubeconfig
    ) -> None:
        """Load the first state. Blocks on files: call it in a thread."""
        self._source = source
        self._addresses = addresses
        self._loaded = loaded
        self._state = _load_state(loaded, addresses, None)
        # The value of the Authorization header, or None with a client certificate.
        self.authorization = self._state.authorization
        # New objects when the certificate or the CA is new. Both attributes are read per request.
        self.endpoints = self._state.endpoints
        self.version = 1
        self.configuration = Configuration(host=ANY_ENDPOINT)
        self._update_configuration()
        # Called with a new credential before it is used. An exception prevents its use.
        self.before_use: Callable[[CredentialState], Awaitable[None]] | None = None

    @property
    def state(self) -> CredentialState:
        """Return the state in use."""
        return self._state

    @property
    def expires_at(self) -> float:
        """Return the expiry of the credential as a Unix time; 0 if unknown."""
        return self._state.expires_at

    async def refresh(self, *, renew: bool = False) -> bool:
        """Load the current credential, and return whether it is new.

        With `renew` a plugin is run again whatever its expiry. On CredentialsError the old state
        stays in use unchanged. This includes a new credential whose user cannot be resolved.
        """
        try:
            loaded = await self._source.read(None if renew else self._loaded)
            state = await asyncio.to_thread(_load_state, loaded, self._addresses, self._state)
        except _LOAD_ERRORS as error:
            raise _unusable(self._source, error) from error
        if state == self._state:
            self._loaded = loaded
            return False
        if self.before_use is not None:
            try:
                await self.before_use(state)
            except StatusError as error:
                raise _unusable(self._source, error) from error
        # No await from here on, so the state that was introduced is the one in use.
        self._loaded = loaded
        self._state = state
        self.authorization, self.endpoints = state.authorization, state.endpoints
        self.version += 1
        self._update_configuration()
        return True

    def _update_configuration(self) -> None:
        # The token has one owner: the proxy's own calls use this value and read no file.
        self.configuration.api_key = self._state.api_key


_LOAD_ERRORS = (config.ConfigException, OSError, ValueError)


async def load_credentials(
    source: CredentialSource, addresses: Sequence[Address] = ()
) -> UpstreamCredentials:
    """Load a credential; `addresses` replace the server address of the source."""
    try:
        loaded = await source.read()
        return await asyncio.to_thread(UpstreamCredentials, source, addresses, loaded)
    except _LOAD_ERRORS as error:
        raise _unusable(source, error) from error


def _unusable(source: CredentialSource, error: Exception) -> CredentialsError:
    # On one line, whatever a plugin printed.
    return CredentialsError(f"cannot use {source}: {' '.join(str(error).split())}")


def _load_state(
    loaded: LoadedKubeconfig, addresses: Sequence[Address], old: CredentialState | None
) -> CredentialState:
    """Return the state for a loaded kubeconfig; ValueError for unsupported settings.

    Endpoints, and so their connections, stay the same objects as long as no file changed.
    """
    configuration = loaded.configuration
    token = configuration.api_key.get(_TOKEN)
    authorization = _header_value(token) if token else None
    if authorization is None and not configuration.cert_file:
        raise ValueError("neither a token nor a client certificate")
    if not configuration.verify_ssl:
        raise ValueError("insecure-skip-tls-verify is not supported")
    if configuration.proxy:
        raise ValueError("proxy-url is not supported")
    servers = tuple(addresses) or (_server(configuration),)
    # Read before the context is created: if a file changes in between, the next refresh sees it.
    fingerprint = _fingerprint(configuration, servers)
    certificate = Path(configuration.cert_file).read_bytes() if configuration.cert_file else None
    reported = loaded.expires.timestamp() if loaded.expires is not None else None
    expires_at = credential_expiry(authorization, certificate) if reported is None else reported
    if old is not None and old.fingerprint == fingerprint:
        return replace(old, authorization=authorization, expires_at=expires_at)
    context = build_client_context(
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
    """Return a token as a header value, stripped; ValueError if it is not printable ASCII."""
    value = token.strip()
    if not (value.isascii() and value.isprintable()):
        raise ValueError("its token is not printable ASCII")
    if value in {"Bearer", "Basic"}:
        raise ValueError("its token is empty")
    return value.encode()


def credential_expiry(authorization: bytes | None, certificate: bytes | None) -> float:
    """Return the expiry of a token, or else of a certificate, as a Unix time; 0 if unknown."""
    try:
        if authorization is not None:
            return _token_expiry(authorization.partition(b" ")[2])
        if certificate is not None:
            return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()
    except (ValueError, TypeError, AttributeError):
        pass  # A credential that the API server accepts is not rejected for the sake of a gauge.
    return 0.0


def _token_expiry(token: bytes) -> float:
    parts = token.split(b".")
    if len(parts) != _JWT_PARTS:
        return 0.0
    claims = json.loads(base64.urlsafe_b64decode(parts[1] + b"=="))
    return float(claims.get("exp", 0))
