"""The webhook's endpoint: its URL, TLS verification and credential.

The configuration is a kubeconfig, like that of kube-apiserver's --audit-webhook-config-file.
"""

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from kubernetes_asyncio.config import ConfigException

from proxy.core.errors import OperatorError
from proxy.kubeclient.kubeconfig import KubeconfigSource, LoadedKubeconfig
from proxy.wire.tls_client import build_client_context

_TOKEN = "BearerToken"  # noqa: S105 - the library's key for the token
_LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))


class WebhookConfigError(OperatorError):
    """Raised when the webhook configuration is invalid."""


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """One loaded state of the configuration."""

    url: str
    authorization: str | None
    context: ssl.SSLContext | None
    """How the server is verified; None for plain HTTP."""
    server_name: str | None


class WebhookConfigLoader:
    """Loads the webhook endpoint from a configuration that may change."""

    def __init__(self, source: KubeconfigSource) -> None:
        self._source = source
        self._loaded: LoadedKubeconfig | None = None

    async def read(self) -> WebhookEndpoint:
        """Return the current endpoint; raise WebhookConfigError if it is invalid."""
        try:
            loaded = await self._source.read(self._loaded)
            endpoint = await asyncio.to_thread(_endpoint, loaded.configuration)
        except (ConfigException, OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise WebhookConfigError(
                f"cannot use {self._source} for audit events: {reason}"
            ) from error
        self._loaded = loaded
        return endpoint


def _endpoint(configuration: Any) -> WebhookEndpoint:
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
        url.geturl(), authorization, _tls_context(url, configuration), configuration.tls_server_name
    )


def _tls_context(url: SplitResult, configuration: Any) -> ssl.SSLContext | None:
    if url.scheme == "https" and url.hostname:
        return build_client_context(
            configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file
        )
    # Events contain user names and actions. Unencrypted, they may only go to the same host.
    if url.scheme == "http" and url.hostname in _LOOPBACK:
        return None
    raise ValueError("the server must be https://HOST..., or http:// at a loopback address")
