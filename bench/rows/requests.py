"""Requests on open connections: small ones, large ones, and those with a body."""

from collections.abc import Sequence

from bench.contestants import Contestant
from bench.load import Load, measure, options
from bench.measurement import Measurement
from bench.row import Effort, Measure, Pair, Row, Side, Turn, against
from bench.rows.data_plane import DATA_PLANE, REQUEST
from bench.stage import Stage


def sending(work: str, choices: Sequence[str]) -> Measure:
    """Return how a turn of such requests is measured."""

    def measure_turn(contestant: Contestant, stage: Stage, turn: Turn) -> Measurement:
        return measure(contestant, stage, Load(work, tuple(choices), turn.seconds))

    return measure_turn


_PEERS = ("kube-rbac-proxy", "kubectl-proxy", "aiohttp")

ROWS = (
    Row(
        name="small-get-c64",
        title="GET of 2 KB, 64 connections",
        unit=REQUEST,
        scene=DATA_PLANE,
        pairs=(
            *against("go-default", "us"),
            *against("go-pooled", "us"),
            *against("envoy", "us"),
            *against("us", "us+audit"),
            *against("go-default", "us+audit"),
            *against("go-default", "go-pooled", *_PEERS, is_aside=True),
            Pair(Side("direct"), is_aside=True),
        ),
        measure=sending("get", options(connections=64)),
        quick=Effort(rounds=6, seconds=0.5),
        full=Effort(rounds=12, seconds=2.0),
    ),
)
