"""One turn of one contestant: load on it, and what that cost it."""

import json
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from bench.contestants import Contestant
from bench.cpu_time import cpu_seconds
from bench.stage import Counts, Stage

_AUDIT_SECONDS = 10.0
_POLL_SECONDS = 0.05
_SETTLING_SECONDS = 0.2
_PIECE_BYTES = 1 << 20


class LoadReport(TypedDict):
    """What the load generator tells of one turn."""

    requests: int
    seconds: float
    p50Microseconds: float
    p99Microseconds: float
    bodySHA256: str


class WrongAnswer(Exception):
    """A contestant did not do its work, so what it cost means nothing."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much is asked of every contestant in its turn."""

    connections: int
    seconds: float
    warm_up_seconds: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came of one turn. `body_digest` is the SHA-256 that every single body had."""

    requests: int
    cpu_microseconds: float
    p50_microseconds: float
    p99_microseconds: float
    requests_per_second: float
    body_digest: str


def measure(contestant: Contestant, stage: Stage, load: Load) -> Measurement:
    """Send the load and return what a request cost; raise WrongAnswer if one went astray."""
    before, audited = stage.counts(), _size(contestant.audit_file)
    told, used_seconds = _run_load(contestant, stage, load)
    arrived = _arrivals(contestant, before, stage.counts())
    if arrived < told["requests"]:
        raise WrongAnswer(f"{contestant.name}: {arrived} of {told['requests']} requests arrived")
    if contestant.audit_file is not None:
        _check_audit(contestant.audit_file, audited, events=arrived)
    return Measurement(
        requests=told["requests"],
        cpu_microseconds=used_seconds / told["requests"] * 1e6,
        p50_microseconds=told["p50Microseconds"],
        p99_microseconds=told["p99Microseconds"],
        requests_per_second=told["requests"] / told["seconds"],
        body_digest=told["bodySHA256"],
    )


def _run_load(contestant: Contestant, stage: Stage, load: Load) -> tuple[LoadReport, float]:
    """Return what the load generator tells, and the contestant's CPU seconds meanwhile."""
    pid = contestant.process.pid
    with _start_load(contestant, stage, load) as generator:
        assert generator.stdin is not None
        assert generator.stdout is not None
        assert generator.stderr is not None
        # It says so when connections are open and everything is warm: from there on it counts.
        is_ready = generator.stdout.readline() == "ready\n"
        started = cpu_seconds(pid)
        if is_ready:
            generator.stdin.write("start\n")
            generator.stdin.flush()
        line = generator.stdout.readline()
        used = cpu_seconds(pid) - started
        failure = generator.stderr.read()
    if generator.returncode != 0:
        raise WrongAnswer(f"{contestant.name}: {failure.strip()}")
    told: LoadReport = json.loads(line)
    return told, used


def _start_load(contestant: Contestant, stage: Stage, load: Load) -> "subprocess.Popen[str]":
    command = [
        str(stage.program),
        "load",
        f"--address={contestant.address}",
        f"--authority={stage.authority_file}",
        f"--token-file={stage.client_token_file}",
        f"--connections={load.connections}",
        f"--seconds={load.seconds}",
        f"--warm-up-seconds={load.warm_up_seconds}",
    ]
    if contestant.entry.wanted is not None:
        command.append(f"--as={contestant.entry.wanted}")
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def _arrivals(contestant: Contestant, before: Counts, after: Counts) -> int:
    """Return how many requests arrived, all of them as who they should be from."""
    arrived = Counter(after.requests_as) - Counter(before.requests_as)
    if set(arrived) != {contestant.entry.acting}:
        raise WrongAnswer(f"{contestant.name}: requests arrived as {dict(arrived)}")
    return arrived.total()


def _check_audit(file: Path, offset: int, *, events: int) -> None:
    """Every request leaves one event; a thread of its own writes them, so they may come late."""
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
    """Return how long a file is once all that came before is in it: events are stored together."""
    if file is None:
        return 0
    size, later = -1, file.stat().st_size
    while size != later:
        time.sleep(_SETTLING_SECONDS)
        size, later = later, file.stat().st_size
    return size
