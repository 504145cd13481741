"""`python -m tests.complexity`: measure every case, print the worst, fail if one misses a bar."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.complexity.measuring import (
    BAR_BYTES,
    MOST_GROWTH,
    MOST_MILLISECONDS,
    Case,
    Figures,
    measure,
)
from tests.complexity.parser_cases import parser_cases
from tests.complexity.path_cases import path_cases
from tests.complexity.served_proxy import served_proxy

KINDS = ("parser", "unauthenticated", "authenticated", "impersonating")
_CASES_PER_PROGRESS_LINE = 100
_USERS = {"unauthenticated": None, "authenticated": "alice", "impersonating": "alice"}


def main(arguments: Sequence[str]) -> int:
    """Return 0 if every case is within the bars."""
    parser = argparse.ArgumentParser(prog="python -m tests.complexity", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="cases whose name has this in it"
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="which cases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.add_argument("--worst", type=int, default=20, metavar="N", help="rows of the table")
    parser.add_argument("--once", action="store_true", help="measure no case a second time")
    options = parser.parse_args(arguments)
    measured: list[Figures] = []
    started = time.monotonic()
    for case in _cases(options.kinds):
        if options.only in case.name:
            measured.append(measure(case, repeats=not options.once))
            if measured[-1].faults:
                _say(f"MISSED {case.name}: {', '.join(measured[-1].faults)}")
            if len(measured) % _CASES_PER_PROGRESS_LINE == 0:
                _say_progress(measured, started)
    if options.json is not None:
        options.json.write_text(json.dumps([one.as_json() for one in measured], indent=1))
    _tell(measured, options.worst)
    missed = sum(bool(one.faults) for one in measured)
    _say(
        f"complexity: {len(measured)} cases in {time.monotonic() - started:.0f} s, {missed} above "
        f"{MOST_MILLISECONDS:.0f} ms for {BAR_BYTES // 1024} KiB or a growth of {MOST_GROWTH}"
    )
    return 1 if missed or not measured else 0


def _cases(kinds: Sequence[str]) -> Iterator[Case]:
    if "parser" in kinds:
        yield from parser_cases()
    paths = [kind for kind in kinds if kind in _USERS]
    if not paths:
        return
    with (
        tempfile.TemporaryDirectory() as directory,
        served_proxy(Path(directory)) as (proxy, certificates),
    ):
        for kind in paths:
            client = proxy.connect(certificates.client_context(_USERS[kind]))
            yield from path_cases(client, kind)
            client.close()


def _tell(measured: Sequence[Figures], count: int) -> None:
    by_time = sorted(measured, key=lambda one: -one.milliseconds)[:count]
    grown = [one for one in measured if one.growth is not None]
    by_growth = sorted(grown, key=lambda one: -(one.growth or 0))[: count // 2]
    by_memory = sorted(measured, key=lambda one: -one.memory_factor)[: count // 2]
    for title, rows in (("time", by_time), ("growth", by_growth), ("memory", by_memory)):
        _say(f"worst by {title}: ms for 64 KiB, t(4n)/t(n) from n, bytes of memory for a byte")
        for row in rows:
            growth = "-" if row.growth is None else f"{row.growth:.2f} from {row.from_bytes}"
            _say(f"  {row.milliseconds:9.2f}  {growth:>16}  {row.memory_factor:6.1f}  {row.name}")


def _say_progress(measured: Sequence[Figures], started: float) -> None:
    """Write to standard error, so that the table on standard output stays whole."""
    missed = sum(bool(one.faults) for one in measured)
    sys.stderr.write(
        f"{len(measured)} cases after {time.monotonic() - started:.0f} s, {missed} missed; last: "
        f"{measured[-1].name}\n"
    )
    sys.stderr.flush()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
