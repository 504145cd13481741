"""Recorder that starts a request record with audit events for each request."""

from collections.abc import Callable
from typing import ClassVar

from proxy.audit.context import AuditContext
from proxy.audit.request_record import RequestCounter, RequestRecord, RequestRecorder
from proxy.audit.state import AuditState
from proxy.wire.exchange import Peer
from proxy.wire.http1.message import RequestHead


class AuditRecorder(RequestRecorder):
    """Starts a request record that writes audit events for each request."""

    captures_bodies: ClassVar[bool] = True

    def __init__(
        self,
        wall_clock: Callable[[], int],
        state: AuditState,
        *,
        counter: RequestCounter | None = None,
    ) -> None:
        super().__init__(wall_clock, clock=state.clock, counter=counter)
        self._state = state

    def begin(self, request: RequestHead, peer: Peer, audit_id: bytes | None) -> RequestRecord:
        """Start a record with the client's audit ID, or a new one."""
        audit_id = audit_id or (self._ids or self._new_ids()).pop()
        return AuditContext(self, self._state, request, peer, audit_id)
