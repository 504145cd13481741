"""Opens the trails that leave audit events."""

from collections.abc import Callable

from proxy.audit.audited_trail import AuditedTrail
from proxy.audit.book import AuditBook
from proxy.audit.recorder import Recorder, RequestCounter, Trail
from proxy.wire.head import RequestHead
from proxy.wire.peer import Peer


class AuditRecorder(Recorder):
    """Opens a trail that leaves audit events for each request."""

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
        return AuditedTrail(self, self._book, request, peer, audit_id or self.new_id())
