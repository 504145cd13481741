"""Who we are at the API server: where it is, how it is verified, and our own credential.

kubernetes-asyncio reads kubeconfigs (exec plugins included) and the pod's service account; what
it found becomes plain values here.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration

from proxy.core.errors import SetupError

_HTTPS_PORT = 443
_TOKEN = "BearerToken"  # noqa: S105 - the name of it, in the library


class CredentialsError(SetupError):
    """Our own credential or the API server's address cannot be used."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API server is, and the TLS settings that verify it and present us."""

    host: str
    port: int
    server_name: str
    context: ssl.SSLContext


class UpstreamCredentials:
    """Our own identity: an endpoint, and the Authorization header that goes with it."""

    def __init__(self, configuration: Configuration, endpoint: Endpoint) -> None:
        self.configuration = configuration
        self.endpoint = endpoint
        self.authorization: bytes | None = None
        # The token has one owner: reviews use what `refresh` has read, and read nothing themselves.
        reread = configuration.refresh_api_key_hook
        self._reread: Callable[[Configuration], object] | None = (
            reread if callable(reread) else None
        )
        configuration.refresh_api_key_hook = None

    async def refresh(self) -> None:
        """Take the newest token, if we have one: files rotate.

        On CredentialsError the old one stays.
        """
        try:
            if self._reread is not None:
                await asyncio.to_thread(self._reread, self.configuration)
            token = await self.configuration.get_api_key_with_prefix(_TOKEN)
            self.authorization = _header_value(token) if token else None
        except (config.ConfigException, OSError, ValueError) as error:
            raise CredentialsError(f"cannot read our own token: {error}") from error
        finally:
            # Reviews use the same one, without the newline of a token file that they would refuse.
            if self.authorization is not None:
                self.configuration.api_key[_TOKEN] = self.authorization.decode()


async def load_credentials(kubeconfig: Path | None) -> UpstreamCredentials:
    """Read our identity from a kubeconfig, or from the pod's service account when there is none."""
    configuration = Configuration()
    source = f"kubeconfig {kubeconfig}" if kubeconfig else "the pod's service account"
    try:
        await _load(configuration, kubeconfig)
        credentials = UpstreamCredentials(configuration, _endpoint(configuration))
        await credentials.refresh()
    except (CredentialsError, config.ConfigException, OSError, ValueError) as error:
        raise CredentialsError(f"cannot use {source}: {error}") from error
    if credentials.authorization is None and not configuration.cert_file:
        raise CredentialsError(f"cannot use {source}: neither a token nor a client certificate")
    return credentials


async def _load(configuration: Configuration, kubeconfig: Path | None) -> None:
    # In threads, because the library reads files without awaiting them.
    if kubeconfig is None:
        await asyncio.to_thread(config.load_incluster_config, client_configuration=configuration)
        return
    await asyncio.to_thread(_check_is_mapping, kubeconfig)
    loading = config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    try:
        await asyncio.to_thread(asyncio.run, loading)
    except (AttributeError, KeyError, TypeError) as error:
        # How the library meets a list where it expects a mapping, and the like.
        raise ValueError("it is not a well-formed kubeconfig") from error


def _check_is_mapping(kubeconfig: Path) -> None:
    # The library overlooks a missing file, and fails without words on one that is something else.
    try:
        document = yaml.safe_load(kubeconfig.read_bytes())
    except yaml.YAMLError as error:
        raise ValueError("it is not YAML") from error
    if not isinstance(document, dict):
        raise ValueError("it is not a mapping")  # noqa: TRY004 - a wrong value, not a wrong call


def _header_value(token: str) -> bytes:
    """Return a token as the value of a header: without the newline of its file, all printable."""
    value = token.strip()
    if not (value.isascii() and value.isprintable()):
        raise ValueError("it is not printable ASCII")
    return value.encode()


def _endpoint(configuration: Configuration) -> Endpoint:
    url = urlsplit(configuration.host)
    if url.scheme != "https" or not url.hostname or url.path not in ("", "/"):
        raise ValueError(f"the server must be https://HOST[:PORT], not {configuration.host}")
    if not configuration.verify_ssl:
        raise ValueError("insecure-skip-tls-verify is not supported")
    if configuration.proxy:
        raise ValueError("proxy-url is not supported")
    return Endpoint(
        host=url.hostname,
        port=url.port or _HTTPS_PORT,
        server_name=configuration.tls_server_name or url.hostname,
        context=_context(configuration),
    )


def _context(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 asks for extensions that the CAs of several managed clusters do not carry.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
