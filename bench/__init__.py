"""What the proxy costs beside others, as ratios inside one run. `python -m bench` is `make bench`.

How to read it:

- A `Row` (`row.py`) is one kind of work and the figure it is about: `unit` says what `cost` is in.
- An `Entry` (`contestants.py`) is somebody who may take part, a `Contestant` is one that runs.
- A `Scene` (`row.py`) is what rows are played in: what has to run first (the Go upstream, or a real
  control plane), and the entries there are. Rows of one scene share it, and its contestants, which
  are started once, all before the first turn.
- A `Pair` (`row.py`) says who is compared with whom. `turns.py` plays the two directly after each
  other, again and again, and only measurements of such neighbours are compared: the ratio is the
  median of all pairs, told with its range.
- A `Measurement` (`measurement.py`) is what came of one turn.
- A `Bar` (`bars.py`) is what must hold, as data; `make bench` ends with 1 if one is missed.

How to add a row, in a file under `rows/`:

    def _measure(contestant: Contestant, surroundings: MyScene, turn: Turn) -> Measurement:
        ...     # sends load for turn.seconds; raises WrongAnswer if any answer is off

    ROWS = (
        Row(
            name="cold-decision", title="First request of a caller", unit="us of CPU a request",
            scene=Scene("cluster", running_cluster, ENTRIES),
            pairs=(Pair(Side("us"), Side("native")), Pair(Side("us", "100 groups"), None)),
            measure=_measure, quick=Effort(rounds=2, seconds=0.5), full=Effort(rounds=5, seconds=5),
        ),
    )

and add ROWS to `rows/catalogue.py`. `Side("us", "100 groups")` is the entry `us` under conditions
that only the row knows; they come as `turn.variant`. That is how growth is shown: as a pair of
the same contestant under two conditions. `Measurement.extra` is for what no other row tells; a bar
may name one of its keys as its `figure`.

How to add a contestant: an `Entry` with its `start`, a function that takes the entry and the stage
and is a context manager of a `Contestant`; into `PEERS` of `peers/catalogue.py`. Rows name them
already: kube-rbac-proxy, kubectl-proxy, envoy, aiohttp. Who is named and not there is left out, and
told.

A number that cannot be fooled: every status and every body's SHA-256 is checked by the load
generator, what arrived upstream is counted and by which name, and ours must have decided from
memory and written as many audit events as it served requests. CPU is that of the whole process and
its children, all threads, user and system; warm-up and connecting are outside of it unless a row
says otherwise. While one contestant works, the others run and idle, and so do the connections that
the load generator keeps to them between turns (`generator.py`).

Results go to `bench/results/`, which is not part of the repository: figures of one machine say
nothing about another. Those that a decision rests on are in `docs/decisions/`.
"""
