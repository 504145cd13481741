"""Keeps our credential fresh: looks again from time to time, and when an API server refuses it."""

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from typing import Protocol

from cryptography import x509

from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError
from proxy.telemetry.logs import fields

_PARTS_OF_A_JWT = 3


def expiry_of(authorization: bytes | None, certificate: bytes | None) -> float:
    """Return when a token, or else a certificate, ends, in seconds since 1970; 0 if unknown."""
    try:
        if authorization is not None:
            return _token_expiry(authorization.partition(b" ")[2])
        if certificate is not None:
            return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()
    except (ValueError, TypeError, AttributeError):
        pass  # What the API server takes is not refused for the sake of a gauge.
    return 0.0


def _token_expiry(token: bytes) -> float:
    parts = token.split(b".")
    if len(parts) != _PARTS_OF_A_JWT:
        return 0.0
    claims = json.loads(base64.urlsafe_b64decode(parts[1] + b"=="))
    return float(claims.get("exp", 0))


log = logging.getLogger(__name__)

# The least time between two renewals: each may run a plugin, and a refused credential is refused
# by every request.
RENEWAL_SECONDS = 5.0


class RefreshableCredential(Protocol):
    """Our credential."""

    @property
    def expires_at(self) -> float:
        """Return when it ends, in seconds since 1970; 0 if nothing tells."""
        ...

    async def refresh(self, *, renew: bool = False) -> bool:
        """Take what is written now and tell whether it is new; OperatorError leaves the old one."""
        ...


class CredentialCounter(Protocol):
    """Learns what is in use, and what became of new contents."""

    def credential_expires(self, role: str, at: float) -> None:
        """Tell when the credential in use ends, in seconds since 1970."""
        ...

    def credential_read(self, role: str, *, used: bool) -> None:
        """Count a new credential, used or refused."""
        ...


class CredentialRefresher:
    """Refreshes a credential for as long as it runs; `role` says which of ours it is."""

    def __init__(
        self,
        role: str,
        credential: RefreshableCredential,
        *,
        every_seconds: float,
        when_changed: Callable[[], None],
        counter: CredentialCounter,
        tasks: TaskSet,
    ) -> None:
        self._role = role
        self._credential = credential
        self._counter = counter
        self._every_seconds = every_seconds
        self._when_changed = when_changed
        self._tasks = tasks
        self._is_refused = asyncio.Event()
        self.publish_expiry()

    def publish_expiry(self) -> None:
        """Tell when the credential ends that is in use now."""
        self._counter.credential_expires(self._role, self._credential.expires_at)

    def report_rejected(self) -> None:
        """Hear that an API server did not accept the credential: it is renewed soon."""
        self._is_refused.set()

    def health_error(self) -> str | None:
        """Tell what is wrong with the credential, for who asks whether we are ready."""
        return "the API server refuses it" if self._is_refused.is_set() else None

    async def run(self) -> None:
        """Look again and again."""
        while True:
            renew = await self._wait()
            if renew:
                log.warning("proxy credential rejected", extra=fields(identity=self._role))
            # A task of its own, so that not even a bug in one look ends the looking.
            await asyncio.wait([self._tasks.start(self._refresh(renew=renew))])
            if renew:
                await asyncio.sleep(RENEWAL_SECONDS)
                # What was refused meanwhile may have been refused with the old one.
                self._is_refused.clear()

    async def _wait(self) -> bool:
        """Wait for the next time to look; tell whether it came by a refusal."""
        try:
            async with asyncio.timeout(self._every_seconds):
                return await self._is_refused.wait()
        except TimeoutError:
            return False

    async def _refresh(self, *, renew: bool) -> None:
        try:
            is_new = await self._credential.refresh(renew=renew)
        except OperatorError as error:
            self._counter.credential_read(self._role, used=False)
            log.warning(
                "proxy credential not refreshed",
                extra=fields(identity=self._role, error=str(error)),
            )
            return
        if is_new:
            self._counter.credential_read(self._role, used=True)
            self.publish_expiry()
            log.info("proxy credential refreshed", extra=fields(identity=self._role))
            self._when_changed()
