"""The cost of connections: a new one for each request, and many concurrent ones.

Growth from one connection to a thousand is measured twice. The cost of a request is compared with
that of a client that is `alone` on the only connection. `999 idle`: the same client, and 999
connections that have had a response and stay open. `1000 at once`: a thousand clients that send
requests continuously. The first shows the cost of open connections for others, the second the cost
of contention. Both ratios are flat if no work per request depends on the number of connections.
"""

from bench.contestants import Contestant
from bench.load import Load, measure, options
from bench.measurement import Measurement
from bench.row import Effort, Pair, Row, Side, Turn, against
from bench.rows.data_plane import DATA_PLANE, REQUEST
from bench.rows.requests import sending
from bench.stage import Stage

_VARIANTS = {
    "alone": options(connections=1),
    "999 idle": options(connections=1, idle=999),
    "1000 at once": options(connections=1000),
}


def _measure_many(contestant: Contestant, stage: Stage, turn: Turn) -> Measurement:
    # Not kept, so that the variant `alone` has the only connection.
    load = Load("get", _VARIANTS[turn.variant], turn.seconds, is_kept=False)
    return measure(contestant, stage, load)


_ALONE = Side("us", "alone")

ROWS = (
    Row(
        name="new-connection",
        title="GET of 2 KB, each on a new connection with a full TLS handshake, 8 at a time",
        unit=REQUEST,
        scene=DATA_PLANE,
        pairs=(
            *against("go-default", "us"),
            *against("go-default", "envoy", "kube-rbac-proxy", is_aside=True),
        ),
        measure=sending("connecting", options(connections=8)),
        quick=Effort(rounds=2, seconds=0.3),
        full=Effort(rounds=9, seconds=2.0),
    ),
    Row(
        name="connections",
        title="GET of 2 KB by one client alone, beside 999 idle ones, and by 1000 at once",
        unit=REQUEST,
        scene=DATA_PLANE,
        pairs=(Pair(Side("us", "999 idle"), _ALONE), Pair(Side("us", "1000 at once"), _ALONE)),
        measure=_measure_many,
        quick=Effort(rounds=3, seconds=0.3),
        full=Effort(rounds=9, seconds=2.0),
    ),
)
