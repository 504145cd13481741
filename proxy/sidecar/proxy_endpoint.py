"""The proxy as the sidecar's upstream: its address, its CA, and no credential."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from proxy.core.errors import OperatorError, StatusError
from proxy.telemetry.logs import fields
from proxy.upstream.auth_errors import CredentialStatus, DeniedRequest
from proxy.upstream.endpoints import Endpoint
from proxy.wire.tls_client import build_client_context


class NoCredential:
    """The credential of an upstream that is used without one."""

    authorization: bytes | None = None
    version = 0

    @property
    def denials(self) -> "NoCredential":
        """Return the resolver of denials, which is this object."""
        return self

    def is_proxy_denial(self, _name: str) -> bool:
        """Return False: the sidecar has no user name of its own."""
        return False

    def resolve(
        self,
        _media_type: str,
        _body: bytes,
        _request: DeniedRequest,
        on_result: Callable[[StatusError | None], None],
    ) -> None:
        """Report that every denial is the client's own."""
        on_result(None)

    def check(
        self, _endpoint: Endpoint, _version: int, on_result: Callable[[CredentialStatus], None]
    ) -> None:
        """Report the credential as accepted, so that a 401 reaches the application.

        The application's token may have expired, and only a 401 makes it use the next one.
        """
        on_result(CredentialStatus.ACCEPTED)


log = logging.getLogger(__name__)


class ProxyEndpointError(OperatorError):
    """The CA of the proxy cannot be used."""


class ProxyEndpoint:
    """The address of one proxy, and the CA that verifies it; the CA file is reread."""

    def __init__(self, address: tuple[str, int], ca_file: Path | None) -> None:
        """Read the CA; raise ProxyEndpointError if invalid. Blocks: call it in a thread."""
        self._address = address
        self._ca_file = ca_file
        self._bundle, context = self._read()
        self.endpoints = (self._endpoint(context),)

    async def reload(self) -> None:
        """Reread the CA file and trust new valid contents; otherwise keep the previous CA."""
        if self._ca_file is None:
            return
        try:
            bundle, context = await asyncio.to_thread(self._read)
        except ProxyEndpointError as error:
            log.warning("CA not reloaded", extra=fields(error=str(error)))
            return
        if bundle != self._bundle:
            # A new endpoint, so that no connection verified by the old CA is reused.
            self._bundle, self.endpoints = bundle, (self._endpoint(context),)
            log.info("CA reloaded")

    def _endpoint(self, context: ssl.SSLContext) -> Endpoint:
        host, port = self._address
        return Endpoint(host, port, host, context)

    def _read(self) -> tuple[bytes, ssl.SSLContext]:
        file = self._ca_file
        try:
            bundle = b"" if file is None else file.read_bytes()
            # No client certificate: the sidecar has none.
            return bundle, build_client_context(None if file is None else str(file), None, None)
        except ssl.SSLError as error:
            raise ProxyEndpointError(f"cannot use {file}: {error.reason or error}") from error
        except OSError as error:
            raise ProxyEndpointError(f"cannot read {file}: {error.strerror}") from error
