"""Watches: what one holds while nothing happens, and what an event costs.

Memory is that of a process started for it, since one that has worked before holds free memory that
it would take new streams from. A stream's share is what the process grew by from a few open watches
to many, over how many were added; both connections of each are part of it.

Events are sent by the upstream at a steady rate that leaves the machine idle, so that latency is
that of the way and not of a queue. Each carries its number and when it was sent.
"""

import time
from dataclasses import replace

from bench.contestants import Contestant
from bench.generator import generating
from bench.load import Load, Witness, command, measure, options
from bench.measurement import Measurement
from bench.process_cost import rss_kib
from bench.row import Effort, Pair, Row, Side, Turn, against
from bench.rows.data_plane import DATA_PLANE
from bench.stage import Stage

FEW, STEPS = 10, (1000, 5000)
_SETTLING_SECONDS = 0.3
_STREAMS, _RATE = 100, 50


def step_figure(streams: int) -> str:
    """Return what a stream's share is called when that many are open."""
    return f"KiB a stream, {streams} open"


def measure_idle(contestant: Contestant, stage: Stage, turn: Turn) -> Measurement:  # noqa: ARG001 - as long as it takes
    """Open watches step by step on a process of its own, and return what each holds."""
    anew = replace(contestant.entry, name=f"{contestant.name} anew")
    steps = ",".join(map(str, (FEW, *STEPS)))
    with anew.start(anew, stage) as fresh:
        assert fresh.pid is not None
        witness, held = Witness(fresh, stage), []
        load = Load("watches", options(steps=steps))
        with generating(command(fresh, stage, load), fresh.name) as generator:
            for _ in (FEW, *STEPS):
                generator.go_on()
                generator.wait_until_ready()
                time.sleep(_SETTLING_SECONDS)
                held.append(rss_kib(fresh.pid))
            generator.go_on()
            requests = generator.report()["requests"]
        told = witness.testify(requests)
    shares = {
        step_figure(streams): (more - held[0]) / (streams - FEW)
        for streams, more in zip(STEPS, held[1:], strict=True)
    }
    return Measurement(
        cost=shares[step_figure(STEPS[-1])],
        requests=requests,
        rss_kib=held[-1],
        extra=shares | told,
    )


def measure_events(contestant: Contestant, stage: Stage, turn: Turn) -> Measurement:
    """Open watches with many events, and return what an event costs."""
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
        title="memory of watches on which nothing happens, in a process started for it",
        unit="KiB a stream",
        scene=DATA_PLANE,
        pairs=(Pair(Side("us"), Side("go-default")),),
        measure=measure_idle,
        quick=Effort(rounds=1, seconds=0),
        full=Effort(rounds=3, seconds=0),
    ),
)
