"""Trust in client certificates: the CAs of users and the CAs of front proxies.

The CA that verifies a certificate decides whether it is a user or a front proxy, never its subject.
The CAs are reloaded periodically. New contents are used only if all of them are valid.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm

from proxy.authentication.ca_bundle import (
    CABundle,
    CertificateSubject,
    ClientCAError,
    PEMBundle,
    caller_from_certificate,
    read_common_name,
)
from proxy.authentication.client_trust_sources import (
    ClientTrustConfig,
    FrontProxyTrustConfig,
    TrustLoader,
)
from proxy.authentication.x509.certificate import Certificate
from proxy.concurrency.refresh_loop import Delay, RefreshLoop
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import Unauthorized
from proxy.core.http.front_proxy import FrontProxyHeaderNames
from proxy.core.userinfo import Caller
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics.serving import ServingMetrics

log = logging.getLogger(__name__)

_FIRST_READ_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class FrontProxyTrust:
    """The CAs of front proxies, and the headers that they may use."""

    bundle: CABundle[None]
    headers: FrontProxyHeaderNames


@dataclass(frozen=True, slots=True)
class ClientTrust:
    """The certificates that are trusted now."""

    clients: CABundle[Caller | None] | None = None
    front_proxies: FrontProxyTrust | None = None
    is_known: bool = True
    """False: the source has not been read yet, so no certificate can be verified."""


class ClientTrustReloader:
    """Keeps the trust equal to the configuration of its source."""

    def __init__(
        self,
        source: TrustLoader,
        *,
        counter: ServingMetrics,
    ) -> None:
        self._source = source
        self._counter = counter
        self._on_change: Callable[[ClientTrust], None] = lambda _trust: None
        self._config: ClientTrustConfig | None = None
        # One reload at a time: an older one must not overwrite a newer one.
        self._reload_lock = asyncio.Lock()
        self._logged_error: str | None = None
        self.trust = ClientTrust(is_known=False)

    async def load(self) -> None:
        """Read for the first time; raise ClientCAError if that fails and is not retryable.

        A cluster source is retried. Until it succeeds no certificate is trusted.
        """
        try:
            await self._read()
        except ClientCAError as error:
            if not self._source.is_retryable:
                raise
            self._reject(str(error))

    def subscribe(self, on_change: Callable[[ClientTrust], None]) -> None:
        """Call `on_change` with the trust, now and whenever it changes."""
        self._on_change = on_change
        on_change(self.trust)

    async def reload_periodically(self, every_seconds: float) -> None:
        """Reload periodically; more often until the first successful read."""

        def delay() -> Delay:
            return Delay(every_seconds if self.trust.is_known else retry_seconds)

        retry_seconds = min(every_seconds, _FIRST_READ_RETRY_SECONDS)
        tasks = TaskSet(lambda error: log.error("client CA reload failed", exc_info=error))
        await RefreshLoop(self.reload, delay=delay, tasks=tasks).run()

    async def reload(self) -> None:
        """Use the current configuration of the source if all of it is valid."""
        async with self._reload_lock:
            try:
                await self._read()
            except ClientCAError as error:
                self._reject(str(error))

    def health_error(self) -> str | None:
        """Return the error for the health check; None if healthy."""
        return None if self.trust.is_known else "client CAs not loaded yet"

    async def _read(self) -> None:
        config = await self._source.read()
        if config != self._config:
            # A ConfigMap can hold a thousand certificates, which take a tenth of a second to parse.
            trust = await asyncio.to_thread(build_trust, config)
            if self._config is not None:
                log.info("client CAs reloaded")
            self._counter.trust_read(used=True)
            self._config, self.trust = config, trust
            self._on_change(trust)
        self._logged_error = None

    def _reject(self, error: str) -> None:
        self._counter.trust_read(used=False)
        if error != self._logged_error:  # logged once, not at every reload
            log.warning("client CAs not reloaded", extra=fields(error=error))
        self._logged_error = error


def build_trust(config: ClientTrustConfig) -> ClientTrust:
    """Return the trust of a configuration, or raise ClientCAError."""
    clients = (
        None if config.client_ca is None else _bundle(config.client_ca, caller_from_certificate)
    )
    if config.front_proxy is None:
        return ClientTrust(clients)
    return ClientTrust(clients, _front_proxies(config.front_proxy, clients))


def _bundle(
    text: PEMBundle, read: Callable[[Certificate], CertificateSubject]
) -> CABundle[CertificateSubject]:
    """Return the CA bundle of a text; raise ClientCAError if a certificate is unsupported."""
    try:
        return CABundle(text, read=read)
    except (UnsupportedAlgorithm, ValueError) as error:
        raise ClientCAError(
            f"cannot use {text.origin}: a certificate in it cannot be read"
        ) from error


def _front_proxies(
    config: FrontProxyTrustConfig, clients: CABundle[Caller | None] | None
) -> FrontProxyTrust:
    def check_name(certificate: Certificate) -> None:
        if allowed and read_common_name(certificate) not in allowed:
            raise Unauthorized

    allowed = frozenset(config.allowed_names)
    bundle = _bundle(config.ca, check_name)
    if not allowed and clients is not None and clients.signers & bundle.signers:
        # kube-apiserver does not start with this either: every user could act as a front proxy.
        raise ClientCAError(
            f"{config.ca.origin} is also the clients' CA: set allowed names for front proxies"
        )
    return FrontProxyTrust(bundle, config.headers)
