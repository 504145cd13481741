"""The environment of all rows without a real API server: a Go upstream that imitates one."""

from bench.contestants import ENTRIES
from bench.peers.catalogue import PEERS
from bench.row import Scene
from bench.stage import running_stage
from bench.wire_contestant import WIRE

DATA_PLANE = Scene("data plane", running_stage, (*ENTRIES, WIRE, *PEERS))
REQUEST = "us of CPU a request"
