"""Decisions compared with kube-apiserver's own filter, on a real API server: new and cached ones.

A new decision: every request is from a new caller, for a new wanted user, on a connection that is
already open.

A cached decision: the CPU time that impersonation adds to a request, in the process that decides. A
contestant with `Impersonate-*` is compared with itself without, in quick alternation. The
difference excludes all other costs of a request. The target is `/version`, which is cheap for both
sides, so that it adds little noise.
"""

import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass

from bench.contestants import Contestant
from bench.control_plane import (
    CALLER,
    CONFIG_MAP,
    CONTROL_PLANE,
    LEGACY,
    NAMED,
    USER_INFO,
    VERSION,
    Cluster,
)
from bench.measurement import Measurement, WrongAnswer
from bench.round_trips import RoundTrip, most_in_one_mode
from bench.row import Effort, Pair, Row, Side, Turn
from bench.walking import LoadTarget, Step, quiet_mean
from proxy.sandbox.api_client import ApiClient

_OK = 200
_REVIEWS = "understudy_access_reviews_total"
_LOOK_UPS = "understudy_decision_cache_lookups_total"
_NATIVE_ATTEMPTS = "apiserver_impersonation_attempts_total"
_NATIVE_CHECKS = "apiserver_impersonation_authorization_attempts_total"
_COLD_PER_TURN = 3
_COUNTED_PER_TURN = 2
_CONNECTIONS = 8
_STEP_SECONDS = 0.05
# A decision is cached for 10 s. When it expires, all connections wait for a new review.
_MIN_CACHED_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class _Case:
    """A kind of new decision: the callers' group, which has the grants, and the wanted groups."""

    callers: str
    groups: int


COLD_CASES = {
    "1 group": _Case(USER_INFO, 1),
    "10 groups": _Case(USER_INFO, 10),
    "100 groups": _Case(USER_INFO, 100),
    # Each group is granted by name, so the wildcard check is denied.
    "100 by name": _Case(NAMED, 100),
    # For a new caller no mode is cached, so the mode user-info is attempted before.
    "legacy, 1 group": _Case(LEGACY, 1),
    "legacy, 10 groups": _Case(LEGACY, 10),
}
CACHED_IDENTITIES = {"user": 0, "10 groups": 10, "100 groups": 100}


def _measure_cold(contestant: Contestant, cluster: Cluster, turn: Turn) -> Measurement:
    case = COLD_CASES[turn.variant]
    before = _reviews(contestant, cluster)
    waited = [_send_request(contestant, cluster, case)[1] for _ in range(_COLD_PER_TURN)]
    if contestant.metrics_url and _reviews(contestant, cluster) < before + 2 * _COLD_PER_TURN:
        raise WrongAnswer(f"{contestant.name}: decided without a review")
    return Measurement(
        cost=statistics.median(waited),
        requests=_COLD_PER_TURN,
        extra=_count_round_trips(contestant, cluster, case) if contestant.metrics_url else {},
    )


def _count_round_trips(contestant: Contestant, cluster: Cluster, case: _Case) -> dict[str, float]:
    """Return the round trips of a decision: the minimum of several, since it may be overcounted.

    The first decision opens the connections for the next.
    """
    found = [_send_through_relay(contestant, cluster, case) for _ in range(_COUNTED_PER_TURN)]
    rounds = min(found, key=len)
    return {
        "round trips a mode": most_in_one_mode(rounds),
        "round trips": len(rounds),
        "reviews": sum(each.total() for each in rounds),
    }


def _send_through_relay(contestant: Contestant, cluster: Cluster, case: _Case) -> list[RoundTrip]:
    """Send a request through the second instance, whose reviews pass the relay."""
    relay, counted = cluster.relays[contestant.name]
    before = _reviews(counted, cluster)
    name, _ = _send_request(counted, cluster, case)
    rounds = relay.take(name)
    reviews = sum(each.total() for each in rounds)
    reported = _reviews(counted, cluster) - before
    # The proxy also sends reviews of its own, so its count may be higher, and never lower.
    if reviews == 0 or reported < reviews:
        raise WrongAnswer(f"the relay counted {reviews} reviews, {counted.name} {reported:.0f}")
    return rounds


def _reviews(contestant: Contestant, cluster: Cluster) -> float:
    return cluster.total(contestant, _REVIEWS) if contestant.metrics_url else 0.0


