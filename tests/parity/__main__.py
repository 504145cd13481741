"""`make parity`: the proxy against a native server, as many cases as one likes."""

import argparse
import sys

from proxy.sandbox.errors import SandboxError
from proxy.sandbox.programs.binaries import find_binaries
from tests.parity.arena import Variant
from tests.parity.campaign import Report, run_campaign
from tests.parity.mutant_hunt import Hunt, hunt_mutants
from tests.parity.mutants import MUTANTS


def main() -> int:
    """Run and report; 1 on any difference or empty cell, 2 when no servers can be had."""
    arguments = _arguments()
    try:
        binaries = find_binaries()
        if arguments.mutants:
            hunt = hunt_mutants(binaries, seed=arguments.seed, announce=_announce)
            _tell_hunt(hunt)
            return 1 if hunt.missed or hunt.disturbance else 0
        report = run_campaign(
            binaries,
            _variant(arguments),
            seed=arguments.seed,
            cases=arguments.cases,
            announce=_announce,
        )
    except SandboxError as error:
        sys.stderr.write(f"parity: {error}\n")
        return 2
    _tell(report, arguments.seed)
    return 0 if report.is_clean else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="parity", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--self", action="store_true", help="native against native")
    parser.add_argument("--gate", choices=("on", "off"), default="on")
    parser.add_argument("--upstream", choices=("on", "off"), default="off")
    parser.add_argument("--upstream-version", help="1.34, 1.35 or 1.36, emulated")
    parser.add_argument("--mutants", action="store_true", help="find each seeded mistake")
    return parser.parse_args()


def _variant(arguments: argparse.Namespace) -> Variant:
    return Variant(
        is_self=arguments.self,
        gate=arguments.gate == "on",
        upstream_gate=arguments.upstream == "on",
        upstream_version=arguments.upstream_version,
    )


def _tell(report: Report, seed: int) -> None:
    _write("coverage, as the native server answered:")
    for line in report.coverage.table():
        _write(line)
    letters = [f"{letter}={count}" for letter, count in sorted(report.deviations.items()) if letter]
    _write(f"deviations: {', '.join(letters) or 'none'}")
    for number, reproduction in enumerate(report.reproductions, 1):
        _write(f"\ndifference {number} (seed {seed}):\n{reproduction}")
    missing = report.coverage.missing()
    if missing:
        _write(f"coverage: {len(missing)} empty cells: {'; '.join(missing)}")
    _write(f"parity: {report.cases} cases, {report.differences} differences")


def _tell_hunt(hunt: Hunt) -> None:
    for name in MUTANTS:
        _write(f"  {name}: {hunt.found.get(name, 'NOT FOUND')}")
    if hunt.disturbance:
        _write(f"a proxy without mistakes differs, too: {hunt.disturbance}")
    _write(f"parity: {len(MUTANTS)} mutants, {len(hunt.found)} found")


def _announce(line: str) -> None:
    sys.stderr.write(f"parity: {line}\n")


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
