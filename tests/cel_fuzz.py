"""`make cel-fuzz`: the CEL engine against the Kubernetes environment, as often as one likes."""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from subprocess import SubprocessError

from proxy.sandbox.programs.go_program import go_program
from tests.cel_differential.comparison import CelReport, run
from tests.cel_differential.partial_laws import run_laws
from tests.support.cel_oracle import SOURCE, running_cel_oracle

_CASES_A_PIECE = 2_000


def main() -> int:
    """Run and report; 1 on any difference, 2 when the oracle cannot be built."""
    parser = argparse.ArgumentParser(description="compare the CEL engine with cel-go")
    parser.add_argument("--cases", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--laws", action="store_true", help="check partial evaluation instead")
    parser.add_argument("--most", type=int, default=20, help="differences to print")
    arguments = parser.parse_args()
    try:
        go_program("cel-oracle", SOURCE)
    except (OSError, SubprocessError) as error:
        reason = getattr(error, "stderr", None) or error
        sys.stderr.write(f"cel-fuzz: the oracle cannot be built with Go: {reason}\n")
        return 2
    total = CelReport()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        pieces = _pieces(arguments.cases, arguments.seed)
        for report in pool.map(_check_laws if arguments.laws else _run_piece, pieces):
            total.add(report)
    for difference in total.differences[: arguments.most]:
        sys.stdout.write(f"{difference}\n\n")
    sys.stdout.write(f"cel-fuzz: seed {arguments.seed}: {total}\n")
    return 1 if total.differences else 0


def _pieces(cases: int, seed: int) -> Iterator[tuple[int, int]]:
    for start in range(0, cases, _CASES_A_PIECE):
        yield seed * 1_000_003 + start // _CASES_A_PIECE, min(_CASES_A_PIECE, cases - start)


def _run_piece(piece: tuple[int, int]) -> CelReport:
    seed, cases = piece
    with running_cel_oracle() as oracle:
        return run(oracle, seed, cases)


def _check_laws(piece: tuple[int, int]) -> CelReport:
    seed, cases = piece
    with running_cel_oracle() as oracle:
        return run_laws(oracle, seed, cases)


if __name__ == "__main__":
    sys.exit(main())
