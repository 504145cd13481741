"""The record of one request: collects facts while it is processed, and is written at its end.

Each request writes one line to the access log. `context.py` adds audit events.
"""

import os
import time
from collections.abc import Callable
from typing import ClassVar, Protocol

from proxy.core.audit.annotations import new_audit_id
from proxy.core.errors import RequestInfoError, StatusError
from proxy.core.http.headers import NO_HEADERS
from proxy.core.impersonation.permit import Permit
from proxy.core.request_cache import AccessLogTemplate, RequestCache
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller
from proxy.telemetry.logs import AccessLogger, members
from proxy.telemetry.tracing import RequestSpan, Tracing
from proxy.wire.exchange import ExchangeObserver, ExchangeOutcome, Peer
from proxy.wire.http1.message import SWITCHING_PROTOCOLS, RequestHead

access_log = AccessLogger("understudy.access", "request")

_ID_BYTES = 16
_IDS_PER_READ = 256
_NO_PERMIT = "none"
_UNREADABLE = "unreadable"
_MAX_NAME_BYTES = 256


RequestKey = tuple[str, int, bool, str | None, bool]
"""Verb, status, is long-running, mode (None: not impersonating), has a warning."""

_PLAIN_MEMBERS = (
    '"audit_id":"%s",%s,"code":%d,"bytes":%d,"complete":true,"seconds":%.6f,'
    '"authentication_seconds":%.6f,"decision_seconds":%.6f,"upstream_seconds":%.6f'
)


class RequestCounter(Protocol):
    """Counts requests when they have ended."""

    def request_ended(self, key: RequestKey, seconds: float) -> None:
        """Count a request and its duration."""
        ...

    def request_failed(self, error: StatusError) -> None:
        """Count a request that the proxy itself answered with an error."""
        ...


class RequestRecorder:
    """Starts a record for each request."""

    captures_bodies: ClassVar[bool] = False

    def __init__(
        self,
        wall_clock: Callable[[], int],
        *,
        clock: Callable[[], float] = time.monotonic,
        counter: RequestCounter | None = None,
    ) -> None:
        """`wall_clock` returns nanoseconds since 1970, used for timestamps.

        `clock` returns monotonic seconds, used for durations.
        """
        self.wall_clock = wall_clock
        self.clock = clock
        self.counter = counter
        # None if tracing is disabled.
        self.tracing: Tracing | None = None
        self._ids: list[bytes] = []

    def begin(self, request: RequestHead, peer: Peer, audit_id: bytes | None) -> "RequestRecord":
        """Start a record with the client's audit ID, or a new one."""
        return RequestRecord(self, request, peer, audit_id or (self._ids or self._new_ids()).pop())

    def _new_ids(self) -> list[bytes]:
        """Return unique audit IDs for this request and the next ones."""
        # One read of random bytes from the kernel for many IDs costs as much as for one.
        random = os.urandom(_ID_BYTES * _IDS_PER_READ)
        starts = range(0, len(random), _ID_BYTES)
        self._ids = [new_audit_id(random[start : start + _ID_BYTES]) for start in starts]
        return self._ids


