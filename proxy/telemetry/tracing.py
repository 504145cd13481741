"""Spans of our own: of each request, of its authentication, its decision and its way upstream.

Off unless a collector is configured: then nothing of this is imported, and the headers of a trace
pass as they came. On, we are part of the client's trace, and the API server's part of it is below
ours. Spans are made from the moments that the trail of a request notes anyway.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from proxy.core.errors import OperatorError
from proxy.core.gocompat.quote import cut_text
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
# Requests under way at a time, at the very most: each of them ends, and then is forgotten.
_MOST_UNDER_WAY = 100_000
# Version 00 has 55 characters; a later one may add some. W3C asks for at least 512 of a state.
_LONGEST_PARENT = 128
_LONGEST_STATE = 1024
# A name is kept with each span. Names of resources are shorter; a path may say anything.
_LONGEST_NAME = 256

RequestId = tuple[bytes, int]
"""The audit id, which a client may have used twice, and what tells its requests apart."""


class RequestSpan(NamedTuple):
    """What a span tells of a request; durations are seconds since it came."""

    verb: str
    resource: str
    method: str
    status: int
    mode: str | None
    called_after: float | None
    decided_after: float | None
    duration_seconds: float
    is_forwarded: bool
    caller_groups: Sequence[str] = ()


@dataclass(slots=True)
class _UnderWay:
    began_at: int
    parent: "dict[str, str]"
    """The client's `traceparent` and `tracestate`; whether they count is known with the caller."""
    span: "Span | None" = None
    upstream: "Span | None" = None


class TracingError(OperatorError):
    """Spans are wanted and cannot be made."""


class Tracing:
    """The spans of all requests that are under way."""

    def __init__(
        self, provider: "TracerProvider", trusted_groups: frozenset[str] = frozenset()
    ) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - only if spans are wanted
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415 - likewise

        self._provider = provider
        self._trusted_groups = trusted_groups
        self._tracer = provider.get_tracer("understudy")
        self._propagator = tracecontext.TraceContextTextMapPropagator()
        self._in_span = trace.set_span_in_context
        self._kinds = trace.SpanKind
        self._under_way: dict[RequestId, _UnderWay] = {}

    def start_span(self, request: RequestId, headers: Sequence[Header]) -> None:
        """Note when a request began, and the trace that its client names.

        Nothing more: whether a span is made is not for a client to say that is not known yet.
        """
        if len(self._under_way) < _MOST_UNDER_WAY:
            self._under_way[request] = _UnderWay(time.time_ns(), _trace_headers(headers))

    def inject_headers(
        self, request: RequestId, head: bytes, caller_groups: Sequence[str]
    ) -> bytes:
        """Return the head of a request with our span in the place of the client's.

        It stands first: the end of a head says who is asking, and is checked after us.
        """
        known = self._under_way.get(request)
        if known is None:
            return head
        if known.upstream is None:
            context = self._in_span(self._span_of(known, caller_groups))
            known.upstream = self._tracer.start_span(
                "upstream", context=context, kind=self._kinds.CLIENT
            )
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._in_span(known.upstream))
        first_line, *lines = head.removesuffix(_END).split(_LINE)
        kept = [line for line in lines if line.partition(b":")[0].lower() not in (_PARENT, _STATE)]
        ours = [f"{name}: {value}".encode("ascii", "ignore") for name, value in carrier.items()]
        return _LINE.join([first_line, *ours, *kept]) + _END

    def ended(self, request: RequestId, facts: RequestSpan) -> None:
        """End a request's spans, with what became of it."""
        known = self._under_way.pop(request, None)
        if known is None:
            return
        span = self._span_of(known, facts.caller_groups)
        called, decided = facts.called_after, facts.decided_after
        if called is not None:
            self._add("authentication", known, 0.0, called)
            if decided is not None:
                self._add("decision", known, called, decided)
        end = _later(known, facts.duration_seconds)
        if known.upstream is not None:
            known.upstream.end(end)
        # The resource is a part of the path, so a client can make it as long as a head.
        span.update_name(cut_text(f"{facts.verb} {facts.resource}".rstrip(), longest=_LONGEST_NAME))
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

    def _span_of(self, known: _UnderWay, caller_groups: Sequence[str]) -> "Span":
        """Return a request's span: below the client's if its caller is trusted with that.

        A trace that is continued is sampled if its client says so, and each request of it is then
        four or five spans. As with kube-apiserver, others begin a trace of their own, by the rate.
        """
        if known.span is None:
            is_trusted = not self._trusted_groups.isdisjoint(caller_groups)
            known.span = self._tracer.start_span(
                "request",
                context=self._propagator.extract(known.parent if is_trusted else {}),
                kind=self._kinds.SERVER,
                start_time=known.began_at,
            )
        return known.span

    def _add(self, name: str, known: _UnderWay, start: float, end: float) -> None:
        context = None if known.span is None else self._in_span(known.span)
        span = self._tracer.start_span(name, context, start_time=_later(known, start))
        span.end(_later(known, end))


def _later(known: _UnderWay, seconds: float) -> int:
    return known.began_at + int(seconds * _NANOSECONDS)


def _trace_headers(headers: Sequence[Header]) -> dict[str, str]:
    """Return what names the client's trace; nothing if it names two, which is none.

    It is kept until the request ends, so it is bounded. A state that is too long is left out.
    """
    parents = [value for name, value in headers if name.lower() == _PARENT]
    if len(parents) != 1 or len(parents[0]) > _LONGEST_PARENT:
        return {}
    states = b",".join([value for name, value in headers if name.lower() == _STATE])
    carrier = {"traceparent": parents[0].decode("latin-1")}
    if states and len(states) <= _LONGEST_STATE:
        carrier["tracestate"] = states.decode("latin-1")
    return carrier


def start_tracing(
    endpoint: str, *, sampling_rate_per_million: int, trusted_groups: Sequence[str] = ()
) -> Tracing:
    """Return what makes spans and sends them to a collector; call it in a thread.

    The traces of callers of these groups are continued.
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
    # A collector that is gone must not keep us from going.
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
