"""The audit policy in force, replaced while requests are served."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from proxy.audit.book import AuditBook
from proxy.core.audit_policy import AuditPolicy
from proxy.core.errors import SetupError
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)


class PolicyCounter(Protocol):
    """Counts policies that were read."""

    def audit_policy_read(self, *, used: bool) -> None:
        """Count a policy file that was read again, used or refused."""
        ...


class PolicyKeeper:
    """Reads the policy file again when it is told to."""

    def __init__(
        self,
        book: AuditBook,
        load: Callable[[Path | None], AuditPolicy],
        counter: PolicyCounter,
    ) -> None:
        self._book = book
        self._load = load
        self._counter = counter

    async def look(self, file: Path | None) -> None:
        """Record by this file's policy from the next request on, or by the old one if it is bad.

        A request whose caller is known is recorded to its end as it was begun.
        """
        try:
            policy = await asyncio.to_thread(self._load, file)
        except SetupError as error:
            self._counter.audit_policy_read(used=False)
            log.error("audit policy not reloaded", extra=fields(problems=error.lines))  # noqa: TRY400 - the problems say it all
            return
        self._book.policy = policy
        self._counter.audit_policy_read(used=True)
        log.info("audit policy reloaded")
