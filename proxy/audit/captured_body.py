"""Captured request and response bodies: copied up to a size limit while they are relayed.

Capturing never delays the relay.
"""

from collections.abc import Sequence

from proxy.core.audit.objects import (
    JSONBody,
    MediaType,
    has_request_object,
    may_be_status,
    media_type,
    read_body,
)
from proxy.core.audit.policy import RequestAuditConfig
from proxy.core.errors import StatusError
from proxy.core.http.headers import Header
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.wire.exchange import RequestBodyHandler
from proxy.wire.http1.message import RequestHead

_OBJECT_NAMING_METHODS = frozenset((b"POST", b"PUT"))


class CapturedBody:
    """The chunks of one body. All of them are dropped as soon as the body exceeds the limit."""

    __slots__ = ("_chunks", "_limit", "_size", "media")

    def __init__(self, media: MediaType, *, limit: int) -> None:
        self.media = media
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0

    @property
    def is_empty(self) -> bool:
        """Return whether there was no body at all."""
        return self._size == 0

    @property
    def is_too_long(self) -> bool:
        """Return whether the body is larger than the limit."""
        return self._size > self._limit

    @property
    def omission_reason(self) -> str:
        """Return why the body cannot be recorded; empty if nothing is missing."""
        if not self.media.is_json:
            return str(self.media) if self.media.is_other_object else ""
        if self.is_too_long:
            return f"longer than {self._limit} bytes"
        return "" if self.is_empty else "not JSON"

    def add(self, payload: bytes) -> None:
        """Add the next chunk."""
        self._size += len(payload)
        if self._size <= self._limit:
            self._chunks.append(payload)
        else:
            self._chunks.clear()

    def read(self) -> JSONBody | None:
        """Return the parsed body if it is complete and can be recorded, else None."""
        if self.is_empty or self.is_too_long:
            return None
        return read_body(b"".join(self._chunks), self.media, limit=self._limit)


def capture_request_body(
    audit_config: RequestAuditConfig, request: RequestHead, request_info: RequestInfo, *, limit: int
) -> CapturedBody | None:
    """Return a capture for a request body that is to be recorded or that names the object."""
    is_wanted = audit_config.has_request_body or request.method in _OBJECT_NAMING_METHODS
    if not is_wanted or not has_request_object(request_info):
        return None
    return CapturedBody(media_type(request.headers), limit=limit)


def capture_response_body(
    headers: Sequence[Header], payload: bytes, *, is_whole: bool, limit: int
) -> CapturedBody | None:
    """Return a capture that holds the first chunk of a response body, or None.

    With `is_whole` any object is captured, else only what may be a Status.
    """
    media = media_type(headers)
    if not is_whole and not (media.is_json and (not payload or may_be_status(payload))):
        return None
    captured = CapturedBody(media, limit=limit)
    if media.is_json:
        captured.add(payload)
    return captured


class CapturingReceiver:
    """Forwards every call to the receiver, and copies the body into a capture."""

    __slots__ = ("_captured", "_receiver")

    def __init__(self, receiver: RequestBodyHandler, captured: CapturedBody) -> None:
        self._receiver = receiver
        self._captured = captured

    def request_data(self, payload: bytes) -> None:
        """Forward a chunk, then capture it."""
        self._receiver.request_data(payload)
        self._captured.add(payload)

    def request_ended(self) -> None:
        """Forward the call."""
        self._receiver.request_ended()

    def request_failed(self, error: StatusError) -> None:
        """Forward the call."""
        self._receiver.request_failed(error)

    def finish_early(self) -> bool:
        """Forward the call."""
        return self._receiver.finish_early()

    def client_disconnected(self) -> None:
        """Forward the call."""
        self._receiver.client_disconnected()

    def pause_response(self) -> None:
        """Forward the call."""
        self._receiver.pause_response()

    def resume_response(self) -> None:
        """Forward the call."""
        self._receiver.resume_response()
