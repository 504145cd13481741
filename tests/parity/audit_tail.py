"""Reading an audit log while it grows: one event for each request that we sent."""

import json
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

# An event of audit.k8s.io/v1 as JSON.
Event = dict[str, Any]

_PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.005
_LAST_STAGE = "ResponseComplete"
_ID = b'"auditID":"'


class AuditTail:
    """The end of one log file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._events: dict[str, Event] = {}

    def collect(self, audit_ids: Collection[str], prefix: str) -> dict[str, Event]:
        """Return the events of these requests, waiting a little for those not yet written.

        All ids begin with the prefix; events of other requests are skipped unread. Of several
        stages of a request the last one is kept, or the latest if that never comes.
        """
        self._events = {}
        deadline = time.monotonic() + _PATIENCE_SECONDS
        mark = _ID + prefix.encode()
        self._read(mark)
        while not self._events.keys() >= set(audit_ids) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            self._read(mark)
        return self._events

    def _read(self, mark: bytes) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        self._offset += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            if mark in line:
                self._keep(json.loads(line))

    def _keep(self, event: Event) -> None:
        audit_id = event["auditID"]
        known = self._events.get(audit_id)
        if known is None or known["stage"] != _LAST_STAGE:
            self._events[audit_id] = event