class RequestRecord:
    """The facts known about one request so far."""

    __slots__ = (
        "_authenticated_after",
        "_caller",
        "_decided_after",
        "_error",
        "_opened_at",
        "_peer",
        "_permit",
        "_recorder",
        "_request",
        "_request_info",
        "audit_id",
    )

    def __init__(
        self, recorder: RequestRecorder, request: RequestHead, peer: Peer, audit_id: bytes
    ) -> None:
        self._recorder = recorder
        self._request = request
        self._peer = peer
        self._opened_at = recorder.clock()
        self._authenticated_after: float | None = None
        self._decided_after: float | None = None
        self._request_info: RequestInfo | None = None
        self._caller: Caller | None = None
        self._permit: Permit | None = None
        self._error: StatusError | None = None
        self.audit_id = audit_id
        if recorder.tracing is not None:
            recorder.tracing.start_span((audit_id, id(request)), request.headers)

    @property
    def observer(self) -> ExchangeObserver | None:
        """Return None: the access log needs only the outcome."""
        return None

    def set_request_info(self, request_info: RequestInfo) -> None:
        """Record the request info."""
        self._request_info = request_info

    def set_caller(self, caller: Caller) -> None:
        """Record the caller."""
        self._caller = caller
        self._authenticated_after = self._recorder.clock() - self._opened_at

    def add_reviews(self, count: int) -> None:
        """Record how many access reviews the decision needed, if any."""

    def set_permit(self, permit: Permit) -> None:
        """Record the permit, and so the user the request is forwarded as."""
        self._permit = permit
        self._decided_after = self._recorder.clock() - self._opened_at
        if self._request_info is not None and self._request_info.is_long_running:
            self._drop_headers()

    def set_cached_permit(self, request_info: RequestInfo, caller: Caller, permit: Permit) -> None:
        """Record request info, caller and permit at once."""
        self._request_info, self._caller, self._permit = request_info, caller, permit
        self._authenticated_after = self._decided_after = self._recorder.clock() - self._opened_at

    def set_error(self, error: StatusError) -> None:
        """Record why the request is rejected."""
        self._error = error
        if self._decided_after is None:
            self._decided_after = self._recorder.clock() - self._opened_at

    def finish(self, outcome: ExchangeOutcome) -> None:
        """Write the access log line, and count the request."""
        recorder = self._recorder
        self._log(outcome, recorder.wall_clock(), recorder.clock() - self._opened_at)

    def _drop_headers(self) -> None:
        """Release the headers, which may contain a token, for the duration of a watch.

        The access log line of a permitted request contains nothing from them.
        """
        if self._recorder.tracing is None:  # Tracing identifies a request by its head.
            self._request = self._request._replace(headers=NO_HEADERS)

    def _log(self, outcome: ExchangeOutcome, ended_at: int, took: float) -> None:
        recorder = self._recorder
        if recorder.counter is not None:
            self._count(recorder.counter, outcome, took)
        if recorder.tracing is not None:
            self._trace(recorder.tracing, outcome, took)
        if not self._log_from_template(outcome, ended_at, took) and access_log.is_enabled:
            access_log.write(ended_at, self._summary(outcome, took))

    def _log_from_template(self, outcome: ExchangeOutcome, ended_at: int, took: float) -> bool:
        """Log what `_summary` returns, faster; a test asserts that both are equal.

        Return False if this is not possible for this request.
        """
        called, decided = self._authenticated_after, self._decided_after
        cache = self._request.cache
        if called is None or decided is None or cache is None or cache.results is None:
            return False
        if self._error is not None or not outcome.is_complete:
            return False
        template = cache.access_log_template
        if template is None or template.permit is not self._permit:
            template = self._make_log_template(cache)
            if template is None:
                return False
        return access_log.write_json(
            ended_at,
            _PLAIN_MEMBERS
            % (
                self.audit_id.decode("ascii"),
                template.members,
                outcome.status,
                outcome.body_bytes,
                took,
                called,
                decided - called,
                took - decided,
            ),
        )

    def _make_log_template(self, cache: RequestCache) -> AccessLogTemplate | None:
        """Return the log line template of equal requests, and cache it for them."""
        if self._permit is None or b'"' in self.audit_id or b"\\" in self.audit_id:
            # A client's audit ID, which equal requests share. Generated ones never need quoting.
            return None
        template = AccessLogTemplate(self._permit, members(self._common_members()))
        cache.access_log_template = template
        return template

    def _trace(self, tracing: Tracing, outcome: ExchangeOutcome, took: float) -> None:
        request_info, permit = self._request_info, self._permit
        span = RequestSpan(
            verb=_UNREADABLE if request_info is None else request_info.verb,
            resource="" if request_info is None else request_info.resource,
            method=self._request.method.decode("ascii", "replace"),
            status=outcome.status,
            mode=_NO_PERMIT if permit is None else permit.mode,
            authenticated_after=self._authenticated_after,
            decided_after=self._decided_after,
            duration_seconds=took,
            is_forwarded=permit is not None,
            caller_groups=() if self._caller is None else self._caller.user.groups,
        )
        tracing.end_spans((self.audit_id, id(self._request)), span)

    def _count(self, counter: RequestCounter, outcome: ExchangeOutcome, took: float) -> None:
        request_info, permit, status = self._request_info, self._permit, outcome.status
        verb = _UNREADABLE if request_info is None else request_info.verb
        is_long = request_info is not None and request_info.is_long_running
        is_long = is_long or status == SWITCHING_PROTOCOLS
        mode = _NO_PERMIT if permit is None else permit.mode
        is_warned = permit is not None and permit.warning is not None
        counter.request_ended((verb, status, is_long, mode, is_warned), took)
        if self._error is not None:
            counter.request_failed(self._error)

    def _summary(self, outcome: ExchangeOutcome, took: float) -> dict[str, object]:
        permit = self._permit
        summary: dict[str, object] = {
            "audit_id": self.audit_id.decode("ascii"),
            **self._common_members(),
            "code": outcome.status,
            "bytes": outcome.body_bytes,
            "complete": outcome.is_complete,
            "seconds": round(took, 6),
        }
        called, decided = self._authenticated_after, self._decided_after
        if called is not None:
            summary["authentication_seconds"] = round(called, 6)
            if decided is not None:
                summary["decision_seconds"] = round(decided - called, 6)
                if permit is not None:
                    summary["upstream_seconds"] = round(took - decided, 6)
        if self._error is not None:
            self._add_error(summary, self._error)
        return summary

    def _common_members(self) -> dict[str, object]:
        request_info, permit = self._request_info, self._permit
        return {
            "source": self._peer.address,
            "caller": self._caller.user.name if self._caller else None,
            "impersonatedUser": permit.user.name if permit else None,
            "mode": permit.mode if permit else None,
            "verb": request_info.verb if request_info else self._request.method.decode("ascii"),
            "resource": request_info.resource if request_info else None,
        }

    def _add_error(self, summary: dict[str, object], error: StatusError) -> None:
        # kube-apiserver's message for a target it cannot parse quotes the target with its query,
        # which may contain a token.
        quotes_target = isinstance(error, RequestInfoError)
        summary["error"] = "unreadable request" if quotes_target else error.message
        if self._permit is None and self._caller is not None:
            for name, value in self._request.headers:
                if name.lower() == b"impersonate-user":
                    summary["requestedUser"] = value[:_MAX_NAME_BYTES].decode("utf-8", "replace")
