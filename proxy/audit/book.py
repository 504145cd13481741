"""The audit book: where events go, how much is written, and what many events have in common."""

from collections.abc import Callable
from typing import Protocol

from proxy.core.audit_pieces import AuditPieces
from proxy.core.audit_policy import AuditPolicy


class AuditSink(Protocol):
    """Takes audit events."""

    def write(self, line: bytes) -> None:
        """Take one event as a line; returns at once."""
        ...


class AuditBook:
    """What all audited trails share. The policy may be replaced at any time."""

    def __init__(
        self,
        sink: AuditSink,
        policy: AuditPolicy,
        *,
        body_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        """`clock` tells seconds from anywhere, for how long things take."""
        self.sink = sink
        self.clock = clock
        self.policy = policy
        self.body_bytes = body_bytes
        self.pieces = AuditPieces()
