"""`python -m bench.profile`: the CPU time of a small GET by library.

`perf` samples one contestant a thousand times a second while it serves, and reports the library of
each sample. Needs perf, and the permission to use it.
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
# By the prefix of the library's name, as perf reports it.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "kernel": ("[kernel", "[vdso"),
    # The package cryptography contains its own OpenSSL, in _rust.
    "TLS (OpenSSL)": ("libssl", "libcrypto", "_ssl.", "_rust.", "_cffi_backend."),
    "interpreter": ("libpython", "python", "_asyncio.", "_bisect.", "_datetime.", "_hashlib."),
    "event loop (uvloop)": ("loop.",),
    "HTTP parser (httptools)": ("parser.",),
    "C library": ("libc.", "ld-linux", "libpthread", "libm."),
}


def parts(report: str) -> dict[str, float]:
    """Return the percentage of each part, largest first, from perf's report by library."""
    found: dict[str, float] = {}
    for share, library in _SHARE.findall(report):
        part = _part(library)
        found[part] = found.get(part, 0.0) + float(share)
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _part(library: str) -> str:
    for part, prefixes in _PARTS.items():
        if library.startswith(prefixes):
            return part
    return f"other: {library}"


def profile(name: str, *, connections: int, seconds: float) -> dict[str, float]:
    """Run a contestant under load, and return the share of CPU time of each part."""
    (entry,) = (candidate for candidate in ENTRIES if candidate.name == name)
    load = Load("get", options(connections=connections), seconds + _MARGIN_SECONDS)
    with (
        running_stage() as stage,
        entry.start(entry, stage) as contestant,
        generating(command(contestant, stage, load), name) as generator,
    ):
        samples = stage.directory / "perf.data"
        generator.start_phase()
        generator.wait_until_ready()
        generator.start_phase()
        _record(contestant.pid, samples, seconds)
        generator.report()
        return parts(_run("report", "--stdio", "--sort=dso", f"--input={samples}"))


def _record(pid: int | None, samples: Path, seconds: float) -> None:
    sampling = ("--event=cpu-clock", f"--freq={_SAMPLES_PER_SECOND}", f"--pid={pid}")
    _run("record", *sampling, f"--output={samples}", "--", "sleep", str(seconds))


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
