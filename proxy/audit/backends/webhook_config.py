"""Where the webhook's receiver is, how it is verified, and what we show it.

It is written in the form of a kubeconfig, as kube-apiserver's --audit-webhook-config-file is.
"""

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

from kubernetes_asyncio.config import ConfigException

from proxy.core.errors import OperatorError
from proxy.wire.tls_client import client_context

_TOKEN = "BearerToken"  # noqa: S105 - the name of it, in the library
_LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))


class WebhookConfigError(OperatorError):
    """The receiver's description cannot be used."""


class Reading(Protocol):
    """What was read: the Kubernetes library's own configuration."""

    @property
    def configuration(self) -> Any:
        """The configuration, of a library without types."""
        ...


class ConfigurationSource(Protocol):
    """Reads a kubeconfig as often as it is asked."""

    async def read(self, last: Any = None) -> Reading:
        """Return what is written now; `last` spares a plugin that need not run again."""
        ...


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """One state of the description."""

    url: str
    authorization: str | None
    context: ssl.SSLContext | None
    """How it is verified; None for plain HTTP."""
    server_name: str | None


class WebhookConfigLoader:
    """The receiver; what is written about it may change."""

    def __init__(self, source: ConfigurationSource) -> None:
        self._source = source
        self._reading: Reading | None = None

    async def read(self) -> WebhookEndpoint:
        """Return what is written now; WebhookConfigError when it cannot be used."""
        try:
            reading = await self._source.read(self._reading)
            target = await asyncio.to_thread(_target, reading.configuration)
        except (ConfigException, OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise WebhookConfigError(
                f"cannot use {self._source} for audit events: {reason}"
            ) from error
        self._reading = reading
        return target


def _target(configuration: Any) -> WebhookEndpoint:
    url = urlsplit(configuration.host)
    if url.username is not None:
        raise ValueError("a credential in the server's URL is not supported")
    if not configuration.verify_ssl:
        raise ValueError("insecure-skip-tls-verify is not supported")
    if configuration.proxy:
        raise ValueError("proxy-url is not supported")
    token: str | None = configuration.api_key.get(_TOKEN)
    authorization = token.strip() if token else None
    if authorization and not (authorization.isascii() and authorization.isprintable()):
        raise ValueError("its token is not printable ASCII")
    return WebhookEndpoint(
        url.geturl(), authorization, _context(url, configuration), configuration.tls_server_name
    )


def _context(url: SplitResult, configuration: Any) -> ssl.SSLContext | None:
    if url.scheme == "https" and url.hostname:
        return client_context(
            configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file
        )
    # Events name who does what: in plain text they go to a process beside us and no further.
    if url.scheme == "http" and url.hostname in _LOOPBACK:
        return None
    raise ValueError("the server must be https://HOST..., or http:// at a loopback address")
