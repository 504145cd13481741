"""`python -m bench`: compare the proxy's cost with other programs, in one run.

    --only ROW ...          rows whose names start with one of these
    --contestants NAME ...  only these contestants
    --quick                 short turns and few rounds
    --beside CHECKOUT       also compare the proxy with its code in another checkout
    --slowed-by MICROSECONDS  add that much busy waiting to every request: bars must be missed

The exit code is 1 if a bar is missed or a contestant returned wrong responses.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench.bars import evaluate_bars
from bench.cast import Selection
from bench.measurement import WrongAnswer
from bench.results import RESULTS, Outcome, write_results
from bench.row import Row
from bench.rows.catalogue import ROWS
from bench.run import Extent, run
from bench.slowed import slowed_code
from bench.table import legend, progress, table
from proxy.sandbox.errors import SandboxError

PROJECT = Path(__file__).parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print its tables, and return the exit code."""
    options = _parser().parse_args(arguments)
    rows = [row for row in ROWS if not options.only or row.name.startswith(tuple(options.only))]
    if not rows:
        print(f"no such row; there are {', '.join(row.name for row in ROWS)}", file=sys.stderr)
        return 2
    unknown = set(options.contestants) - {entry.name for row in rows for entry in row.scene.entries}
    if unknown:
        print(f"no such contestant in these rows: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    _raise_open_file_limit()
    try:
        with _cast(options) as cast:
            outcome = _play(rows, cast, Extent(options.quick, options.rounds, options.seconds))
    except subprocess.CalledProcessError as error:
        print(f"cannot build a component: {error.stderr}", file=sys.stderr)
        return 1
    except (OSError, SandboxError, WrongAnswer) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{legend(played for played, _ in outcome.rows)}\n")
    file = write_results(outcome, options.results)
    print(f"written to {file}")
    if options.drawing is not None:
        _draw(file, options.drawing)
    for missed in outcome.missed:
        print(f"{missed.bar.row}: {missed}")
    return 1 if outcome.missed else 0


def _play(rows: Sequence[Row], cast: Selection, extent: Extent) -> Outcome:
    for name in cast.missing(rows):
        print(f"skipped: no contestant {name}")
    outcome = Outcome(datetime.now(UTC), extent.is_quick)
    for played in run(rows, cast, extent, lambda *turn: print(progress(*turn), flush=True)):
        judgements = evaluate_bars(played)
        if cast.names:  # bars of contestants that were not chosen are omitted
            judgements = [judgement for judgement in judgements if judgement.found is not None]
        outcome.rows.append((played, judgements))
        print(f"\n{table(played, judgements)}\n", flush=True)
    return outcome


@contextmanager
def _cast(options: argparse.Namespace) -> Iterator[Selection]:
    names = frozenset(options.contestants)
    with tempfile.TemporaryDirectory(prefix="understudy-slowed-") as directory:
        code = None
        if options.slowed_by is not None:
            code = slowed_code(PROJECT, Path(directory), microseconds=options.slowed_by)
        yield Selection(names, code, options.beside)


def _draw(file: Path, drawing: Path) -> None:
    """Draw the chart in a separate process, because matplotlib is installed separately."""
    picture = file.with_suffix(".png")
    subprocess.run(
        [sys.executable, "-m", "bench.chart", file, picture],
        env=os.environ | {"PYTHONPATH": str(drawing)},
        cwd=PROJECT,
        check=True,
    )
    print(f"drawn to {picture}")


def _raise_open_file_limit() -> None:
    """Raise the open-file limit for this process and its children: a stream needs two files."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW")
    parser.add_argument("--contestants", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--seconds", type=float, help="duration of one turn")
    parser.add_argument("--rounds", type=int, help="how often each row is run")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT")
    parser.add_argument("--slowed-by", type=float, metavar="MICROSECONDS")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="directory of the JSON result"
    )
    parser.add_argument(
        "--drawing",
        type=Path,
        metavar="DIRECTORY",
        help="draw a chart with the matplotlib in this directory",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
