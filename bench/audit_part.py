"""What the Python part of an audit event costs, in this process: no sockets, no other processes.

A trail with events and one without take turns, so that both meet the same machine.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from proxy.audit.recorder import AuditRecorder
from proxy.audit.request_record import Recorder
from proxy.audit.state import AuditBook
from proxy.core.audit.policy import AuditPolicy, Level, PolicyRule
from proxy.core.http.headers import HeaderLines
from proxy.core.impersonation.checks import DecisionRules, plan_attempts
from proxy.core.impersonation.evaluation import Allowed
from proxy.core.impersonation.modes import acting_identity
from proxy.core.impersonation.permit import Admission, admit_as
from proxy.core.requestinfo.request_info import parse_action
from proxy.core.userinfo import Caller, Identity
from proxy.settings.audit_policy import load_audit_policy
from proxy.wire.exchange import Outcome, Peer
from proxy.wire.http1.body import NO_BODY
from proxy.wire.http1.message import RequestHead

_TARGET = b"/api/v1/namespaces/default/pods/hello"
_HEADERS = HeaderLines(
    (
        (b"Host", b"127.0.0.1"),
        (b"User-Agent", b"kubectl/v1.37.1 (linux/amd64) kubernetes/0000000"),
        (b"Accept", b"application/json"),
        (b"Authorization", b"Bearer " + b"x" * 900),
        (b"Impersonate-User", b"alice"),
        (b"Accept-Encoding", b"gzip"),
    )
)
_ANSWER_HEADERS = [(b"Content-Type", b"application/json"), (b"Content-Length", b"2048")]
_CALLER = Caller(
    Identity("system:serviceaccount:default:bob", "uid", ("system:serviceaccounts", "dev"))
)
_PEER = Peer("10.1.2.3")
_OUTCOME = Outcome(200, 2048, is_complete=True)
_BATCH = 500


@dataclass(frozen=True, slots=True)
class PartCost:
    """Microseconds of CPU that events add to a request: the median of all batches."""

    one_event: float
    two_events: float


class _Nowhere:
    def write(self, line: bytes) -> None:
        """Take a line and forget it."""


def measure_part(*, batches: int) -> PartCost:
    """Return what a request costs more with one event, and with RequestReceived as well."""
    both_stages = AuditPolicy([PolicyRule(Level.METADATA)])
    recorders = [
        Recorder(time.time_ns),
        *(
            AuditRecorder(
                time.time_ns, AuditBook(_Nowhere(), policy, body_bytes=1, clock=time.monotonic)
            )
            for policy in (load_audit_policy(None), both_stages)
        ),
    ]
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


def _server(recorder: Recorder) -> Callable[[], None]:
    """Return what tells a trail the facts of one request, as the pipeline does."""
    admission = _admission()

    def serve() -> None:
        request = RequestHead(b"GET", _TARGET, 1, _HEADERS, NO_BODY, keep_alive=True)
        trail = recorder.open(request, _PEER, None)
        trail.acts(parse_action(request.method, request.target))
        trail.is_called_by(_CALLER)
        trail.is_admitted(admission)
        if trail.observer is not None:
            trail.observer.answer_started(_OUTCOME.status, _ANSWER_HEADERS, b"{}")
        trail.ended(_OUTCOME)

    return serve


def _admission() -> Admission:
    action = parse_action(b"GET", _TARGET)
    attempts = plan_attempts(
        _CALLER, Identity("alice"), action, rules=DecisionRules(), remembered=None
    )
    attempt = next(iter(attempts))
    return admit_as(_CALLER, Allowed(attempt, acting_identity(attempt.mode, attempt.wanted)))
