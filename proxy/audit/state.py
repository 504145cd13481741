"""State shared by all audit contexts: the event sink, the policy, limits and cached fragments."""

from collections.abc import Callable
from typing import Protocol

from proxy.core.audit.fragments import EventFragmentCache
from proxy.core.audit.limits import EventLimits
from proxy.core.audit.policy import AuditPolicy


class AuditSink(Protocol):
    """Accepts audit events: the buffer of one backend, the union of two, or `NullSink`."""

    def write(self, line: bytes) -> None:
        """Accept one event as a line; never blocks."""
        ...


class NullSink:
    """Discards events: nothing is audited, or auditing was switched off meanwhile."""

    def write(self, line: bytes) -> None:
        """Discard an event."""


class AuditState:
    """The state that all audit contexts share. The policy may be replaced at any time."""

    def __init__(
        self,
        sink: AuditSink,
        policy: AuditPolicy,
        *,
        body_bytes: int,
        when_truncated: Callable[[], None] = lambda: None,
    ) -> None:
        """`when_truncated` is called for each event that contains a truncated value."""
        self.sink = sink
        self.policy = policy
        self.body_bytes = body_bytes
        self.when_truncated = when_truncated
        self.fragments = EventFragmentCache()

    def set_limits(self, limits: EventLimits) -> None:
        """Apply these limits to the events of all later requests."""
        if limits != self.fragments.limits:
            self.fragments = EventFragmentCache(limits)
