"""Spans of each request: its authentication, its impersonation decision and its upstream exchange.

Off unless a collector is configured. When off, no tracing package is imported and trace headers
are forwarded unchanged. When on, the proxy's spans are part of the client's trace, and the API
server's spans are children of them. Spans use the timestamps of the request record.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from proxy.core.errors import OperatorError
from proxy.core.gocompat.quote import truncate_text
from proxy.core.http.headers import Header

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span


_PARENT, _STATE = b"traceparent", b"tracestate"
_END = b"\r\n\r\n"
_LINE = b"\r\n"
_MILLION = 1_000_000
_NANOSECONDS = 1_000_000_000
_EXPORT_SECONDS = 2.0
# Limit of concurrent requests with a span: an entry is removed when its request ends.
_MAX_IN_FLIGHT = 100_000
# Version 00 has 55 characters; later versions may add some. W3C requires at least 512 for a state.
_MAX_PARENT_BYTES = 128
_MAX_STATE_BYTES = 1024
# A name is kept with each span. Names of resources are shorter; a path may contain anything.
_MAX_NAME_LENGTH = 256

RequestId = tuple[bytes, int]
"""The audit id, which a client may use twice, and a number that distinguishes such requests."""


class RequestSpan(NamedTuple):
    """The attributes of a request's span; durations are seconds since the request arrived."""

    verb: str
    resource: str
    method: str
    status: int
    mode: str | None
    authenticated_after: float | None
    decided_after: float | None
    duration_seconds: float
    is_forwarded: bool
    caller_groups: Sequence[str] = ()


@dataclass(slots=True)
class _PendingRequest:
    began_at: int
    parent: "dict[str, str]"
    """The client's `traceparent` and `tracestate`; the caller decides whether they are used."""
    span: "Span | None" = None
    upstream: "Span | None" = None


class TracingError(OperatorError):
    """Tracing is configured but cannot be started."""


class Tracing:
    """The spans of all requests in flight."""

    def __init__(
        self, provider: "TracerProvider", trusted_groups: frozenset[str] = frozenset()
    ) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - only with tracing on
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415 - likewise

        self._provider = provider
        self._trusted_groups = trusted_groups
        self._tracer = provider.get_tracer("understudy")
        self._propagator = tracecontext.TraceContextTextMapPropagator()
        self._in_span = trace.set_span_in_context
        self._kinds = trace.SpanKind
        self._pending: dict[RequestId, _PendingRequest] = {}

    def start_span(self, request: RequestId, headers: Sequence[Header]) -> None:
        """Record when a request began, and the trace that its client names.

        No span is created yet: an unauthenticated client must not decide about sampling.
        """
        if len(self._pending) < _MAX_IN_FLIGHT:
            self._pending[request] = _PendingRequest(time.time_ns(), _trace_headers(headers))

    def inject_headers(
        self, request: RequestId, head: bytes, caller_groups: Sequence[str]
    ) -> bytes:
        """Return the head of a request with the proxy's span in place of the client's.

        The trace headers come first: the end of a head holds the impersonated user, and is checked
        after this call.
        """
        pending = self._pending.get(request)
        if pending is None:
            return head
        if pending.upstream is None:
            context = self._in_span(self._span_of(pending, caller_groups))
            pending.upstream = self._tracer.start_span(
                "upstream", context=context, kind=self._kinds.CLIENT
            )
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._in_span(pending.upstream))
        first_line, *lines = head.removesuffix(_END).split(_LINE)
        kept = [line for line in lines if line.partition(b":")[0].lower() not in (_PARENT, _STATE)]
        own = [f"{name}: {value}".encode("ascii", "ignore") for name, value in carrier.items()]
        return _LINE.join([first_line, *own, *kept]) + _END

    def end_spans(self, request: RequestId, facts: RequestSpan) -> None:
        """End a request's spans with its outcome."""
        pending = self._pending.pop(request, None)
        if pending is None:
            return
        span = self._span_of(pending, facts.caller_groups)
        called, decided = facts.authenticated_after, facts.decided_after
        if called is not None:
            self._add("authentication", pending, 0.0, called)
            if decided is not None:
                self._add("decision", pending, called, decided)
        end = _timestamp(pending, facts.duration_seconds)
        if pending.upstream is not None:
            pending.upstream.end(end)
        # The resource is a part of the path, so a client can make it as long as a request head.
        span.update_name(
            truncate_text(f"{facts.verb} {facts.resource}".rstrip(), max_length=_MAX_NAME_LENGTH)
        )
        span.set_attributes(
            {
                "http.request.method": facts.method,
                "http.response.status_code": facts.status,
                "understudy.audit_id": request[0].decode("ascii", "replace"),
                "understudy.mode": facts.mode or "self",
                "understudy.forwarded": facts.is_forwarded,
            }
        )
        span.end(end)

    def stop(self) -> None:
        """Export the remaining spans within a timeout; blocks, so call it in a thread."""
        self._provider.shutdown()

    def _span_of(self, pending: _PendingRequest, caller_groups: Sequence[str]) -> "Span":
        """Return a request's span: a child of the client's span if the caller is trusted.

        The client decides whether a continued trace is sampled, and each of its requests then has
        four or five spans. As with kube-apiserver, other callers start a new trace, sampled by the
        rate.
        """
        if pending.span is None:
            is_trusted = not self._trusted_groups.isdisjoint(caller_groups)
            pending.span = self._tracer.start_span(
                "request",
                context=self._propagator.extract(pending.parent if is_trusted else {}),
                kind=self._kinds.SERVER,
                start_time=pending.began_at,
            )
        return pending.span

    def _add(self, name: str, pending: _PendingRequest, start: float, end: float) -> None:
        context = None if pending.span is None else self._in_span(pending.span)
        span = self._tracer.start_span(name, context, start_time=_timestamp(pending, start))
        span.end(_timestamp(pending, end))


def _timestamp(pending: _PendingRequest, seconds: float) -> int:
    return pending.began_at + int(seconds * _NANOSECONDS)


def _trace_headers(headers: Sequence[Header]) -> dict[str, str]:
    """Return the headers of the client's trace; none if there are two parents.

    They are kept until the request ends, so they are bounded. A state that is too long is dropped.
    """
    parents = [value for name, value in headers if name.lower() == _PARENT]
    if len(parents) != 1 or len(parents[0]) > _MAX_PARENT_BYTES:
        return {}
    states = b",".join([value for name, value in headers if name.lower() == _STATE])
    carrier = {"traceparent": parents[0].decode("latin-1")}
    if states and len(states) <= _MAX_STATE_BYTES:
        carrier["tracestate"] = states.decode("latin-1")
    return carrier


def start_tracing(
    endpoint: str, *, sampling_rate_per_million: int, trusted_groups: Sequence[str] = ()
) -> Tracing:
    """Return a tracer that exports spans to a collector; blocks, so call it in a thread.

    Traces of callers in `trusted_groups` are continued.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - optional
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - optional
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - optional
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - optional
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415 - optional

        from proxy.telemetry.otlp_session import CollectorSession  # noqa: PLC0415 - optional
    except ImportError as error:
        raise TracingError(
            "tracing.endpoint needs packages that are not installed: kube-understudy[otel]"
        ) from error
    # An unreachable collector must not delay the shutdown of the proxy.
    exporter = OTLPSpanExporter(
        endpoint=endpoint, timeout=_EXPORT_SECONDS, session=CollectorSession()
    )
    provider = TracerProvider(
        sampler=ParentBasedTraceIdRatio(sampling_rate_per_million / _MILLION),
        resource=Resource.create({"service.name": "understudy"}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider, frozenset(trusted_groups))
