"""Requests on connections that stay open: small ones, large ones, and those with a body.

The cost of kube-rbac-proxy at 64 connections is mostly that of Go's default of two idle upstream
connections, which cannot be configured. With one connection this does not apply, so that row is
shown as well.

The mixture is eight small GETs and a list, alternating on each of 16 connections, so it is the same
for fast and slow contestants. Its cost is that of all requests, its latency that of the small ones.
"""

from bench.contestants import Contestant
from bench.load import Load, measure, options
from bench.measurement import Measurement
from bench.row import Effort, Measure, Pair, Row, Side, Turn, against
from bench.rows.data_plane import DATA_PLANE, REQUEST
from bench.stage import Stage

_PEERS = ("kube-rbac-proxy", "kubectl-proxy", "aiohttp")
_QUICK, _FULL = Effort(rounds=3, seconds=0.3), Effort(rounds=9, seconds=2.0)
# For the row that most bars use.
_CAREFUL = Effort(rounds=9, seconds=0.3), Effort(rounds=12, seconds=2.0)
_SHORT = Effort(rounds=2, seconds=0.3), _FULL


def sending(work: str, choices: tuple[str, ...]) -> Measure:
    """Return the measuring function for a turn of such requests."""

    def measure_turn(contestant: Contestant, stage: Stage, turn: Turn) -> Measurement:
        return measure(contestant, stage, Load(work, choices, turn.seconds))

    return measure_turn


def _row(
    name: str,
    title: str,
    pairs: tuple[Pair, ...],
    measure_turn: Measure,
    effort: tuple[Effort, Effort] = (_QUICK, _FULL),
) -> Row:
    quick, full = effort
    return Row(name, title, REQUEST, DATA_PLANE, pairs, measure_turn, quick=quick, full=full)


ROWS = (
    _row(
        "small-get-c64",
        "GET of 2 KB, 64 connections",
        (
            *against("go-default", "us"),
            *against("us", "us+audit"),
            *against("go-default", "us+audit"),
            *against("go-pooled", "us"),
            *against("envoy", "us"),
            *against("go-default", "go-pooled", "wire", *_PEERS, is_aside=True),
            Pair(Side("direct"), is_aside=True),
        ),
        sending("get", options(connections=64)),
        _CAREFUL,
    ),
    _row(
        "small-get-c1",
        "GET of 2 KB, one connection",
        (
            *against("go-default", "us"),
            *against("go-default", "go-pooled", "wire", "envoy", *_PEERS, is_aside=True),
            Pair(Side("direct"), is_aside=True),
        ),
        sending("get", options(connections=1)),
    ),
    _row(
        "small-get-c1000",
        "GET of 2 KB, 1000 connections",
        (
            *against("go-default", "us"),
            *against("us", "envoy", is_aside=True),
        ),
        sending("get", options(connections=1000)),
        _SHORT,
    ),
    _row(
        "list-500k",
        "list of 500 KB, 16 connections",
        (
            *against("go-default", "us"),
            *against("go-default", "go-pooled", "envoy", "aiohttp", is_aside=True),
        ),
        sending("list", options(connections=16)),
    ),
    _row(
        "post-10k",
        "POST of 10 KB, 64 connections",
        (
            *against("go-default", "us", "us+audit"),
            *against("go-default", "envoy", is_aside=True),
        ),
        sending("post", options(connections=64)),
        _SHORT,
    ),
    _row(
        "mixed",
        "eight GETs of 2 KB and a list of 500 KB alternating, 16 connections; latency of the GETs",
        (
            *against("go-default", "us"),
            *against("go-default", "go-pooled", "envoy", is_aside=True),
        ),
        sending("mixed", options(connections=16)),
    ),
)
