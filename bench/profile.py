"""`python -m bench.profile`: where the time of a small GET goes, by whose code runs.

`perf` looks at one contestant a thousand times a second while it serves, and says in which library
it found it. Needs perf, and the right to use it.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.contestants import ENTRIES
from bench.generator import generating
from bench.load import Load, command, options
from bench.measurement import WrongAnswer
from bench.stage import running_stage
from proxy.sandbox.errors import SandboxError

_SAMPLES_PER_SECOND = 997
_SHARE = re.compile(r"^ *([0-9.]+)% +(\S+)", re.MULTILINE)
_MARGIN_SECONDS = 1.0
# By how the name of a library begins, as perf tells it.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "kernel": ("[kernel", "[vdso"),
    # The package cryptography brings an OpenSSL of its own, inside of _rust.
    "TLS (OpenSSL)": ("libssl", "libcrypto", "_ssl.", "_rust.", "_cffi_backend."),
    "interpreter": ("libpython", "python", "_asyncio.", "_bisect.", "_datetime.", "_hashlib."),
    "event loop (uvloop)": ("loop.",),
    "HTTP parser (httptools)": ("parser.",),
    "C library": ("libc.", "ld-linux", "libpthread", "libm."),
}


def parts(report: str) -> dict[str, float]:
    """Return the percentage of each part, the largest first, from what perf reports by library."""
    found: dict[str, float] = {}
    for share, library in _SHARE.findall(report):
        part = _part(library)
        found[part] = found.get(part, 0.0) + float(share)
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _part(library: str) -> str:
    for part, beginnings in _PARTS.items():
        if library.startswith(beginnings):
            return part
    return f"other: {library}"


def profile(name: str, *, connections: int, seconds: float) -> dict[str, float]:
    """Let a contestant serve, and return where its time goes."""
    (entry,) = (one for one in ENTRIES if one.name == name)
    load = Load("get", options(connections=connections), seconds + _MARGIN_SECONDS)
    with (
        running_stage() as stage,
        entry.start(entry, stage) as contestant,
        generating(command(contestant, stage, load), name) as generator,
    ):
        samples = stage.directory / "perf.data"
        generator.go_on()
        generator.wait_until_ready()
        generator.go_on()
        _record(contestant.pid, samples, seconds)
        generator.report()
        return parts(_run("report", "--stdio", "--sort=dso", f"--input={samples}"))


def _record(pid: int | None, samples: Path, seconds: float) -> None:
    looking = ("--event=cpu-clock", f"--freq={_SAMPLES_PER_SECOND}", f"--pid={pid}")
    _run("record", *looking, f"--output={samples}", "--", "sleep", str(seconds))


def _run(*arguments: str) -> str:
    return subprocess.run(["perf", *arguments], capture_output=True, text=True, check=True).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    names = [entry.name for entry in ENTRIES if entry.name != "direct"]
    parser.add_argument("--contestant", choices=names, default="us")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    chosen = parser.parse_args(arguments)
    try:
        found = profile(chosen.contestant, connections=chosen.connections, seconds=chosen.seconds)
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr)
        return 1
    except (OSError, SandboxError, WrongAnswer) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"| {chosen.contestant} | share of CPU |\n| --- | ---: |")
    for part, share in found.items():
        print(f"| {part} | {share:.0f} % |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
