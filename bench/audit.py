"""`python -m bench.audit`: the cost of an audit event of level Metadata.

Measured twice: the Python part alone, in this process; and the whole proxy with an audit file
compared with the same proxy without one, alternating. The second figure is the relevant one. The
first is precise enough on a machine with other load.
"""

import argparse
import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.audit_part import PartCost, measure_part
from bench.cast import Selection
from bench.load import options as load_options
from bench.measurement import WrongAnswer
from bench.results import RESULTS, row_document
from bench.row import Effort, Row, against
from bench.rows.data_plane import DATA_PLANE, REQUEST
from bench.rows.requests import sending
from bench.run import Extent, run
from bench.table import progress
from bench.turns import RowResult
from proxy.sandbox.errors import SandboxError

_BATCHES = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print what it found, and return the exit code."""
    options = _parser().parse_args(arguments)
    logging.disable()  # the access log is not measured here
    part = measure_part(batches=options.batches)
    logging.disable(logging.NOTSET)
    print(f"Python part: {part.one_event:.1f} us an event, {part.two_events:.1f} us for two stages")
    try:
        row = _row(options.connections, Effort(options.rounds, options.seconds))
        (played,) = run(
            [row], Selection(), Extent(), lambda *turn: print(progress(*turn), flush=True)
        )
    except subprocess.CalledProcessError as error:
        print(f"cannot build the Go program: {error.stderr}", file=sys.stderr)
        return 1
    except (OSError, SandboxError, WrongAnswer) as error:
        print(error, file=sys.stderr)
        return 1
    added, ratio = played.added("us+audit", "us"), played.ratio("us+audit", "us")
    print(f"\nwhole proxy: {added} us of CPU a request, ratio {ratio}")
    print(f"\nwritten to {_write(played, part, options.results)}")
    return 0


def _row(connections: int, effort: Effort) -> Row:
    return Row(
        name="audit",
        title="GET of 2 KB with and without an audit file",
        unit=REQUEST,
        scene=DATA_PLANE,
        pairs=against("us", "us+audit"),
        measure=sending("get", load_options(connections=connections)),
        quick=effort,
        full=effort,
    )


def _write(played: RowResult, part: PartCost, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    started_at = datetime.now(UTC)
    file = directory / f"{started_at:%Y-%m-%dT%H%M%SZ}-audit.json"
    document = {"startedAt": started_at.isoformat(timespec="seconds"), "pythonPart": asdict(part)}
    file.write_text(json.dumps(document | row_document(played, []), indent=1) + "\n")
    return file


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.audit", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of one turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant")
    parser.add_argument("--connections", type=int, default=64, help="concurrent clients")
    parser.add_argument("--batches", type=int, default=_BATCHES, help="batches of the Python part")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="directory of the JSON result"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
