"""One audit event out of a file or a log."""

import json
from pathlib import Path
from typing import Any

from proxy.cli.audit_logs import LogError, open_log, read_lines

_STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")


def read_event(file: Path) -> dict[str, Any]:
    """Return the one event of a file: alone, the last of a list, or the last line of a log."""
    with open_log(file) as opened:
        content = b"".join(read_lines(opened, file)).strip()
    event = _parsed(content)
    if event is None:
        event = _parsed(content.rpartition(b"\n")[2])
    if event is not None and event.get("kind") == "EventList":
        items = event.get("items") or [None]
        event = items[-1]
    if not isinstance(event, dict):
        raise LogError(f"{file} holds no audit event")
    return event


def find_event(audit_id: str, logs: list[Path]) -> dict[str, Any]:
    """Return the last event of a request, reading the logs once, line by line."""
    found: dict[str, Any] | None = None
    wanted = json.dumps(audit_id).encode()
    for log in logs:
        with open_log(log) as opened:
            for line in read_lines(opened, log):
                # Most lines are of other requests, and need not be parsed for that.
                if wanted not in line:
                    continue
                event = _parsed(line)
                if event is not None and event.get("auditID") == audit_id:
                    found = _later(found, event)
    if found is None:
        places = ", ".join(str(log) for log in logs)
        raise LogError(f"no event in {places} has the id {audit_id}")
    return found


def _later(known: dict[str, Any] | None, event: dict[str, Any]) -> dict[str, Any]:
    """Return the event that knows more; of two requests with one id, the one read last."""
    return event if known is None or _stage(event) >= _stage(known) else known


def _stage(event: dict[str, Any]) -> int:
    stage = event.get("stage")
    return _STAGES.index(stage) if stage in _STAGES else -1


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
