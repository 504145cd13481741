"""`python -m bench.small_get`: what a GET of 2 KB costs, as a ratio to Go's ReverseProxy.

Contestants take turns (A B C A B C ...), so that whatever else the machine does meets all of them.
The first figure is CPU time of the proxy process per request; the others depend on the machine.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from bench.compiled import compiled_code
from bench.contestants import ENTRIES, PLAIN, Contestant, Entry, as_compiled, from_checkout, running
from bench.measurement import Load, WrongAnswer, measure
from bench.report import Report, Turns, table, write_results
from bench.stage import running_stage
from proxy.sandbox.errors import SandboxError

RESULTS = Path(__file__).with_name("results")
_WARM_UP_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print its table, and return the exit code."""
    options = _parser().parse_args(arguments)
    load = Load(options.connections, options.seconds, min(_WARM_UP_SECONDS, options.seconds))
    try:
        entries = _entries(options.contestants, options.beside)
        if options.compiled:
            entries = _compiled(entries)
        report = run(entries, load, rounds=options.rounds)
    except subprocess.CalledProcessError as error:
        print(f"a part cannot be built: {error.stderr}", file=sys.stderr)
        return 1
    except (OSError, SandboxError, WrongAnswer) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n{table(report)}\n\nwritten to {write_results(report, options.results)}")
    return 0


def _entries(names: Sequence[str], checkout: Path | None) -> list[Entry]:
    """Return who was chosen; with another checkout, each of ours right after its other self."""
    entries: list[Entry] = []
    for entry in ENTRIES:
        if entry.name in names:
            if checkout is not None and entry.is_ours:
                entries.append(from_checkout(entry, checkout))
            entries.append(entry)
    return entries


def _compiled(entries: Sequence[Entry]) -> list[Entry]:
    """Return the same with our code compiled, but for the one that shows what it is without."""
    directory = compiled_code(Path(__file__).parent.parent)
    return [
        as_compiled(entry, directory)
        if entry.is_ours and entry.checkout is None and entry is not PLAIN
        else entry
        for entry in entries
    ]


def run(entries: Sequence[Entry], load: Load, *, rounds: int) -> Report:
    """Let the contestants take their turns, and return what came of it."""
    started_at, averages = datetime.now(UTC), [os.getloadavg()]
    with running_stage() as stage, ExitStack() as running_ones:
        contestants = [running_ones.enter_context(running(entry, stage)) for entry in entries]
        turns: Turns = {contestant.name: [] for contestant in contestants}
        for number in range(1, rounds + 1):
            for contestant in contestants:
                turns[contestant.name].append(measure(contestant, stage, load))
                _tell(number, contestant, turns)
            averages.append(os.getloadavg())
        reviews = stage.counts()
    _check_bodies(turns)
    return Report(started_at, load, entries, turns, reviews, averages)


def _tell(number: int, contestant: Contestant, turns: Turns) -> None:
    turn = turns[contestant.name][-1]
    print(f"round {number}: {contestant.name:10} {turn.cpu_microseconds:6.1f} us of CPU a request")


def _check_bodies(turns: Turns) -> None:
    digests = {turn.body_digest for measurements in turns.values() for turn in measurements}
    if len(digests) != 1:
        raise WrongAnswer(f"contestants returned different bodies: {sorted(digests)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.small_get", description=__doc__)
    names = [entry.name for entry in ENTRIES]
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant")
    parser.add_argument("--connections", type=int, default=64, help="clients at a time")
    parser.add_argument("--contestants", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument(
        "--beside", type=Path, metavar="CHECKOUT", help="compare with our code in that directory"
    )
    parser.add_argument(
        "--compiled", action="store_true", help="run our code compiled, which is a trial"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
