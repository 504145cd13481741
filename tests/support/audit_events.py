"""Audit events of two servers made comparable: what must differ is masked, all else must not.

What must differ: times, what the API server makes up for each object, annotations of authorizers
(only the server that decides has them), and annotations of our own.
"""

import json
import time
from pathlib import Path
from typing import Any

Event = dict[str, Any]

_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.02
_TIMES = ("requestReceivedTimestamp", "stageTimestamp")
# Made up by the API server for each object, each time it is stored, or each list.
_MADE_UP = frozenset(
    (
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "time",
        "deletionTimestamp",
        "continue",
        "serverAddress",
    )
)
_ONE_SIDED = ("authorization.k8s.io/", "kube-understudy.io/", "apiserver.latency.k8s.io/")


def events_of(log: Path, audit_id: str, *, count: int) -> list[Event]:
    """Return the events of a request in the order they were written, waiting for so many."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while len(found := _written(log, audit_id)) < count and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return found


def _written(log: Path, audit_id: str) -> list[Event]:
    mark = f'"auditID":"{audit_id}"'.encode()
    lines = log.read_bytes().rpartition(b"\n")[0].split(b"\n") if log.exists() else []
    return [json.loads(line) for line in lines if mark in line]


def masked(event: Event) -> Event:
    """Return an event without what must differ; the order of its fields is kept."""
    kept = {name: _mask(value) for name, value in event.items()}
    body = kept.get("requestObject")
    if isinstance(body, dict) and body.get("kind") == "DeleteOptions":
        # Natively in the words of its insides (meta.k8s.io/__internal); ours is the client's.
        body["apiVersion"] = "masked"
    for name in _TIMES:
        kept[name] = "masked"
    annotations = {
        name: value
        for name, value in event.get("annotations", {}).items()
        if not name.startswith(_ONE_SIDED)
    }
    kept.pop("annotations", None)
    return {**kept, "annotations": annotations} if annotations else kept


def _mask(value: Any) -> Any:
    if isinstance(value, list):
        return [_mask(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: "masked" if name in _MADE_UP else _mask(member) for name, member in value.items()}


def ordered(event: Event) -> str:
    """Return an event as text in which the order of fields counts, but not that inside bodies."""
    kept = {
        name: "..." if name in ("requestObject", "responseObject") else value
        for name, value in event.items()
    }
    return json.dumps(kept)
