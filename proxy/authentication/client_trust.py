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
    CaBundle,
    CaText,
    Meaning,
    TrustError,
    read_caller,
    read_common_name,
)
from proxy.authentication.x509.certificate import Certificate
from proxy.core.errors import Unauthorized
from proxy.core.http.front_proxy import RemoteHeaders
from proxy.core.userinfo import Caller
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

_FIRST_LESSONS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class FrontProxyClaim:
    """What a source tells of front proxies."""

    ca: CaText
    allowed_names: tuple[str, ...]
    headers: RemoteHeaders


@dataclass(frozen=True, slots=True)
class TrustClaim:
    """What a source tells: equal when nothing has changed."""

    client_ca: CaText | None = None
    front_proxy: FrontProxyClaim | None = None


@dataclass(frozen=True, slots=True)
class FrontProxies:
    """Who may speak for others, and in which headers."""

    bundle: CaBundle[None]
    headers: RemoteHeaders


@dataclass(frozen=True, slots=True)
class Trust:
    """What is believed now."""

    clients: CaBundle[Caller | None] | None = None
    front_proxies: FrontProxies | None = None
    is_known: bool = True
    """No: the source has not told yet, so that no certificate can be judged."""


class TrustSource(Protocol):
    """Tells what is to be believed."""

    @property
    def may_tell_later(self) -> bool:
        """Tell whether it is worth waiting for what cannot be used yet."""
        ...

    async def read(self) -> TrustClaim:
        """Return what is told now, or raise TrustError."""
        ...


class TrustCounter(Protocol):
    """Learns what became of new contents."""

    def trust_read(self, *, used: bool) -> None:
        """Count new contents, used or refused."""
        ...


class TrustKeeper:
    """Keeps what is believed what its source tells."""

    def __init__(
        self,
        source: TrustSource,
        *,
        counter: TrustCounter,
    ) -> None:
        self._source = source
        self._counter = counter
        self._on_change: Callable[[Trust], None] = lambda _trust: None
        self._claim: TrustClaim | None = None
        # One look at a time: an older one must not overtake a newer one.
        self._turn = asyncio.Lock()
        self._told: str | None = None
        self.trust = Trust(is_known=False)

    async def begin(self) -> None:
        """Look for the first time; TrustError if that is no use, and waiting would be none.

        A cluster that does not tell yet is asked again: until then no certificate is believed.
        """
        try:
            await self._read()
        except TrustError as error:
            if not self._source.may_tell_later:
                raise
            self._refuse(str(error))

    def tell(self, on_change: Callable[[Trust], None]) -> None:
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
                await self.look()
            except Exception:
                # Whatever it was: an end of the looking would leave a removed CA in force for ever.
                log.exception("client CAs not read")

    async def look(self) -> None:
        """Believe what the source tells now, if it is all good."""
        async with self._turn:
            try:
                await self._read()
            except TrustError as error:
                self._refuse(str(error))

    def fault(self) -> str | None:
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


def build_trust(claim: TrustClaim) -> Trust:
    """Return what to believe, or raise TrustError."""
    clients = None if claim.client_ca is None else _bundle(claim.client_ca, read_caller)
    if claim.front_proxy is None:
        return Trust(clients)
    return Trust(clients, _front_proxies(claim.front_proxy, clients))


def _bundle(text: CaText, read: Callable[[Certificate], Meaning]) -> CaBundle[Meaning]:
    """Return the CAs of a text; TrustError if one of them is of a kind that cannot be used."""
    try:
        return CaBundle(text, read=read)
    except (UnsupportedAlgorithm, ValueError) as error:
        raise TrustError(f"cannot use {text.origin}: a certificate in it cannot be read") from error


def _front_proxies(claim: FrontProxyClaim, clients: CaBundle[Caller | None] | None) -> FrontProxies:
    def check_name(certificate: Certificate) -> None:
        if allowed and read_common_name(certificate) not in allowed:
            raise Unauthorized

    allowed = frozenset(claim.allowed_names)
    bundle = _bundle(claim.ca, check_name)
    if not allowed and clients is not None and clients.signers & bundle.signers:
        # As the API server, which does not start like this: every user could speak for others.
        raise TrustError(
            f"{claim.ca.origin} is also the clients' CA: front proxies need allowed names then"
        )
    return FrontProxies(bundle, claim.headers)


def header_names(names: Sequence[str]) -> tuple[bytes, ...]:
    """Return names as they are compared."""
    return tuple(name.strip().lower().encode("ascii") for name in names)
