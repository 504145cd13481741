"""The capacity plan is rates times costs, and nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.capacity import Costs, Fleet, costs_of, main, plan, plan_table

COSTS = Costs(
    request_microseconds=100,
    new_decision_microseconds=1000,
    connection_microseconds=2000,
    event_microseconds=50,
    stream_kib=50,
    process_mib=100,
)
FLEET = Fleet(
    nodes=100,
    agents_per_node=2,
    watches_per_agent=5,
    requests_per_agent=10,
    events_per_watch=2,
    watch_seconds=100,
    connection_age_seconds=600,
    connections_per_replica=10_000,
    highest_load=0.5,
)


def test_rates_are_those_of_all_agents() -> None:
    assert (FLEET.agents, FLEET.streams, FLEET.connections) == (200, 1000, 1200)
    # 200 agents with ten a second each, and every hundredth watch begins anew in a second.
    assert FLEET.requests == 2010
    assert FLEET.events == 2000
    assert FLEET.new_connections == 2


def test_cores_are_rates_times_costs() -> None:
    found = plan(FLEET, COSTS, from_memory=True)

    assert found.request_cores == pytest.approx(0.201)
    assert found.event_cores == pytest.approx(0.1)
    assert found.connection_cores == pytest.approx(0.004)
    assert found.cores == pytest.approx(0.305)


def test_new_decisions_need_more_of_everything() -> None:
    known, new = (plan(FLEET, COSTS, from_memory=each) for each in (True, False))

    assert new.request_cores == pytest.approx(2.01)
    assert new.replicas == 5 + 1  # 2.11 cores at half load
    assert known.replicas == 1 + 1
    # Two kinds of agents are two callers, at five replicas.
    assert new.reviews_per_caller == 201
    assert known.reviews_per_caller == 0


def test_connections_may_need_more_replicas_than_cpu() -> None:
    found = plan(replace(FLEET, connections_per_replica=100), COSTS, from_memory=True)

    assert found.replicas == 12 + 1
    assert found.streams_each == 84


def test_memory_is_that_of_the_streams_while_a_replica_is_missing() -> None:
    found = plan(FLEET, COSTS, from_memory=True)

    assert found.memory_gib_each == pytest.approx((100 * 1024 + 1000 * 50) / 1024**2)


def test_the_clients_of_a_lost_replica_come_back_with_new_decisions() -> None:
    found = plan(FLEET, COSTS, from_memory=True)

    # Half of 1200 connections, 3 ms each, on what the one that is left does not use.
    assert found.recovery_seconds == pytest.approx(600 * 0.003 / (1 - 0.305))


RESULTS = {
    "rows": [
        {
            "name": "small-get-c64",
            "costs": {"us+audit": {"median": 80.04}},
            "turns": [
                {"contestant": "us+audit", "rss_kib": 102400, "extra": {}},
                {"contestant": "go-default", "rss_kib": 1, "extra": {}},
            ],
        },
        {"name": "new-connection", "costs": {"us": {"median": 900}}},
        {"name": "watch-events", "costs": {"us": {"median": 40}}},
        {"name": "idle-watch", "costs": {"us": {"median": 45}}},
        {
            "name": "decision-memory",
            "turns": [{"extra": {"us of CPU a new decision": 700}}, {"extra": {}}],
        },
    ]
}


def test_costs_are_read_from_a_run() -> None:
    assert costs_of(RESULTS) == Costs(
        request_microseconds=80.0,
        new_decision_microseconds=700,
        connection_microseconds=900,
        event_microseconds=40,
        stream_kib=45,
        process_mib=100,
    )


def test_the_plan_is_printed_with_the_costs_it_rests_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(RESULTS))

    code = main([str(file)])

    told = capsys.readouterr().out
    assert code == 0
    assert '"stream_kib": 45' in told
    assert plan_table(Fleet(), costs_of(RESULTS)) in told


def test_a_run_without_a_row_gives_no_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"rows": RESULTS["rows"][:2]}))

    assert main([str(file)]) == 1
    assert "lacks a required result" in capsys.readouterr().err
