"""`python -m bench.capacity RESULTS.json`: what a large cluster needs, from what a run measured.

On paper: rates times costs. It prints the costs it took and the plan, as they stand in
`docs/capacity-planning.md`; a contract test holds that the two agree there.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_KIB_PER_GIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What things cost one process of ours. Microseconds are of CPU."""

    request_microseconds: float
    """A small request on an open connection, decided from memory, with an audit event."""
    new_decision_microseconds: float
    """Such a request with a decision that has to be asked for."""
    connection_microseconds: float
    """A new connection, and a request on it."""
    event_microseconds: float
    stream_kib: float
    """An idle watch with both of its connections."""
    process_mib: float
    """A process that has served and holds no streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Who is there. Every watch has a connection of its own, since we speak HTTP/1.1."""

    nodes: int = 5000
    agents_per_node: int = 2
    watches_per_agent: int = 5
    requests_per_agent: float = 0.2
    """A second, apart from watches."""
    events_per_watch: float = 0.05
    """A second."""
    watch_seconds: float = 450
    """How long a watch lasts before its client asks anew: client-go takes 5 to 10 minutes."""
    connection_age_seconds: float = 3600
    """`serving.maxConnectionAge`."""
    connections_per_replica: int = 10_000
    """`serving.limits.connections`."""
    highest_load: float = 0.5
    """Share of a replica's core that is in use when all goes well."""

    @property
    def agents(self) -> int:
        """All agents of all nodes."""
        return self.nodes * self.agents_per_node

    @property
    def streams(self) -> int:
        """All watches."""
        return self.agents * self.watches_per_agent

    @property
    def connections(self) -> int:
        """One for each watch, and one for an agent's other requests."""
        return self.streams + self.agents

    @property
    def requests(self) -> float:
        """A second, watches that begin anew among them."""
        return self.agents * self.requests_per_agent + self.streams / self.watch_seconds

    @property
    def events(self) -> float:
        """A second."""
        return self.streams * self.events_per_watch

    @property
    def new_connections(self) -> float:
        """A second."""
        return self.connections / self.connection_age_seconds


@dataclass(frozen=True, slots=True)
class Plan:
    """What the fleet needs. Cores are used, not reserved."""

    request_cores: float
    event_cores: float
    connection_cores: float
    reviews_per_caller: float
    """A second at one replica: all agents of a kind share an account, and are one caller."""
    replicas: int
    """One more than are needed, so that one may be lost or replaced."""
    streams_each: int
    """Of a replica while one is missing."""
    memory_gib_each: float
    """With that many."""
    recovery_seconds: float
    """Until the watches of a lost replica are open at the others."""

    @property
    def cores(self) -> float:
        """All that is used."""
        return self.request_cores + self.event_cores + self.connection_cores


def plan(fleet: Fleet, costs: Costs, *, from_memory: bool) -> Plan:
    """Return what a fleet needs if all its decisions are from memory, or if none is."""
    request = costs.request_microseconds if from_memory else costs.new_decision_microseconds
    request_cores = fleet.requests * request / 1e6
    event_cores = fleet.events * costs.event_microseconds / 1e6
    connection_cores = fleet.new_connections * costs.connection_microseconds / 1e6
    cores = request_cores + event_cores + connection_cores
    needed = max(
        math.ceil(cores / fleet.highest_load),
        math.ceil(fleet.connections / fleet.connections_per_replica),
    )
    streams_each = math.ceil(fleet.streams / needed)
    memory_kib = costs.process_mib * 1024 + streams_each * costs.stream_kib
    # A new connection, and behind it a decision that no other replica has in memory.
    again_seconds = (costs.connection_microseconds + costs.new_decision_microseconds) / 1e6
    lost = fleet.connections / (needed + 1)
    spare_cores = needed - cores
    return Plan(
        request_cores,
        event_cores,
        connection_cores,
        reviews_per_caller=0.0 if from_memory else fleet.requests / fleet.agents_per_node / needed,
        replicas=needed + 1,
        streams_each=streams_each,
        memory_gib_each=memory_kib / _KIB_PER_GIB,
        recovery_seconds=lost * again_seconds / spare_cores,
    )


def costs_of(results: dict[str, Any]) -> Costs:
    """Read the costs from a run's JSON; KeyError or ValueError if a row is not in it."""
    rows = {row["name"]: row for row in results["rows"]}
    small = rows["small-get-c64"]

    def median(row: str, contestant: str) -> float:
        return float(rows[row]["costs"][contestant]["median"])

    memory = rows["decision-memory"]["turns"]
    return Costs(
        request_microseconds=round(median("small-get-c64", "us+audit"), 1),
        new_decision_microseconds=round(_extra(memory, "us of CPU a new decision"), 1),
        connection_microseconds=round(median("new-connection", "us"), 1),
        event_microseconds=round(median("watch-events", "us"), 1),
        stream_kib=round(median("idle-watch", "us"), 1),
        process_mib=round(_process_mib(small["turns"]), 1),
    )


def _extra(turns: Iterable[dict[str, Any]], name: str) -> float:
    return statistics.median(float(turn["extra"][name]) for turn in turns if name in turn["extra"])


def _process_mib(turns: Iterable[dict[str, Any]]) -> float:
    held = [float(turn["rss_kib"]) for turn in turns if turn["contestant"] == "us+audit"]
    return statistics.median(held) / 1024


def described(fleet: Fleet, costs: Costs) -> str:
    """Return the plan as a table: every decision from memory, and every one asked for."""
    known, new = (plan(fleet, costs, from_memory=each) for each in (True, False))
    who = f"{_count(fleet.nodes)} nodes, {_count(fleet.agents)} agents"
    requests = f"{_count(fleet.requests)} requests/s"
    lines = [
        f"| {who}, {_count(fleet.streams)} watches | decisions from memory | every decision new |",
        "| --- | ---: | ---: |",
        _line(requests, "cores", known.request_cores, new.request_cores),
        _line(f"{_count(fleet.events)} events/s", "cores", known.event_cores, new.event_cores),
        _line(
            f"{_count(fleet.new_connections)} new connections/s",
            "cores",
            known.connection_cores,
            new.connection_cores,
        ),
        _line("all together", "cores", known.cores, new.cores),
        f"| reviews at the API server | few | {_count(fleet.requests)}/s |",
        f"| of these for one caller at one replica | few | {_count(new.reviews_per_caller)}/s |",
        f"| replicas, one of them spare | {known.replicas} | {new.replicas} |",
        f"| watches of each while one is missing | {_count(known.streams_each)} | "
        f"{_count(new.streams_each)} |",
        _line("memory of each then", "GiB", known.memory_gib_each, new.memory_gib_each),
        _line(
            "until a lost one's clients are back", "s", known.recovery_seconds, new.recovery_seconds
        ),
    ]
    return "\n".join(lines)


def _line(what: str, unit: str, known: float, new: float) -> str:
    return f"| {what} | {known:.2f} {unit} | {new:.2f} {unit} |"


def _count(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print costs and plan, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=__doc__)
    parser.add_argument("results", type=Path)
    options = parser.parse_args(arguments)
    try:
        costs = costs_of(json.loads(options.results.read_text()))
    except (OSError, KeyError, ValueError) as error:
        print(f"{options.results} has not all that is needed: {error!r}", file=sys.stderr)
        return 1
    print(f"```json\n{json.dumps(asdict(costs), indent=2)}\n```\n\n{described(Fleet(), costs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
