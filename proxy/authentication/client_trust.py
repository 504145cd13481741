"""Which certificates are believed, and what they prove: a user, or a front proxy.

Which CA verified a certificate decides that, never what its subject says. What is believed is read
again and again; new contents are used if all of them are good, and not at all otherwise.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm

from proxy.authentication.ca_bundle import (
    CABundle,
    ClientCAError,
    Meaning,
    PEMBundle,
    caller_from_certificate,
    read_common_name,
)
from proxy.authentication.x509.certificate import Certificate
from proxy.core.errors import Unauthorized
from proxy.core.http.front_proxy import FrontProxyHeaderNames
from proxy.core.userinfo import Caller
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

_FIRST_LESSONS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class FrontProxyTrustConfig:
    """What a source tells of front proxies."""

    ca: PEMBundle
    allowed_names: tuple[str, ...]
    headers: FrontProxyHeaderNames


@dataclass(frozen=True, slots=True)
class ClientTrustConfig:
    """What a source tells: equal when nothing has changed."""

    client_ca: PEMBundle | None = None
    front_proxy: FrontProxyTrustConfig | None = None


@dataclass(frozen=True, slots=True)
class FrontProxyTrust:
    """Who may speak for others, and in which headers."""

    bundle: CABundle[None]
    headers: FrontProxyHeaderNames


@dataclass(frozen=True, slots=True)
class ClientTrust:
    """What is believed now."""

    clients: CABundle[Caller | None] | None = None
    front_proxies: FrontProxyTrust | None = None
    is_known: bool = True
    """No: the source has not told yet, so that no certificate can be judged."""


class TrustSource(Protocol):
    """Tells what is to be believed."""

    @property
    def is_retryable(self) -> bool:
        """Tell whether it is worth waiting for what cannot be used yet."""
        ...

    async def read(self) -> ClientTrustConfig:
        """Return what is told now, or raise ClientCAError."""
        ...


class TrustCounter(Protocol):
    """Learns what became of new contents."""

    def trust_read(self, *, used: bool) -> None:
        """Count new contents, used or refused."""
        ...


class ClientTrustReloader:
    """Keeps what is believed what its source tells."""

    def __init__(
        self,
        source: TrustSource,
        *,
        counter: TrustCounter,
    ) -> None:
        self._source = source
        self._counter = counter
        self._on_change: Callable[[ClientTrust], None] = lambda _trust: None
        self._claim: ClientTrustConfig | None = None
        # One look at a time: an older one must not overtake a newer one.
        self._turn = asyncio.Lock()
        self._told: str | None = None
        self.trust = ClientTrust(is_known=False)

    async def load(self) -> None:
        """Look for the first time; ClientCAError if that is no use, and waiting would be none.

        A cluster that does not tell yet is asked again: until then no certificate is believed.
        """
        try:
            await self._read()
        except ClientCAError as error:
            if not self._source.is_retryable:
                raise
            self._refuse(str(error))

    def subscribe(self, on_change: Callable[[ClientTrust], None]) -> None:
        """Tell what is believed, now and whenever it changes."""
        self._on_change = on_change
        on_change(self.trust)

    async def keep_fresh(self, every_seconds: float) -> None:
        """Look again and again; more often as long as nothing is known."""
        while True:
            await asyncio.sleep(
                every_seconds if self.trust.is_known else min(every_seconds, _FIRST_LESSONS_SECONDS)
            )
            try:
                await self.reload()
            except Exception:
                # Whatever it was: an end of the looking would leave a removed CA in force for ever.
                log.exception("client CAs not read")

    async def reload(self) -> None:
        """Believe what the source tells now, if it is all good."""
        async with self._turn:
            try:
                await self._read()
            except ClientCAError as error:
                self._refuse(str(error))

    def health_error(self) -> str | None:
        """Return what is wrong, for the health check."""
        return None if self.trust.is_known else "client CAs are not known yet"

    async def _read(self) -> None:
        claim = await self._source.read()
        if claim != self._claim:
            # A ConfigMap has room for a thousand certificates, which take a tenth of a second.
            trust = await asyncio.to_thread(build_trust, claim)
            if self._claim is not None:
                log.info("client CAs reloaded")
            self._counter.trust_read(used=True)
            self._claim, self.trust = claim, trust
            self._on_change(trust)
        self._told = None

    def _refuse(self, problem: str) -> None:
        self._counter.trust_read(used=False)
        if problem != self._told:  # once, not at every look
            log.warning("client CAs not reloaded", extra=fields(error=problem))
        self._told = problem


def build_trust(claim: ClientTrustConfig) -> ClientTrust:
    """Return what to believe, or raise ClientCAError."""
    clients = None if claim.client_ca is None else _bundle(claim.client_ca, caller_from_certificate)
    if claim.front_proxy is None:
        return ClientTrust(clients)
    return ClientTrust(clients, _front_proxies(claim.front_proxy, clients))


def _bundle(text: PEMBundle, read: Callable[[Certificate], Meaning]) -> CABundle[Meaning]:
    """Return the CAs of a text; ClientCAError if one of them is of a kind that cannot be used."""
    try:
        return CABundle(text, read=read)
    except (UnsupportedAlgorithm, ValueError) as error:
        raise ClientCAError(
            f"cannot use {text.origin}: a certificate in it cannot be read"
        ) from error


def _front_proxies(
    claim: FrontProxyTrustConfig, clients: CABundle[Caller | None] | None
) -> FrontProxyTrust:
    def check_name(certificate: Certificate) -> None:
        if allowed and read_common_name(certificate) not in allowed:
            raise Unauthorized

    allowed = frozenset(claim.allowed_names)
    bundle = _bundle(claim.ca, check_name)
    if not allowed and clients is not None and clients.signers & bundle.signers:
        # As the API server, which does not start like this: every user could speak for others.
        raise ClientCAError(
            f"{claim.ca.origin} is also the clients' CA: front proxies need allowed names then"
        )
    return FrontProxyTrust(bundle, claim.headers)


def header_names(names: Sequence[str]) -> tuple[bytes, ...]:
    """Return names as they are compared."""
    return tuple(name.strip().lower().encode("ascii") for name in names)
