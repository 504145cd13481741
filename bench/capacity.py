"""`python -m bench.capacity RESULTS.json`: the capacity that a large cluster needs.

Computed from the costs of a benchmark run: rates times costs. It prints the costs and the plan as
they are in `docs/capacity-planning.md`; a contract test asserts that the two agree there.
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
    """The costs of one proxy process. Microseconds are CPU time."""

    request_microseconds: float
    """A small request on an open connection, with a cached decision and an audit event."""
    new_decision_microseconds: float
    """Such a request with a decision that needs reviews."""
    connection_microseconds: float
    """A new connection, and a request on it."""
    event_microseconds: float
    stream_kib: float
    """An idle watch, with its client and its upstream connection."""
    process_mib: float
    """A process that has served requests and has no open streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The clients. Every watch has its own connection, because the proxy uses HTTP/1.1."""

    nodes: int = 5000
    agents_per_node: int = 2
    watches_per_agent: int = 5
    requests_per_agent: float = 0.2
    """Per second, without watches."""
    events_per_watch: float = 0.05
    """Per second."""
    watch_seconds: float = 450
    """How long a watch lasts before its client renews it: 5 to 10 minutes with client-go."""
    connection_age_seconds: float = 3600
    """`serving.maxConnectionAge`."""
    connections_per_replica: int = 10_000
    """`serving.limits.connections`."""
    highest_load: float = 0.5
    """The target share of a replica's core in normal operation."""

    @property
    def agents(self) -> int:
        """Return the number of agents."""
        return self.nodes * self.agents_per_node

    @property
    def streams(self) -> int:
        """Return the number of watches."""
        return self.agents * self.watches_per_agent

    @property
    def connections(self) -> int:
        """Return the number of connections: one per watch, and one per agent for other requests."""
        return self.streams + self.agents

    @property
    def requests(self) -> float:
        """Return the requests per second, including renewed watches."""
        return self.agents * self.requests_per_agent + self.streams / self.watch_seconds

    @property
    def events(self) -> float:
        """Return the watch events per second."""
        return self.streams * self.events_per_watch

    @property
    def new_connections(self) -> float:
        """Return the new connections per second."""
        return self.connections / self.connection_age_seconds


@dataclass(frozen=True, slots=True)
class Plan:
    """The capacity that a fleet needs. Cores are used, not reserved."""

    request_cores: float
    event_cores: float
    connection_cores: float
    reviews_per_caller: float
    """Per second at one replica: all agents of a kind share an account, and are one caller."""
    replicas: int
    """One more than needed, so that one may fail or be replaced."""
    streams_each: int
    """The streams of a replica while one is missing."""
    memory_gib_each: float
    """The memory of a replica with that many streams."""
    recovery_seconds: float
    """The time until the watches of a lost replica are open at the others."""

    @property
    def cores(self) -> float:
        """Return the total of used cores."""
        return self.request_cores + self.event_cores + self.connection_cores


def plan(fleet: Fleet, costs: Costs, *, from_memory: bool) -> Plan:
    """Return the capacity that a fleet needs if all its decisions are cached, or none."""
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
    # A new connection, and a decision that no other replica has in its cache.
    reconnect_seconds = (costs.connection_microseconds + costs.new_decision_microseconds) / 1e6
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
        recovery_seconds=lost * reconnect_seconds / spare_cores,
    )


def costs_of(results: dict[str, Any]) -> Costs:
    """Read the costs from a run's JSON; KeyError or ValueError if a row is missing."""
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


def plan_table(fleet: Fleet, costs: Costs) -> str:
    """Return the plan as a table, for cached decisions and for new decisions."""
    cached, new = (plan(fleet, costs, from_memory=each) for each in (True, False))
    clients = f"{_count(fleet.nodes)} nodes, {_count(fleet.agents)} agents"
    requests = f"{_count(fleet.requests)} requests/s"
    lines = [
        f"| {clients}, {_count(fleet.streams)} watches | cached decisions | new decisions |",
        "| --- | ---: | ---: |",
        _line(requests, "cores", cached.request_cores, new.request_cores),
        _line(f"{_count(fleet.events)} events/s", "cores", cached.event_cores, new.event_cores),
        _line(
            f"{_count(fleet.new_connections)} new connections/s",
            "cores",
            cached.connection_cores,
            new.connection_cores,
        ),
        _line("total", "cores", cached.cores, new.cores),
        f"| reviews at the API server | few | {_count(fleet.requests)}/s |",
        f"| of these for one caller at one replica | few | {_count(new.reviews_per_caller)}/s |",
        f"| replicas, one of them spare | {cached.replicas} | {new.replicas} |",
        f"| watches per replica while one is missing | {_count(cached.streams_each)} | "
        f"{_count(new.streams_each)} |",
        _line(
            "memory per replica in that case", "GiB", cached.memory_gib_each, new.memory_gib_each
        ),
        _line(
            "recovery time after the loss of a replica",
            "s",
            cached.recovery_seconds,
            new.recovery_seconds,
        ),
    ]
    return "\n".join(lines)


def _line(label: str, unit: str, cached: float, new: float) -> str:
    return f"| {label} | {cached:.2f} {unit} | {new:.2f} {unit} |"


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
        print(f"{options.results} lacks a required result: {error!r}", file=sys.stderr)
        return 1
    print(f"```json\n{json.dumps(asdict(costs), indent=2)}\n```\n\n{plan_table(Fleet(), costs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
