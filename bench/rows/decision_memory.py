"""Growth of the decision cache: a cached decision among few entries and among many.

Three instances of the proxy, each with a different number of cached decisions, run the row in
alternation. One caller requests each name through the proxy until the cache has them all. So the
cache is filled as in production, with one review each.

Some settings are not the default. A decision is cached for an hour instead of 10 s, and connections
may be idle as long, because requesting 100 000 names takes minutes. Reviews are not rate-limited.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bench.contestants import US, Contestant, Entry, start_proxy
from bench.load import WorkVerifier
from bench.measurement import Measurement, WrongAnswer
from bench.process_cost import cpu_seconds, rss_kib
from bench.row import Effort, Pair, Row, Scene, Side, Turn
from bench.rows.data_plane import REQUEST
from bench.stage import Stage, running_stage
from bench.walking import LoadTarget, PersistentGenerators

_CONNECTIONS = 64
_TARGET = "/api/v1/namespaces/default/configmaps/settings"
_IN_ROTATION = 1000
_SETTINGS: dict[str, dict[str, object]] = {
    # Instances with few entries are idle meanwhile, with their connections open.
    "serving": {"limits": {"idleTimeout": "1h"}},
    "impersonation": {
        "successTTL": "1h",
        # Half of the capacity is for other requests and identities, and no entry may be evicted.
        "cacheEntries": 200_000,
        "reviews": {"perCallerPerSecond": 1_000_000, "perCallerBurst": 1_000_000},
    },
}


@dataclass(frozen=True, slots=True)
class _Surroundings:
    stage: Stage
    walks: PersistentGenerators


@contextmanager
def _surroundings() -> Iterator[_Surroundings]:
    with running_stage() as stage, PersistentGenerators(stage.program) as walks:
        yield _Surroundings(stage, walks)


@contextmanager
def _start(entry: Entry, surroundings: _Surroundings) -> Iterator[Contestant]:
    with start_proxy(entry, surroundings.stage, is_audited=False) as contestant:
        yield contestant


def _with_cached(name: str) -> Entry:
    description = f"us, with {name} cached decisions"
    return replace(
        US, name=f"us knowing {name}", description=description, start=_start, settings=_SETTINGS
    )


def _measure(contestant: Contestant, surroundings: _Surroundings, turn: Turn) -> Measurement:
    """Request one name, or a thousand in rotation, once the cache is filled."""
    assert contestant.pid is not None
    stage, walks = surroundings.stage, surroundings.walks
    way = LoadTarget(
        address=contestant.address,
        authority_file=stage.authority_file,
        token_file=stage.client_token_file,
        connections=_CONNECTIONS,
        target=_TARGET,
        wanted=contestant.entry.wanted,
    )
    entries = {"1": 1, "1000": 1000}.get(contestant.name.split()[-1], turn.size)
    filling: dict[str, float] = {}
    if entries > 1 and not walks.has(everything := replace(way, names=entries)):
        filling = _fill_cache(contestant.pid, surroundings, everything)
    walk = walks.to(replace(way, names=int(turn.variant or 0)))
    witness = WorkVerifier(contestant, stage)
    reviews = stage.counts().access_reviews
    step = walk.turn(turn.seconds, contestant.pid)
    report = step.report
    verified = witness.verify(report["requests"])
    if (reviewed := stage.counts().access_reviews - reviews) > report["requests"] / 100:
        raise WrongAnswer(f"{contestant.name}: {reviewed} reviews for cached decisions")
    return Measurement(
        cost=step.cpu_microseconds,
        requests=report["requests"],
        p50_microseconds=report["p50Microseconds"],
        p99_microseconds=report["p99Microseconds"],
        requests_per_second=report["requests"] / report["seconds"],
        rss_kib=rss_kib(contestant.pid),
        extra={**verified, "decisions known": entries, **filling},
    )


def _fill_cache(pid: int, surroundings: _Surroundings, way: LoadTarget) -> dict[str, float]:
    """Request all names of a load once, and return the cost per new decision."""
    reviews = surroundings.stage.counts().access_reviews
    used, held = cpu_seconds(pid), rss_kib(pid)
    surroundings.walks.to(way)
    used, held = cpu_seconds(pid) - used, rss_kib(pid) - held
    if (reviewed := surroundings.stage.counts().access_reviews - reviews) < way.names:
        raise WrongAnswer(f"{reviewed} reviews for {way.names} decisions")
    return {
        "us of CPU a new decision": used / way.names * 1e6,
        "KiB a new decision": held / way.names,
    }


_ONE, _THOUSAND, _MANY = (_with_cached(name) for name in ("1", "1000", "many"))

ROWS = (
    Row(
        name="decision-memory",
        title="GET of 2 KB with 1, 1 000 or many cached decisions; one name, or 1 000 in rotation",
        unit=REQUEST,
        scene=Scene("decision memory", _surroundings, (_ONE, _THOUSAND, _MANY)),
        pairs=(
            Pair(Side(_THOUSAND.name), Side(_ONE.name)),
            Pair(Side(_MANY.name), Side(_ONE.name)),
            Pair(Side(_MANY.name, str(_IN_ROTATION)), Side(_THOUSAND.name, str(_IN_ROTATION))),
        ),
        measure=_measure,
        quick=Effort(rounds=4, seconds=0.4, size=3_000),
        full=Effort(rounds=10, seconds=2.0, size=100_000),
    ),
)
