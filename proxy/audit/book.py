"""The audit book: where events go, how much is written, and what many events have in common."""

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

    def __init__(self, sink: AuditSink, policy: AuditPolicy, *, body_bytes: int) -> None:
        self.sink = sink
        self.policy = policy
        self.body_bytes = body_bytes
        self.pieces = AuditPieces()
