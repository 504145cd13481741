"""Load on one contestant for one turn, its cost, and the verification of its work."""

import re
import time
import urllib.request
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.contestants import Contestant
from bench.generator import Generator, start_generator
from bench.measurement import Measurement, WrongAnswer
from bench.process_cost import cpu_seconds, rss_kib
from bench.stage import Counts, Stage

# The warm-up, as a share of a turn, after each connection has had one or two responses.
_WARM_UP = 0.25
_AUDIT_SECONDS = 10.0
_POLL_SECONDS = 0.05
_SETTLING_SECONDS = 0.2
_PIECE_BYTES = 1 << 20
_SCRAPE_SECONDS = 5.0
# A decision is cached for ten seconds. All requests that arrive while it is renewed, possibly a
# thousand, wait for the same review. None of them is a cache hit.
_MIN_HIT_SHARE = 0.5
_HITS = re.compile(
    r'^understudy_decision_cache_lookups_total\{[^}]*result="hit"[^}]*\} (\S+)$', re.MULTILINE
)
_REVIEWS = re.compile(r"^understudy_access_reviews_total\{[^}]*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one turn: the load generator's kind of work and its options."""

    work: str
    options: tuple[str, ...] = ()
    seconds: float = 1.0
    requests: int | None = None
    """The number of requests, if they are sent while connecting and have many responses each; None
    with one response per request. The former is not kept, because responses would continue."""
    is_kept: bool = True
    """Whether connections stay open for the contestant's next turn in the row."""


def command(contestant: Contestant, stage: Stage, load: Load) -> tuple[str, ...]:
    """Return the load generator's command line for a contestant."""
    return (
        str(stage.program),
        load.work,
        f"--address={contestant.address}",
        f"--authority={stage.authority_file}",
        f"--token-file={'' if contestant.entry.is_plain else stage.client_token_file}",
        f"--seconds={load.seconds}",
        f"--warm-up-seconds={load.seconds * _WARM_UP}",
        f"--plain={str(contestant.entry.is_plain).lower()}",
        f"--as={contestant.entry.wanted}",
        *load.options,
    )


def measure(contestant: Contestant, stage: Stage, load: Load) -> Measurement:
    """Send the load and return the cost per request; WrongAnswer if a request was lost."""

    arguments = command(contestant, stage, load)

    def start() -> Generator:
        return start_generator(arguments, contestant.name)

    if load.is_kept and load.requests is None:
        generator = stage.generators.keep(load, (contestant.pid, arguments), start)
        return _turn(generator, WorkVerifier(contestant, stage), load)
    stage.generators.close()
    witness = WorkVerifier(contestant, stage)
    with closing(start()) as generator:
        return _turn(generator, witness, load)


def _turn(generator: Generator, witness: "WorkVerifier", load: Load) -> Measurement:
    contestant = witness.contestant
    report, used = generator.turn(lambda: _cpu(contestant))
    held = _rss(contestant)
    return Measurement(
        cost=None if contestant.pid is None else used / report["requests"] * 1e6,
        requests=report["requests"],
        p50_microseconds=report["p50Microseconds"],
        p99_microseconds=report["p99Microseconds"],
        requests_per_second=report["requests"] / report["seconds"],
        rss_kib=held,
        extra=witness.verify(load.requests or report["requests"]),
    )


def _cpu(contestant: Contestant) -> float:
    return 0.0 if contestant.pid is None else cpu_seconds(contestant.pid)


def _rss(contestant: Contestant) -> float | None:
    return None if contestant.pid is None else rss_kib(contestant.pid)


class WorkVerifier:
    """Verifies a turn by the upstream's counts, the proxy's metrics, and the audit file."""

    def __init__(self, contestant: Contestant, stage: Stage) -> None:
        self.contestant = contestant
        self._stage = stage
        self._counts = stage.counts()
        self._audited = _size(contestant.audit_file)
        self._hits = _metric(_HITS, contestant)

    def verify(self, requests: int) -> dict[str, float]:
        """Return extra figures of this proxy; WrongAnswer if a contestant did too little work."""
        arrived = self._arrivals(self._stage.counts())
        if arrived < requests:
            raise WrongAnswer(f"{self.contestant.name}: {arrived} of {requests} requests arrived")
        figures: dict[str, float] = {}
        if self.contestant.metrics_url:
            figures |= self._decided(arrived)
        if self.contestant.audit_file is not None:
            _check_audit(self.contestant.audit_file, self._audited, events=arrived)
            figures["auditEvents"] = arrived
        return figures

    def _decided(self, arrived: int) -> dict[str, float]:
        """Return the proxy's decision counts; WrongAnswer unless most were cache hits."""
        hits = _metric(_HITS, self.contestant) - self._hits
        reviews = _metric(_REVIEWS, self.contestant)
        if reviews == 0 or hits < arrived * _MIN_HIT_SHARE:
            raise WrongAnswer(
                f"{self.contestant.name}: {hits:.0f} decisions from memory and {reviews:.0f} "
                f"reviews for {arrived} requests"
            )
        return {"arrived": arrived, "cacheHits": hits, "reviewsSoFar": reviews}

    def _arrivals(self, after: Counts) -> int:
        """Return how many requests arrived; WrongAnswer if any arrived as another user."""
        arrived = Counter(after.requests_as) - Counter(self._counts.requests_as)
        if set(arrived) != {self.contestant.entry.impersonated_user}:
            raise WrongAnswer(f"{self.contestant.name}: requests arrived as {dict(arrived)}")
        return arrived.total()


def _metric(pattern: re.Pattern[str], contestant: Contestant) -> float:
    if not contestant.metrics_url:
        return 0.0
    with urllib.request.urlopen(contestant.metrics_url, timeout=_SCRAPE_SECONDS) as page:
        return sum(float(value) for value in pattern.findall(page.read().decode()))


def _check_audit(file: Path, offset: int, *, events: int) -> None:
    """Check that each request has one audit event; a separate thread writes them, with a delay."""
    deadline = time.monotonic() + _AUDIT_SECONDS
    while (lines := _lines_from(file, offset)) < events and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if lines != events:
        raise WrongAnswer(f"{lines} audit events for {events} requests")


def _lines_from(file: Path, offset: int) -> int:
    with file.open("rb") as stream:
        stream.seek(offset)
        return sum(piece.count(b"\n") for piece in iter(lambda: stream.read(_PIECE_BYTES), b""))


def _size(file: Path | None) -> int:
    """Return the size of a file once all earlier events are in it: they are written in batches."""
    if file is None:
        return 0
    size, later = -1, file.stat().st_size
    while size != later:
        time.sleep(_SETTLING_SECONDS)
        size, later = later, file.stat().st_size
    return size


def options(**named: object) -> tuple[str, ...]:
    """Return command-line options of the load generator; `_` in a name becomes `-`."""
    return tuple(f"--{name.replace('_', '-')}={value}" for name, value in named.items())
