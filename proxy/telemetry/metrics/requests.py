"""Request metrics, counted when requests end; every label value comes from a closed set.

Each request costs one lookup and two additions. A scrape sums the series from these numbers. A
value outside its set is counted as `other`: neither clients nor upstream servers can create a new
series.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from itertools import accumulate
from operator import add

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.core.errors import (
    AuditUnavailable,
    BadGateway,
    BadRequest,
    Forbidden,
    GatewayTimeout,
    ProxyCredentialRejected,
    RequestInfoError,
    StatusError,
    TooManyRequests,
    Unauthorized,
    UpstreamUnavailable,
)
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.telemetry.metrics.collectors import FastCounter, bucket_names

OTHER = "other"
UNREADABLE = "unreadable"
"""The verb of a request that could not be read."""

VERBS = frozenset(
    (
        *("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
        *("proxy", "head", "post", "put", "options", UNREADABLE, OTHER),
    )
)
# A client that disconnected before the response has no code; the other codes are HTTP's list.
_NO_CODE = "none"
_OTHER_STATUS = -1
_CODES = {0: _NO_CODE, **{status.value: str(status.value) for status in HTTPStatus}}
_CODES[_OTHER_STATUS] = OTHER
CODES = frozenset(_CODES.values())
_SELF, NOT_PERMITTED = "self", "none"
MODES = frozenset((_SELF, NOT_PERMITTED, *(mode.value for mode in ImpersonationMode)))
"""The mode is `self` without impersonation, and `none` if the request was not permitted."""

# The first matching class counts.
_REASONS: tuple[tuple[type[StatusError], str], ...] = (
    (AuditUnavailable, "audit-unavailable"),
    (RequestInfoError, "unreadable"),
    (Unauthorized, "unauthorized"),
    (Forbidden, "forbidden"),
    (TooManyRequests, "too-many-requests"),
    (BadGateway, "bad-gateway"),
    (ProxyCredentialRejected, "credential-refused"),
    (UpstreamUnavailable, "upstream-unavailable"),
    (GatewayTimeout, "gateway-timeout"),
    (BadRequest, "bad-request"),
)
# Errors of the HTTP parser are identified by their code.
_REASONS_BY_CODE = {**dict.fromkeys((400, 414, 417, 431), "bad-request"), 500: "internal"}
REASONS = frozenset((*dict(_REASONS).values(), *_REASONS_BY_CODE.values(), OTHER))

# 1 ms doubling up to 65 s: slightly above the timeout of ordinary requests.
_BUCKETS = tuple(0.001 * 2**power for power in range(17))
_BUCKET_NAMES = bucket_names(_BUCKETS)

RequestKey = tuple[str, int, bool, str | None, bool]
"""Verb, status, whether it is long-running, mode (None: no impersonation), whether it warned."""


class RequestMetrics(Collector):
    """Counts requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # The number of requests by duration bucket, then the sum of seconds.
        self._ended: dict[RequestKey, list[float]] = {}
        self._errors = FastCounter(
            "understudy_request_errors_total",
            "Requests answered with an error by the proxy and not by the API server, by reason.",
            ("reason",),
            registry=registry,
        )
        self._denials = FastCounter(
            "understudy_impersonation_denials_total",
            "Requests that the proxy denied, by the mode of the first failed check; none: no "
            "check failed.",
            ("mode",),
            registry=registry,
        )
        registry.register(self)

    def request_ended(self, key: RequestKey, seconds: float) -> None:
        """Count a completed request and its duration."""
        counts = self._ended.get(key)
        if counts is None:
            counts = self._ended.setdefault(_closed(key), [0.0] * (len(_BUCKETS) + 2))
        counts[bisect_left(_BUCKETS, seconds)] += 1.0
        counts[-1] += seconds

    def request_failed(self, error: StatusError) -> None:
        """Count a request that the proxy answered with an error."""
        self._errors.add((_reason(error),))
        if isinstance(error, Forbidden):
            self._denials.add((_denied_mode(error.failed_check),))

    def describe(self) -> Iterable[Metric]:
        """Return the metric names for the registry."""
        return _families()

    def collect(self) -> Iterable[Metric]:
        """Return the current values."""
        requests, modes, legacy, durations = families = _families()
        by_labels, by_mode = _Sums(), _Sums()
        by_action = _Sums({("allow",): [0.0], ("warn",): [0.0]})
        by_verb = _Sums()
        for (verb, status, is_long, mode, is_warned), counts in self._ended.items():
            count = [sum(counts[:-1])]
            by_labels.add((verb, _CODES[status], "true" if is_long else "false"), count)
            by_mode.add((_SELF if mode is None else str(mode),), count)
            if mode == ImpersonationMode.LEGACY.value:
                by_action.add(("warn" if is_warned else "allow",), count)
            if not is_long:
                by_verb.add((verb,), counts)
        for family, sums in ((requests, by_labels), (modes, by_mode), (legacy, by_action)):
            for labels, count in sums.items():
                family.add_metric(labels, count[0])
        for labels, counts in by_verb.items():
            buckets = list(zip(_BUCKET_NAMES, accumulate(counts[:-1]), strict=True))
            durations.add_metric(labels, buckets, sum_value=counts[-1])
        return families


class _Sums(dict[tuple[str, ...], list[float]]):
    """Lists of numbers, summed element by element for equal label values."""

    def add(self, labels: tuple[str, ...], numbers: Sequence[float]) -> None:
        known = self.get(labels)
        self[labels] = list(numbers) if known is None else list(map(add, known, numbers))


def _closed(key: RequestKey) -> RequestKey:
    """Return the key with every value in its closed set; called once per new key."""
    verb, status, is_long, mode, is_warned = key
    return (
        verb if verb in VERBS else OTHER,
        status if status in _CODES else _OTHER_STATUS,
        is_long,
        mode,
        is_warned,
    )


def _families() -> tuple[
    CounterMetricFamily, CounterMetricFamily, CounterMetricFamily, HistogramMetricFamily
]:
    return (
        CounterMetricFamily(
            "understudy_requests_total",
            "Completed requests by verb, response code and whether they are long-running (watch, "
            "log, exec, proxy, tunnel).",
            labels=("verb", "code", "long_running"),
        ),
        CounterMetricFamily(
            "understudy_requests_by_mode_total",
            "Completed requests by impersonation mode; self: no impersonation, none: not "
            "permitted.",
            labels=("mode",),
        ),
        CounterMetricFamily(
            "understudy_legacy_impersonations_total",
            "Requests permitted by the unrestricted verb impersonate, by the action of the legacy "
            "rule: allow or warn.",
            labels=("action",),
        ),
        HistogramMetricFamily(
            "understudy_request_duration_seconds",
            "Duration of requests that are not long-running, from the request head to the end of "
            "the response, by verb.",
            labels=("verb",),
        ),
    )


def _reason(error: StatusError) -> str:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    return _REASONS_BY_CODE.get(error.code, OTHER)


def _denied_mode(failed_check: str) -> str:
    """Return the mode of a check's verb; the summary of a check begins with its verb."""
    verb, _, rest = failed_check.partition(" ")[0].partition(":")
    if verb == "impersonate" and not rest:
        return ImpersonationMode.LEGACY.value
    mode = rest.partition(":")[0]
    return mode if verb in ("impersonate", "impersonate-on") and mode in MODES else NOT_PERMITTED
