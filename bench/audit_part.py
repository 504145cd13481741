"""The cost of the Python part of an audit event, in this process: no sockets, no children.

Recorders with and without events alternate, so that both run under the same conditions.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from proxy.audit.context import RequestRecorder
from proxy.audit.request_record import RequestTelemetry
from proxy.audit.state import AuditState
from proxy.core.audit.policy import AuditPolicy, Level, PolicyRule
from proxy.core.http.headers import HeaderList
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import Allowed
from proxy.core.impersonation.modes import impersonated_user
from proxy.core.impersonation.permit import Permit, permit_impersonation
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import Caller, UserInfo
from proxy.settings.audit_policy import load_audit_policy
from proxy.telemetry.metrics.requests import RequestMetrics
from proxy.wire.exchange import ExchangeOutcome, Peer
from proxy.wire.http1.body import NO_BODY
from proxy.wire.http1.message import RequestHead

_TARGET = b"/api/v1/namespaces/default/pods/hello"
_HEADERS = HeaderList(
    (
        (b"Host", b"127.0.0.1"),
        (b"User-Agent", b"kubectl/v1.37.1 (linux/amd64) kubernetes/0000000"),
        (b"Accept", b"application/json"),
        (b"Authorization", b"Bearer " + b"x" * 900),
        (b"Impersonate-User", b"alice"),
        (b"Accept-Encoding", b"gzip"),
    )
)
_RESPONSE_HEADERS = [(b"Content-Type", b"application/json"), (b"Content-Length", b"2048")]
_CALLER = Caller(
    UserInfo("system:serviceaccount:default:bob", "uid", ("system:serviceaccounts", "dev"))
)
_PEER = Peer("10.1.2.3")
_OUTCOME = ExchangeOutcome(200, 2048, is_complete=True)
_BATCH = 500


@dataclass(frozen=True, slots=True)
class PartCost:
    """The CPU time in microseconds that events add to a request: the median of all batches."""

    one_event: float
    two_events: float


class _DiscardSink:
    def write(self, line: bytes) -> None:
        """Discard a line."""


def measure_part(*, batches: int) -> PartCost:
    """Return the cost that one event adds to a request, and that of two stages."""
    both_stages = AuditPolicy([PolicyRule(Level.METADATA)])
    telemetry = RequestTelemetry(RequestMetrics(CollectorRegistry()), time.time_ns)
    states = [
        None,
        *(
            AuditState(_DiscardSink(), policy, body_bytes=1)
            for policy in (load_audit_policy(None), both_stages)
        ),
    ]
    recorders = [RequestRecorder(telemetry, state) for state in states]
    serve = [_server(recorder) for recorder in recorders]
    turns = [[_microseconds(each) for each in serve] for _ in range(batches)]
    return PartCost(
        statistics.median(one - without for without, one, _ in turns),
        statistics.median(two - without for without, _, two in turns),
    )


def _microseconds(serve: Callable[[], None]) -> float:
    gc.collect()
    started = time.process_time()
    for _ in range(_BATCH):
        serve()
    return (time.process_time() - started) / _BATCH * 1e6


def _server(recorder: RequestRecorder) -> Callable[[], None]:
    """Return a function that records one request, as the pipeline does."""
    permit = _permit()

    def serve() -> None:
        request = RequestHead(b"GET", _TARGET, 1, _HEADERS, NO_BODY, keep_alive=True)
        record = recorder.begin(request, _PEER, None)
        record.set_request_info(parse_request_info(request.method, request.target))
        record.set_caller(_CALLER)
        record.set_permit(permit)
        if record.observer is not None:
            record.observer.response_started(_OUTCOME.status, _RESPONSE_HEADERS, b"{}")
        record.finish(_OUTCOME)

    return serve


def _permit() -> Permit:
    request_info = parse_request_info(b"GET", _TARGET)
    attempts = plan_attempts(
        _CALLER, UserInfo("alice"), request_info, rules=ImpersonationRules(), preferred_mode=None
    )
    attempt = next(iter(attempts))
    return permit_impersonation(
        _CALLER, Allowed(attempt, impersonated_user(attempt.mode, attempt.wanted_user))
    )