def _send_request(contestant: Contestant, cluster: Cluster, case: _Case) -> tuple[str, float]:
    """Return the name of a new caller, and the milliseconds until its response."""
    name = f"caller-{next(cluster.numbers)}"
    caller = cluster.control_plane.clients.issue_client(name, groups=(case.callers,))
    client = ApiClient(
        f"https://{contestant.address}", ca_pem=cluster.plain.ca_pem, credential=caller
    )
    headers = [
        ("Impersonate-User", f"wanted-by-{name}"),
        *(("Impersonate-Group", f"group-{number}") for number in range(case.groups)),
    ]
    with client.connect() as connection:
        started = time.perf_counter()
        response = connection.request("GET", CONFIG_MAP, headers=headers)
        waited = time.perf_counter() - started
    if response.status != _OK or response.body != cluster.body_of(CONFIG_MAP):
        raise WrongAnswer(f"{contestant.name}: {response.status} {response.body!r}")
    return name, waited * 1e3


def _measure_cached(contestant: Contestant, cluster: Cluster, turn: Turn) -> Measurement:
    assert contestant.pid is not None
    alone = cluster.walks.to(_way(contestant, cluster))
    impersonating = cluster.walks.to(
        _way(contestant, cluster, wanted="wanted", groups=CACHED_IDENTITIES[turn.variant])
    )
    before = _decided(contestant, cluster)
    without: list[Step] = []
    with_it: list[Step] = []
    for number in range(max(1, round(turn.seconds / _STEP_SECONDS))):
        order = [(alone, without), (impersonating, with_it)]
        # In alternating order, so that a drift of the machine's speed affects both equally.
        for walk, steps in order if number % 2 == 0 else order[::-1]:
            steps.append(walk.turn(_STEP_SECONDS, contestant.pid))
    requests = sum(step.report["requests"] for step in with_it)
    check_memory(contestant, now=_decided(contestant, cluster), before=before, requests=requests)
    costs = [quiet_mean([step.cpu_microseconds for step in steps]) for steps in (with_it, without)]
    return Measurement(
        cost=costs[0] - costs[1],
        requests=requests,
        p50_microseconds=statistics.median(step.report["p50Microseconds"] for step in with_it),
        extra={"us of CPU with it": costs[0], "without": costs[1]},
    )


def _way(
    contestant: Contestant, cluster: Cluster, *, wanted: str = "", groups: int = 0
) -> LoadTarget:
    return LoadTarget(
        address=contestant.address,
        authority_file=cluster.authority_file,
        token_file=cluster.token_file,
        connections=_CONNECTIONS,
        target=VERSION,
        body_sha256=cluster.digest_of(VERSION),
        wanted=wanted,
        groups=groups,
    )


def _decided(contestant: Contestant, cluster: Cluster) -> tuple[float, float]:
    """Return the counts of decisions (this proxy: cache hits) and of checks."""
    if contestant.metrics_url:
        hits = cluster.total(contestant, _LOOK_UPS, 'result="hit"')
        return hits, cluster.total(contestant, _REVIEWS)
    attempts = cluster.total(contestant, _NATIVE_ATTEMPTS, 'decision="allowed"')
    return attempts, cluster.total(contestant, _NATIVE_CHECKS)


def check_memory(
    contestant: Contestant,
    *,
    now: tuple[float, float],
    before: tuple[float, float],
    requests: int,
) -> None:
    """Raise WrongAnswer unless that many requests were decided, nearly all from the cache."""
    decided, checked = (new - old for new, old in zip(now, before, strict=True))
    if decided < requests * _MIN_CACHED_SHARE or checked > requests / 10 or now[1] == 0:
        raise WrongAnswer(
            f"{contestant.name}: {decided:.0f} decisions and {checked:.0f} checks "
            f"(of {now[1]:.0f}) for {requests} requests of {CALLER.name}"
        )


def _against_native(variants: Iterable[str]) -> tuple[Pair, ...]:
    return tuple(Pair(Side("us", each), Side("native", each)) for each in variants)


ROWS = (
    Row(
        name="cold-decision",
        title="first request of a new caller as a new user",
        unit="ms until the response",
        scene=CONTROL_PLANE,
        pairs=_against_native(COLD_CASES),
        measure=_measure_cold,
        quick=Effort(rounds=3, seconds=0),
        full=Effort(rounds=10, seconds=0),
    ),
    Row(
        name="cached-decision",
        title="cost that impersonation adds with a cached decision",
        unit="us of CPU added",
        scene=CONTROL_PLANE,
        pairs=_against_native(CACHED_IDENTITIES),
        measure=_measure_cached,
        quick=Effort(rounds=2, seconds=0.8),
        full=Effort(rounds=6, seconds=2.0),
    ),
)
