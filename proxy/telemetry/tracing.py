"""Spans of our own: of each request, of its authentication, its decision and its way upstream.

Off unless a collector is configured: then nothing of this is imported, and the headers of a trace
pass as they came. On, we are part of the client's trace, and the API server's part of it is below
ours. Spans are made from the moments that the trail of a request notes anyway.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from proxy.core.errors import SetupError
from proxy.core.header_lines import Header

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_PARENT, _STATE = b"traceparent", b"tracestate"
_END = b"\r\n\r\n"
_LINE = b"\r\n"
_MILLION = 1_000_000
_NANOSECONDS = 1_000_000_000
_EXPORT_SECONDS = 2.0
# Requests under way at a time, at the very most: each of them ends, and then is forgotten.
_MOST_UNDER_WAY = 100_000

RequestId = tuple[bytes, int]
"""The audit id, which a client may have used twice, and what tells its requests apart."""


class RequestFacts(NamedTuple):
    """What a span tells of a request; durations are seconds since it came."""

    verb: str
    resource: str
    method: str
    status: int
    mode: str | None
    called_after: float | None
    decided_after: float | None
    took: float
    is_forwarded: bool


class _UnderWay(NamedTuple):
    span: "Span"
    context: "Context"
    began_at: int
    upstream: "list[Span]"


class TracingError(SetupError):
    """Spans are wanted and cannot be made."""


class Tracing:
    """The spans of all requests that are under way."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry import trace  # noqa: PLC0415 - only if spans are wanted
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415 - likewise

        self._provider = provider
        self._tracer = provider.get_tracer("understudy")
        self._propagator = tracecontext.TraceContextTextMapPropagator()
        self._in_span = trace.set_span_in_context
        self._kinds = trace.SpanKind
        self._under_way: dict[RequestId, _UnderWay] = {}

    def begin(self, request: RequestId, headers: Sequence[Header]) -> None:
        """Begin a request's span: below the client's, if it names one."""
        if len(self._under_way) >= _MOST_UNDER_WAY:
            return
        began_at = time.time_ns()
        span = self._tracer.start_span(
            "request",
            context=self._propagator.extract(_trace_headers(headers)),
            kind=self._kinds.SERVER,
            start_time=began_at,
        )
        self._under_way[request] = _UnderWay(span, self._in_span(span), began_at, [])

    def dress(self, request: RequestId, head: bytes) -> bytes:
        """Return the head of a request with our span in the place of the client's.

        It stands first: the end of a head says who is asking, and is checked after us.
        """
        known = self._under_way.get(request)
        if known is None:
            return head
        if not known.upstream:
            kind = self._kinds.CLIENT
            known.upstream.append(
                self._tracer.start_span("upstream", context=known.context, kind=kind)
            )
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._in_span(known.upstream[0]))
        first_line, *lines = head.removesuffix(_END).split(_LINE)
        kept = [line for line in lines if line.partition(b":")[0].lower() not in (_PARENT, _STATE)]
        ours = [f"{name}: {value}".encode("ascii", "ignore") for name, value in carrier.items()]
        return _LINE.join([first_line, *ours, *kept]) + _END

    def ended(self, request: RequestId, facts: RequestFacts) -> None:
        """End a request's spans, with what became of it."""
        known = self._under_way.pop(request, None)
        if known is None:
            return
        called, decided = facts.called_after, facts.decided_after
        if called is not None:
            self._add("authentication", known, 0.0, called)
            if decided is not None:
                self._add("decision", known, called, decided)
        end = _later(known, facts.took)
        for upstream in known.upstream:
            upstream.end(end)
        span = known.span
        span.update_name(f"{facts.verb} {facts.resource}".rstrip())
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
        """Send what is left, for a moment; blocks, so call it in a thread."""
        self._provider.shutdown()

    def _add(self, name: str, known: _UnderWay, start: float, end: float) -> None:
        span = self._tracer.start_span(name, known.context, start_time=_later(known, start))
        span.end(_later(known, end))


def _later(known: _UnderWay, seconds: float) -> int:
    return known.began_at + int(seconds * _NANOSECONDS)


def _trace_headers(headers: Sequence[Header]) -> dict[str, str]:
    """Return what names the client's trace; nothing if it names two, which is none."""
    parents = [value for name, value in headers if name.lower() == _PARENT]
    if len(parents) != 1:
        return {}
    states = [value for name, value in headers if name.lower() == _STATE]
    carrier = {"traceparent": parents[0].decode("latin-1")}
    return carrier | ({"tracestate": b",".join(states).decode("latin-1")} if states else {})


def start_tracing(endpoint: str, *, sampling_rate_per_million: int) -> Tracing:
    """Return what makes spans and sends them to a collector; call it in a thread."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - optional
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - optional
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - optional
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - optional
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415 - optional
    except ImportError as error:
        raise TracingError(
            "tracing.endpoint needs packages that are not installed: kube-understudy[otel]"
        ) from error
    # A collector that is gone must not keep us from going.
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_EXPORT_SECONDS)
    provider = TracerProvider(
        sampler=ParentBasedTraceIdRatio(sampling_rate_per_million / _MILLION),
        resource=Resource.create({"service.name": "understudy"}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider)
