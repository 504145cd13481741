"""`python -m bench.audit`: what an audit event of level Metadata costs.

Twice: the Python part alone, in this process; and the whole proxy with an audit file beside the
same proxy without one, in turns. The second is what counts, the first is what can be told apart on
a machine that does other things as well.
"""

import argparse
import json
import logging
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.audit_part import PartCost, measure_part
from bench.contestants import US, US_AUDITED
from bench.measurement import Load, WrongAnswer
from bench.report import Report
from bench.small_get import RESULTS, run
from proxy.sandbox.errors import SandboxError

_WARM_UP_SECONDS = 1.0
_BATCHES = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print what it found, and return the exit code."""
    options = _parser().parse_args(arguments)
    load = Load(options.connections, options.seconds, min(_WARM_UP_SECONDS, options.seconds))
    logging.disable()  # the access log is not what is measured here
    part = measure_part(batches=options.batches)
    logging.disable(logging.NOTSET)
    print(f"Python part: {part.one_event:.1f} us an event, {part.two_events:.1f} us for two stages")
    try:
        report = run([US, US_AUDITED], load, rounds=options.rounds)
    except subprocess.CalledProcessError as error:
        print(f"the Go parts cannot be built: {error.stderr}", file=sys.stderr)
        return 1
    except (OSError, SandboxError, WrongAnswer) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n{_summary(report)}\n\nwritten to {_write(report, part, options.results)}")
    return 0


def _added(report: Report) -> list[float]:
    """Return what the audit added to a request in each round, in microseconds of CPU."""
    turns = zip(report.turns[US_AUDITED.name], report.turns[US.name], strict=True)
    return [audited.cpu_microseconds - plain.cpu_microseconds for audited, plain in turns]


def _summary(report: Report) -> str:
    added = _added(report)
    return (
        f"whole proxy: {statistics.median(added):.1f} us of CPU a request "
        f"({min(added):.1f} to {max(added):.1f}), "
        f"ratio {report.ratio(US_AUDITED.name, US.name)}"
    )


def _write(report: Report, part: PartCost, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{report.started_at:%Y-%m-%dT%H%M%SZ}-audit.json"
    ratio = report.ratio(US_AUDITED.name, US.name)
    document = {
        "startedAt": report.started_at.isoformat(timespec="seconds"),
        "loadAverages": report.load_averages,
        "load": asdict(report.load),
        "pythonPart": asdict(part),
        "addedMicroseconds": _added(report),
        "ratio": None if ratio is None else asdict(ratio),
        "turns": {name: [asdict(turn) for turn in turns] for name, turns in report.turns.items()},
    }
    file.write_text(json.dumps(document, indent=1) + "\n")
    return file


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.audit", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--connections", type=int, default=64, help="clients at a time")
    parser.add_argument("--batches", type=int, default=_BATCHES, help="of the Python part")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
