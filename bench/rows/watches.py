"""Watches: the memory of an idle watch, and the cost of an event.

Memory is measured in a new process, because one that has worked before has free memory for new
streams. The memory per stream is the growth of the process from a few open watches to many, divided
by the number added. It includes both connections of each watch.

The upstream sends events at a steady rate that leaves the machine mostly idle. So latency is that
of the path and not of a queue. Each event has its number and its send time.
"""

import time
from dataclasses import replace

from bench.contestants import Contestant
from bench.generator import generating
from bench.load import Load, WorkVerifier, command, measure, options
from bench.measurement import Measurement
from bench.process_cost import rss_kib
from bench.row import Effort, Pair, Row, Side, Turn, against
from bench.rows.data_plane import DATA_PLANE
from bench.stage import Stage

FEW, STEPS = 10, (1000, 5000)
_SETTLING_SECONDS = 0.3
_STREAMS, _RATE = 100, 50


def step_figure(streams: int) -> str:
    """Return the name of the figure for that many open streams."""
    return f"KiB a stream, {streams} open"


def measure_idle(contestant: Contestant, stage: Stage, turn: Turn) -> Measurement:  # noqa: ARG001 - it has no fixed duration
    """Open watches in steps on a new process, and return the memory per stream."""
    fresh_entry = replace(contestant.entry, name=f"{contestant.name} anew")
    steps = ",".join(map(str, (FEW, *STEPS)))
    with fresh_entry.start(fresh_entry, stage) as fresh:
        assert fresh.pid is not None
        witness, held = WorkVerifier(fresh, stage), []
        load = Load("watches", options(steps=steps))
        with generating(command(fresh, stage, load), fresh.name) as generator:
            for _ in (FEW, *STEPS):
                generator.start_phase()
                generator.wait_until_ready()
                time.sleep(_SETTLING_SECONDS)
                held.append(rss_kib(fresh.pid))
            generator.start_phase()
            requests = generator.report()["requests"]
        verified = witness.verify(requests)
    shares = {
        step_figure(streams): (more - held[0]) / (streams - FEW)
        for streams, more in zip(STEPS, held[1:], strict=True)
    }
    return Measurement(
        cost=shares[step_figure(STEPS[-1])],
        requests=requests,
        rss_kib=held[-1],
        extra=shares | verified,
    )


def measure_events(contestant: Contestant, stage: Stage, turn: Turn) -> Measurement:
    """Open watches with many events, and return the cost per event."""
    choices = options(connections=_STREAMS, rate=_RATE)
    return measure(contestant, stage, Load("events", choices, turn.seconds, requests=_STREAMS))


ROWS = (
    Row(
        name="watch-events",
        title=f"events of 1 KB, {_STREAMS} watches with {_RATE} a second each",
        unit="us of CPU an event",
        scene=DATA_PLANE,
        pairs=(
            *against("go-default", "us"),
            *against("go-default", "go-pooled", "wire", "envoy", is_aside=True),
        ),
        measure=measure_events,
        quick=Effort(rounds=3, seconds=0.5),
        full=Effort(rounds=9, seconds=3.0),
    ),
    Row(
        name="idle-watch",
        title="memory of idle watches, in a new process",
        unit="KiB a stream",
        scene=DATA_PLANE,
        pairs=(Pair(Side("us"), Side("go-default")),),
        measure=measure_idle,
        quick=Effort(rounds=1, seconds=0),
        full=Effort(rounds=3, seconds=0),
    ),
)
