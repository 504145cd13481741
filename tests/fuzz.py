"""`make fuzz`: the decision core against the native server's own code, as often as one likes.

The cases are cut into pieces with a seed of their own, which all processors share; the pieces of
a seed are the same on every machine.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from subprocess import SubprocessError

from tests.go_oracle.campaign import Report, run_campaign
from tests.support.oracle import oracle_program, running_oracle

_CASES_A_PIECE = 20_000


def main() -> int:
    """Run and report; 1 on any disagreement, 2 when the oracle cannot be built."""
    parser = argparse.ArgumentParser(description="compare the core with the native server's code")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    try:
        oracle_program()
    except (OSError, SubprocessError) as error:
        reason = getattr(error, "stderr", None) or error
        sys.stderr.write(f"fuzz: the oracle cannot be built with Go: {reason}\n")
        return 2
    report = _run(arguments.cases, arguments.seed, arguments.jobs)
    for reproduction in report.reproductions:
        sys.stdout.write(f"{reproduction}\n\n")
    sys.stdout.write(f"fuzz: {report}\n")
    return 1 if report.disagreements else 0


def _run(cases: int, seed: int, jobs: int) -> Report:
    total = Report()
    with ProcessPoolExecutor(jobs) as pool:
        for report in pool.map(_run_piece, _pieces(cases, seed)):
            total.add(report)
            sys.stderr.write(f"fuzz: seed {seed}, so far {total}\n")
            if total.disagreements:
                pool.shutdown(cancel_futures=True)
                break
    return total


def _pieces(cases: int, seed: int) -> Iterator[tuple[int, int]]:
    for start in range(0, cases, _CASES_A_PIECE):
        piece = start // _CASES_A_PIECE
        yield seed * 1_000_003 + piece, min(_CASES_A_PIECE, cases - start)


def _run_piece(piece: tuple[int, int]) -> Report:
    seed, cases = piece
    with running_oracle() as oracle:
        return run_campaign(oracle, seed=seed, cases=cases)


if __name__ == "__main__":
    sys.exit(main())
