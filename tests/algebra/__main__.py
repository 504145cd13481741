"""`make algebra`: the decision algebra against kube-apiserver's own code, in any number of cases.

The cases are cut into pieces with a seed of their own, which all processors share. The pieces of a
seed are the same on every machine.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from subprocess import SubprocessError

from tests.algebra.campaign import Report, run_campaign
from tests.algebra.oracle import PUBLISHED, Published

_CASES_A_PIECE = 10_000


def main() -> int:
    """Run and report; 1 on any disagreement, 2 when an oracle cannot be built."""
    parser = argparse.ArgumentParser(description="compare the algebra with kube-apiserver's code")
    parser.add_argument("--cases", type=int, default=200_000, help="for each rule set")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    codes = [
        _compare(published, arguments.cases, arguments.seed, jobs=arguments.jobs)
        for published in PUBLISHED
    ]
    return max(codes)


def _compare(published: Published, cases: int, seed: int, *, jobs: int) -> int:
    try:
        published.program()
    except (OSError, SubprocessError) as error:
        reason = getattr(error, "stderr", None) or error
        sys.stderr.write(f"algebra: {published.version} cannot be built with Go: {reason}\n")
        return 2
    total = Report()
    with ProcessPoolExecutor(jobs) as pool:
        for report in pool.map(partial(_run_piece, published), _pieces(cases, seed)):
            total.add(report)
            if total.disagreements:
                pool.shutdown(cancel_futures=True)
                break
    for reproduction in total.reproductions:
        sys.stdout.write(f"{reproduction}\n\n")
    sys.stdout.write(f"algebra: {published.version}: {total}\n")
    sys.stdout.write(f"algebra: {published.version}: {dict(sorted(total.seen.items()))}\n")
    return 1 if total.disagreements else 0


def _pieces(cases: int, seed: int) -> Iterator[tuple[int, int]]:
    for start in range(0, cases, _CASES_A_PIECE):
        piece = start // _CASES_A_PIECE
        yield seed * 1_000_003 + piece, min(_CASES_A_PIECE, cases - start)


def _run_piece(published: Published, piece: tuple[int, int]) -> Report:
    seed, cases = piece
    return run_campaign(published, seed=seed, cases=cases)


if __name__ == "__main__":
    sys.exit(main())
