"""The benchmark: the proxy's cost as a ratio to other programs, measured within one run.

`python -m bench` is `make bench`. Concepts:

- A `Row` (`row.py`) is one kind of work and the figure that it measures; `unit` is that of `cost`.
- An `Entry` (`contestants.py`) is a program that can be measured, a `Contestant` one that runs.
- A `Scene` (`row.py`) is the environment of rows: what has to run first (the Go upstream, or a real
  control plane), and the available entries. Rows of one scene share it and its contestants. These
  are started once, all before the first turn.
- A turn is one measurement of one contestant; a `Measurement` (`measurement.py`) is its result.
- A `Pair` (`row.py`) names two contestants to compare. `turns.py` runs the two directly after each
  other, repeatedly. Only measurements of such neighbours are compared: the ratio is the median of
  all pairs, printed with its range.
- A `Bar` (`bars.py`) is a limit, as data. `make bench` exits with 1 if one is exceeded.

How to add a row, in a file under `rows/`:

```python
def _measure(contestant: Contestant, surroundings: MyScene, turn: Turn) -> Measurement:
    ...     # sends load for turn.seconds; raises WrongAnswer if any response is wrong

ROWS = (
    Row(
        name="cold-decision", title="First request of a caller", unit="us of CPU a request",
        scene=Scene("cluster", running_cluster, ENTRIES),
        pairs=(Pair(Side("us"), Side("native")), Pair(Side("us", "100 groups"), None)),
        measure=_measure, quick=Effort(rounds=2, seconds=0.5), full=Effort(rounds=5, seconds=5),
    ),
)
```

and add ROWS to `rows/catalogue.py`. `Side("us", "100 groups")` is the entry `us` under conditions
that only the row knows; they are passed as `turn.variant`. Growth is measured this way: as a pair
of the same contestant under two conditions. `Measurement.extra` is for figures of this row only; a
bar may name one of its keys as its `figure`.

How to add a contestant: add an `Entry` to `PEERS` of `peers/catalogue.py`. Its `start` takes the
entry and the stage, and is a context manager of a `Contestant`. Rows name kube-rbac-proxy,
kubectl-proxy, envoy and aiohttp. A contestant that is named but missing is skipped, and reported.

Results are verified. The load generator checks every status and every body's SHA-256. The upstream
counts the requests that arrive, and their user names. The proxy must have used its decision cache,
and written as many audit events as it served requests. CPU time is that of the whole process and
its children, all threads, user and system. Warm-up and connecting are excluded unless a row states
otherwise. While one contestant is measured, the others are running and idle. So are the connections
that the load generator keeps to them between turns (`generator.py`).

Results are written to `bench/results/`, which is not part of the repository: figures of one machine
say nothing about another. Figures that a decision relies on are in `docs/decisions/`.
"""
