"""Opens the trails that leave audit events."""

from collections.abc import Callable
from typing import ClassVar

from proxy.audit.context import AuditedTrail
from proxy.audit.request_record import Recorder, RequestCounter, Trail
from proxy.audit.state import AuditBook
from proxy.wire.exchange import Peer
from proxy.wire.http1.message import RequestHead


class AuditRecorder(Recorder):
    """Opens a trail that leaves audit events for each request."""

    observes: ClassVar[bool] = True

    def __init__(
        self,
        wall_clock: Callable[[], int],
        book: AuditBook,
        *,
        counter: RequestCounter | None = None,
    ) -> None:
        super().__init__(wall_clock, clock=book.clock, counter=counter)
        self._book = book

    def open(self, request: RequestHead, peer: Peer, audit_id: bytes | None) -> Trail:
        """Start a trail under the client's id or a new one."""
        audit_id = audit_id or (self._ids or self._new_ids()).pop()
        return AuditedTrail(self, self._book, request, peer, audit_id)
