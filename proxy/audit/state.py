"""The audit book: where events go, how much is written, and what many events have in common."""

from collections.abc import Callable
from typing import Protocol

from proxy.core.audit.fragments import EventFragmentCache
from proxy.core.audit.limits import EventLimits
from proxy.core.audit.policy import AuditPolicy


class AuditSink(Protocol):
    """Takes audit events."""

    def write(self, line: bytes) -> None:
        """Take one event as a line; returns at once."""
        ...


class AuditState:
    """What all audited trails share. The policy may be replaced at any time."""

    def __init__(
        self,
        sink: AuditSink,
        policy: AuditPolicy,
        *,
        body_bytes: int,
        clock: Callable[[], float],
        when_truncated: Callable[[], None] = lambda: None,
    ) -> None:
        """`clock` tells seconds from anywhere, for how long things take.

        `when_truncated` is called for each event that holds a value only in part.
        """
        self.sink = sink
        self.clock = clock
        self.policy = policy
        self.body_bytes = body_bytes
        self.when_truncated = when_truncated
        self.fragments = EventFragmentCache()

    def limit(self, limits: EventLimits) -> None:
        """Hold the events of requests that come from now on to these limits."""
        if limits != self.fragments.limits:
            self.fragments = EventFragmentCache(limits)
