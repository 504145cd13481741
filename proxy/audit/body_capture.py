"""Hearing bodies as they pass, up to a limit, without holding them up."""

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

_NAMING = frozenset((b"POST", b"PUT"))


class CapturedBody:
    """Keeps the pieces of a body until there are too many; then it keeps none of them."""

    __slots__ = ("_limit", "_pieces", "_size", "media")

    def __init__(self, media: MediaType, *, limit: int) -> None:
        self.media = media
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether there was no body at all."""
        return self._size == 0

    @property
    def is_too_long(self) -> bool:
        """Tell whether more came than is kept."""
        return self._size > self._limit

    @property
    def omission_reason(self) -> str:
        """Say why nothing can be read; empty if nothing is missed."""
        if not self.media.is_json:
            return str(self.media) if self.media.is_other_object else ""
        if self.is_too_long:
            return f"longer than {self._limit} bytes"
        return "" if self.is_empty else "not JSON"

    def add(self, payload: bytes) -> None:
        """Hear the next piece."""
        self._size += len(payload)
        if self._size <= self._limit:
            self._pieces.append(payload)
        else:
            self._pieces.clear()

    def read(self) -> JSONBody | None:
        """Return what was heard, if it is whole and can be recorded."""
        if self.is_empty or self.is_too_long:
            return None
        return read_body(b"".join(self._pieces), self.media, limit=self._limit)


def capture_request_body(
    audit_config: RequestAuditConfig, request: RequestHead, request_info: RequestInfo, *, limit: int
) -> CapturedBody | None:
    """Return what hears a request's body if that is to be recorded, or names the object."""
    is_wanted = audit_config.has_request_body or request.method in _NAMING
    if not is_wanted or not has_request_object(request_info):
        return None
    return CapturedBody(request.headers.memoize(media_type), limit=limit)


def capture_response_body(
    headers: Sequence[Header], payload: bytes, *, is_whole: bool, limit: int
) -> CapturedBody | None:
    """Return what hears an answer, its first piece heard: any object, or only a Status."""
    media = media_type(headers)
    if not is_whole and not (media.is_json and (not payload or may_be_status(payload))):
        return None
    heard = CapturedBody(media, limit=limit)
    if media.is_json:
        heard.add(payload)
    return heard


class CapturingReceiver:
    """Passes everything on to the receiver, and the body to the listener as well."""

    __slots__ = ("_heard", "_receiver")

    def __init__(self, receiver: RequestBodyHandler, heard: CapturedBody) -> None:
        self._receiver = receiver
        self._heard = heard

    def request_data(self, payload: bytes) -> None:
        """Pass a piece on; it is heard only after that."""
        self._receiver.request_data(payload)
        self._heard.add(payload)

    def request_ended(self) -> None:
        """Pass it on."""
        self._receiver.request_ended()

    def request_failed(self, error: StatusError) -> None:
        """Pass it on."""
        self._receiver.request_failed(error)

    def finish_early(self) -> bool:
        """Pass it on."""
        return self._receiver.finish_early()

    def client_disconnected(self) -> None:
        """Pass it on."""
        self._receiver.client_disconnected()

    def pause_response(self) -> None:
        """Pass it on."""
        self._receiver.pause_response()

    def resume_response(self) -> None:
        """Pass it on."""
        self._receiver.resume_response()
