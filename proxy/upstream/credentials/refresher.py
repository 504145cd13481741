"""Refresh of the proxy's credential: periodically, and when an API server rejects it."""

import base64
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from cryptography import x509

from proxy.concurrency.refresh_loop import Delay, RefreshLoop
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError
from proxy.telemetry.logs import fields

_JWT_PARTS = 3


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


log = logging.getLogger(__name__)

# The minimum interval between two renewals. Each may run a plugin, and with a rejected credential
# every request reports a rejection.
MIN_RENEWAL_INTERVAL_SECONDS = 5.0


class RefreshableCredential(Protocol):
    """A credential that can be refreshed."""

    @property
    def expires_at(self) -> float:
        """Return the expiry as a Unix time; 0 if unknown."""
        ...

    async def refresh(self, *, renew: bool = False) -> bool:
        """Read the credential and return whether it is new; OperatorError leaves the old one."""
        ...


class CredentialCounter(Protocol):
    """Records the expiry in use, and the results of refreshing."""

    def credential_expires(self, role: str, at: float) -> None:
        """Record the expiry of the credential in use, as a Unix time."""
        ...

    def credential_read(self, role: str, *, used: bool) -> None:
        """Count a new credential that was used, or an unusable one."""
        ...


class CredentialRefresher:
    """Refreshes the credential of one role until cancelled."""

    def __init__(
        self,
        role: str,
        credential: RefreshableCredential,
        *,
        every_seconds: float,
        counter: CredentialCounter,
        tasks: TaskSet,
    ) -> None:
        self._role = role
        self._credential = credential
        self._counter = counter
        self._every_seconds = every_seconds
        # Called after each new credential.
        self.when_changed: Callable[[], None] = lambda: None
        self._pause_seconds = 0.0
        # Rejections reported during a renewal or shortly after may concern the old credential.
        self._loop = RefreshLoop(
            partial(self._refresh, renew=False),
            delay=lambda: Delay(self._every_seconds, self._pause_seconds),
            tasks=tasks,
            when_triggered=self._renew,
            keeps_late_triggers=False,
        )
        self.publish_expiry()

    def publish_expiry(self) -> None:
        """Record the expiry of the credential in use."""
        self._counter.credential_expires(self._role, self._credential.expires_at)

    def report_rejected(self) -> None:
        """Renew the credential soon, because an API server rejected it."""
        self._loop.trigger()

    def health_error(self) -> str | None:
        """Return what is wrong with the credential, for the readiness check; else None."""
        return "rejected by the API server" if self._loop.is_triggered else None

    async def run(self) -> None:
        """Refresh until cancelled."""
        await self._loop.run()

    async def _renew(self) -> None:
        log.warning("proxy credential rejected", extra=fields(identity=self._role))
        await self._refresh(renew=True)

    async def _refresh(self, *, renew: bool) -> None:
        self._pause_seconds = MIN_RENEWAL_INTERVAL_SECONDS if renew else 0.0
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
            self.when_changed()
