"""The proxy that requests go to: where it is, and how it is known."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from proxy.core.errors import OperatorError, StatusError
from proxy.telemetry.logs import fields
from proxy.upstream.auth_errors import CredentialStatus, DeniedRequest
from proxy.upstream.endpoints import Endpoint
from proxy.wire.tls_client import client_context


class NoCredential:
    """The place of a credential, empty for good."""

    authorization: bytes | None = None
    version = 0

    @property
    def denials(self) -> "NoCredential":
        """Tell which denials are about us: none."""
        return self

    def is_proxy_denial(self, _name: str) -> bool:
        """Return that no name is ours."""
        return False

    def resolve(
        self,
        _media_type: str,
        _body: bytes,
        _request: DeniedRequest,
        tell: Callable[[StatusError | None], None],
    ) -> None:
        """Let every denial pass."""
        tell(None)

    def check(
        self, _endpoint: Endpoint, _version: int, tell: Callable[[CredentialStatus], None]
    ) -> None:
        """Tell that nothing is wrong with us: a 401 is about the application, which is to see it.

        Its token may have expired, and only if it hears so it takes the next one.
        """
        tell(CredentialStatus.ACCEPTED)


log = logging.getLogger(__name__)


class ProxyEndpointError(OperatorError):
    """The CA that the proxy is known by cannot be used."""


class ProxyEndpoint:
    """One proxy, and the CA that vouches for it; the CA's file is looked at again."""

    def __init__(self, address: tuple[str, int], ca_file: Path | None) -> None:
        """Read the CA, or ProxyEndpointError. Blocks on files: call it in a thread."""
        self._address = address
        self._ca_file = ca_file
        self._bundle, context = self._read()
        self.endpoints = (self._endpoint(context),)

    async def reload(self) -> None:
        """Trust what the file holds now, if that is new and can be used; else go on as before."""
        if self._ca_file is None:
            return
        try:
            bundle, context = await asyncio.to_thread(self._read)
        except ProxyEndpointError as error:
            log.warning("CA not reloaded", extra=fields(error=str(error)))
            return
        if bundle != self._bundle:
            # A new endpoint, so that no connection made by the old trust is used any more.
            self._bundle, self.endpoints = bundle, (self._endpoint(context),)
            log.info("CA reloaded")

    def _endpoint(self, context: ssl.SSLContext) -> Endpoint:
        host, port = self._address
        return Endpoint(host, port, host, context)

    def _read(self) -> tuple[bytes, ssl.SSLContext]:
        file = self._ca_file
        try:
            bundle = b"" if file is None else file.read_bytes()
            # It is shown no certificate: we have none.
            return bundle, client_context(None if file is None else str(file), None, None)
        except ssl.SSLError as error:
            raise ProxyEndpointError(f"cannot use {file}: {error.reason or error}") from error
        except OSError as error:
            raise ProxyEndpointError(f"cannot read {file}: {error.strerror}") from error
