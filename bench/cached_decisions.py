"""What a decision costs that was made a moment ago: CPU that impersonation adds to a request.

The native server with impersonation headers beside the same server without, and we with them
beside us without. What a request costs apart from that falls out of the difference. The target is
`/version`, which costs either side little, so that less of it is left over as noise.
"""

import json
import statistics
import subprocess
from collections.abc import Sequence
from contextlib import contextmanager
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bench.control_plane import CALLER, VERSION, Cluster
from bench.cpu_time import fine_cpu_seconds
from bench.measurement import LoadReport, WrongAnswer
from proxy.sandbox.go_program import go_program
from proxy.sandbox.identities import write_secret

GROUP_COUNTS = (0, 10, 100)
_SELF: int | None = None
_CONNECTIONS = 8
_SOURCE = Path(__file__).with_name("go")


@dataclass(frozen=True, slots=True)
class Door:
    """One of the two sides: where to knock, and whose CPU is counted."""

    name: str
    url: str
    pid: int
    turns: dict[int | None, list[float]] = field(default_factory=dict)
    """Microseconds of CPU a request, by the groups that were asked for; None: nobody was."""

    def added(self, groups: int) -> list[float]:
        """Return what impersonation added in each round."""
        pairs = zip(self.turns[groups], self.turns[_SELF], strict=True)
        return [with_it - without for with_it, without in pairs]


@dataclass(frozen=True, slots=True)
class CachedFigures:
    """What impersonation adds on both sides, round by round, in microseconds of CPU."""

    us: list[float]
    native: list[float]

    def __str__(self) -> str:
        return f"us adds {_told(self.us)}, native adds {_told(self.native)}"


def _told(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} us ({min(values):.1f} to {max(values):.1f})"


def measure_cached(cluster: Cluster, *, rounds: int, seconds: float) -> dict[int, CachedFigures]:
    """Let both sides take turns, and return what impersonation adds, by the number of groups."""
    ours = cluster.us.running
    doors = [
        Door("us", ours.url, ours.process.pid),
        Door("native", cluster.native.url, cluster.native.process.pid),
    ]
    files = cluster.control_plane.directory
    token, authority = files / "bench-token", files / "server-ca.crt"
    write_secret(token, CALLER.token.value.encode())
    program = go_program("bench", _SOURCE)
    bodies = set()
    kinds = (_SELF, *GROUP_COUNTS)
    from contextlib import ExitStack
    gens={}
    if 1:
        for door in doors:
            for groups in kinds:
                command = [
                    str(program),
                    "walk",
                    f"--address={urlsplit(door.url).netloc}",
                    f"--authority={authority}",
                    f"--token-file={token}",
                    f"--target={VERSION}",
                    f"--connections={_CONNECTIONS}",
                    f"--seconds={seconds}",
                    *([] if groups is _SELF else ["--as=wanted", f"--groups={groups}"]),
                ]
                pipe = subprocess.PIPE
                gens[door.name,groups]=subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
                assert gens[door.name,groups].stdout.readline() == "ready\n"
    for number in range(rounds):
        for door in doors:
            for groups in kinds if number % 2 == 0 else kinds[::-1]:
                told, used = run(gens[door.name,groups], door.pid)
                bodies.add(told["bodySHA256"])
                door.turns.setdefault(groups, []).append(used / told["requests"] * 1e6)
    if len(bodies) != 1: raise WrongAnswer("bodies")
    for g in gens.values():
        g.stdin.close(); assert g.wait()==0
    us, native = doors
    for d in doors:
        for k,v in d.turns.items():
            print(d.name,k, "mean",round(statistics.mean(v),1),"median",round(statistics.median(v),1),"min",round(min(v),1), [round(x) for x in v])
    return {groups: CachedFigures(us.added(groups), native.added(groups)) for groups in GROUP_COUNTS}

def run(generator, pid):
        started = fine_cpu_seconds(pid)
        generator.stdin.write("start\n")
        generator.stdin.flush()
        line = generator.stdout.readline()
        used = fine_cpu_seconds(pid) - started
        return json.loads(line), used
