"""Growth: a decision from memory among few others and among many.

Three of ours, each of which has decided about so many different requests before; the row is played
by all of them in turns. Names are asked for by one caller through the front door until the memory
has them, so what fills it is what fills it in life: a review each.

Some settings are not usual. A decision lives for an hour and not for 10 s, and a connection
may be idle as long, since asking for 100 000 takes minutes; one caller may cost as many reviews as
it likes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bench.contestants import US, Contestant, Entry, start_ours
from bench.load import Witness
from bench.measurement import Measurement, WrongAnswer
from bench.process_cost import cpu_seconds, rss_kib
from bench.row import Effort, Pair, Row, Scene, Side, Turn
from bench.rows.data_plane import REQUEST
from bench.stage import Stage, running_stage
from bench.walking import Walks, Way

_CONNECTIONS = 64
_TARGET = "/api/v1/namespaces/default/configmaps/settings"
_IN_TURN = 1000
_SETTINGS: dict[str, dict[str, object]] = {
    # Those who know little wait meanwhile, with their connections open.
    "serving": {"limits": {"idleTimeout": "1h"}},
    "impersonation": {
        "successTTL": "1h",
        # Half of it are other requests and identities, and nothing may be forgotten here.
        "cacheEntries": 200_000,
        "reviews": {"perCallerPerSecond": 1_000_000, "perCallerBurst": 1_000_000},
    },
}


@dataclass(frozen=True, slots=True)
class _Surroundings:
    stage: Stage
    walks: Walks


@contextmanager
def _surroundings() -> Iterator[_Surroundings]:
    with running_stage() as stage, Walks(stage.program) as walks:
        yield _Surroundings(stage, walks)


@contextmanager
def _start(entry: Entry, surroundings: _Surroundings) -> Iterator[Contestant]:
    with start_ours(entry, surroundings.stage, is_audited=False) as contestant:
        yield contestant


def _knowing(name: str) -> Entry:
    description = f"us, with {name} decisions in memory"
    return replace(
        US, name=f"us knowing {name}", description=description, start=_start, settings=_SETTINGS
    )


def _measure(contestant: Contestant, surroundings: _Surroundings, turn: Turn) -> Measurement:
    """Ask for the same, or for a thousand in turn, once the contestant knows what it must."""
    assert contestant.pid is not None
    stage, walks = surroundings.stage, surroundings.walks
    way = Way(
        address=contestant.address,
        authority_file=stage.authority_file,
        token_file=stage.client_token_file,
        connections=_CONNECTIONS,
        target=_TARGET,
        wanted=contestant.entry.wanted,
    )
    known = {"1": 1, "1000": 1000}.get(contestant.name.split()[-1], turn.size)
    learning: dict[str, float] = {}
    if known > 1 and not walks.has(everything := replace(way, names=known)):
        learning = _learn(contestant.pid, surroundings, everything)
    walk = walks.to(replace(way, names=int(turn.variant or 0)))
    witness = Witness(contestant, stage)
    reviews = stage.counts().access_reviews
    step = walk.turn(turn.seconds, contestant.pid)
    told = step.told
    testimony = witness.testify(told["requests"])
    if (asked := stage.counts().access_reviews - reviews) > told["requests"] / 100:
        raise WrongAnswer(f"{contestant.name}: {asked} reviews for what it should know")
    return Measurement(
        cost=step.cpu_microseconds,
        requests=told["requests"],
        p50_microseconds=told["p50Microseconds"],
        p99_microseconds=told["p99Microseconds"],
        requests_per_second=told["requests"] / told["seconds"],
        rss_kib=rss_kib(contestant.pid),
        extra={**testimony, "decisions known": known, **learning},
    )


def _learn(pid: int, surroundings: _Surroundings, way: Way) -> dict[str, float]:
    """Let a process decide about all names of a way, and return what that cost it."""
    reviews = surroundings.stage.counts().access_reviews
    used, held = cpu_seconds(pid), rss_kib(pid)
    surroundings.walks.to(way)
    used, held = cpu_seconds(pid) - used, rss_kib(pid) - held
    if (asked := surroundings.stage.counts().access_reviews - reviews) < way.names:
        raise WrongAnswer(f"{asked} reviews for {way.names} decisions")
    return {
        "us of CPU a new decision": used / way.names * 1e6,
        "KiB a new decision": held / way.names,
    }


_ONE, _THOUSAND, _MANY = (_knowing(name) for name in ("1", "1000", "many"))

ROWS = (
    Row(
        name="decision-memory",
        title="GET of 2 KB decided from a memory of 1, 1 000 or many; the same, or 1 000 in turn",
        unit=REQUEST,
        scene=Scene("decision memory", _surroundings, (_ONE, _THOUSAND, _MANY)),
        pairs=(
            Pair(Side(_THOUSAND.name), Side(_ONE.name)),
            Pair(Side(_MANY.name), Side(_ONE.name)),
            Pair(Side(_MANY.name, str(_IN_TURN)), Side(_THOUSAND.name, str(_IN_TURN))),
        ),
        measure=_measure,
        quick=Effort(rounds=4, seconds=0.4, size=3_000),
        full=Effort(rounds=10, seconds=2.0, size=100_000),
    ),
)
