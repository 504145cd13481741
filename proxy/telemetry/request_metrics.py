"""What becomes of requests, counted at their end; every label value comes from a closed set.

At each request one number grows. What it means is found out when somebody asks for the metrics,
and whatever is in no set is called `other` then: no client and no server behind us can make a new
series.
"""

from collections.abc import Iterable, Iterator
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.core.errors import (
    AuditUnavailable,
    BadGateway,
    BadRequest,
    CredentialRefused,
    Forbidden,
    GatewayTimeout,
    Refusal,
    TooManyRequests,
    Unauthorized,
    UnreadableRequest,
    UpstreamUnavailable,
)
from proxy.core.modes import Mode
from proxy.telemetry.tallies import CounterTally, HistogramTally

OTHER = "other"
UNREADABLE = "unreadable"
"""The verb of a request that could not be read."""

VERBS = frozenset(
    (
        *("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
        *("proxy", "head", "post", "put", "options", UNREADABLE, OTHER),
    )
)
# A client that left before it had an answer has none; the rest of the codes is HTTP's own list.
_NO_CODE = "none"
_CODES = {0: _NO_CODE, **{status.value: str(status.value) for status in HTTPStatus}}
CODES = frozenset((*_CODES.values(), OTHER))
_SELF, NOT_ADMITTED = "self", "none"
MODES = frozenset((_SELF, NOT_ADMITTED, *(mode.value for mode in Mode)))
"""Who acts as nobody but itself is `self`; who was not admitted has the mode `none`."""

# The first that fits.
_REASONS: tuple[tuple[type[Refusal], str], ...] = (
    (AuditUnavailable, "audit-unavailable"),
    (UnreadableRequest, "unreadable"),
    (Unauthorized, "unauthorized"),
    (Forbidden, "forbidden"),
    (TooManyRequests, "too-many-requests"),
    (BadGateway, "bad-gateway"),
    (CredentialRefused, "credential-refused"),
    (UpstreamUnavailable, "upstream-unavailable"),
    (GatewayTimeout, "gateway-timeout"),
    (BadRequest, "bad-request"),
)
# Refusals of the wire are known by their code.
_REASONS_BY_CODE = {400: "bad-request", 417: "bad-request", 431: "bad-request", 500: "internal"}
REASONS = frozenset((*dict(_REASONS).values(), *_REASONS_BY_CODE.values(), OTHER))

# 1 ms doubling up to 65 s: the longest an ordinary request may take, and a bit.
_BUCKETS = tuple(0.001 * 2**power for power in range(17))

_Key = tuple[str, int, bool, str | None, bool]


class RequestMetrics(Collector):
    """Counts requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # By verb, status, whether it may last, mode and whether it was warned.
        self._ended: dict[_Key, float] = {}
        self._seconds = HistogramTally(
            "understudy_request_duration_seconds",
            "Requests that are not long-running, from the head to the end of the answer, by verb.",
            ("verb",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._refusals = CounterTally(
            "understudy_refusals_total",
            "Requests answered by us and not by the API server, by reason.",
            ("reason",),
            registry=registry,
        )
        self._denials = CounterTally(
            "understudy_impersonation_denials_total",
            "Requests we denied, by the mode of the check that failed first; none: no check did.",
            ("mode",),
            registry=registry,
        )
        registry.register(self)

    def request_ended(
        self,
        verb: str,
        status: int,
        seconds: float,
        *,
        is_long: bool,
        mode: str | None,
        is_warned: bool,
    ) -> None:
        """Count a request at its end, and how long it took if it is not long-running."""
        key = (verb, status, is_long, mode, is_warned)
        ended = self._ended
        ended[key] = ended.get(key, 0.0) + 1.0
        if not is_long:
            self._seconds.add((verb if verb in VERBS else OTHER,), seconds)

    def request_refused(self, refusal: Refusal) -> None:
        """Count a request that we answered."""
        self._refusals.add((_reason(refusal),))
        if isinstance(refusal, Forbidden):
            self._denials.add((_denied_mode(refusal.failed_check),))

    def describe(self) -> Iterable[Metric]:
        """Tell the registry which names are taken."""
        return list(_families())

    def collect(self) -> Iterable[Metric]:
        """Return what was counted so far, by closed sets."""
        requests: dict[tuple[str, ...], float] = {}
        modes: dict[tuple[str, ...], float] = {}
        legacy: dict[tuple[str, ...], float] = {("allow",): 0.0, ("warn",): 0.0}
        for (verb, status, is_long, mode, is_warned), count in self._ended.items():
            labels = (
                verb if verb in VERBS else OTHER,
                _CODES.get(status, OTHER),
                "true" if is_long else "false",
            )
            requests[labels] = requests.get(labels, 0.0) + count
            label = (_SELF if mode is None else str(mode),)
            modes[label] = modes.get(label, 0.0) + count
            if mode == Mode.LEGACY.value:
                legacy["warn" if is_warned else "allow",] += count
        families = list(_families())
        for family, counts in zip(families, (requests, modes, legacy), strict=True):
            for values, count in counts.items():
                family.add_metric(values, count)
        return families


def _families() -> Iterator[CounterMetricFamily]:
    yield CounterMetricFamily(
        "understudy_requests_total",
        "Requests that have ended, by verb, code of the answer (none: the client left before it) "
        "and whether they are long-running: watches, logs, exec, proxies and tunnels.",
        labels=("verb", "code", "long_running"),
    )
    yield CounterMetricFamily(
        "understudy_requests_by_mode_total",
        "Requests that have ended, by the mode of impersonation that admitted them; self: as the "
        "caller, none: not admitted.",
        labels=("mode",),
    )
    yield CounterMetricFamily(
        "understudy_legacy_impersonations_total",
        "Requests admitted by the unrestricted verb impersonate, by what the rules say to it: "
        "allow or warn.",
        labels=("action",),
    )


def _reason(refusal: Refusal) -> str:
    for kind, reason in _REASONS:
        if isinstance(refusal, kind):
            return reason
    return _REASONS_BY_CODE.get(refusal.code, OTHER)


def _denied_mode(failed_check: str) -> str:
    """Return the mode whose verb a check has, which is the first word of its summary."""
    verb, _, rest = failed_check.partition(" ")[0].partition(":")
    if verb == "impersonate" and not rest:
        return Mode.LEGACY.value
    mode = rest.partition(":")[0]
    return mode if verb in ("impersonate", "impersonate-on") and mode in MODES else NOT_ADMITTED
