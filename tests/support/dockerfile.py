"""The Dockerfile read as data, and the steps of its first stage done in a directory of ours.

    installed = run_build_stage(directory)      # RUN and COPY as they stand, without an engine
    installed / "bin" / "understudy"

Whether an engine would read it the same way is the linter's to say.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"
# Where the stage works. Nothing else of the file system is its business.
PLACES = re.compile(r"(?<![\w.\-/])/(opt|src|dist)(?=[/\s]|$)")
STEP_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Instruction:
    """A word, and all that follows it as one line."""

    word: str
    rest: str


def stages() -> tuple[list[Instruction], ...]:
    """Return the instructions of each stage, FROM first; what comes before them is left out."""
    found: list[list[Instruction]] = []
    for instruction in _instructions(DOCKERFILE.read_text()):
        if instruction.word == "FROM":
            found.append([])
        if found:
            found[-1].append(instruction)
    return tuple(found)


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield Instruction(word, " ".join(rest.split()))


def base_image() -> str:
    """Return what both stages start from unless told otherwise."""
    (image,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    return str(image)


def run_build_stage(directory: Path) -> Path:
    """Do what the first stage does, in an empty directory; return what the second one copies."""
    source = directory / "src"
    source.mkdir()
    environment = {"PATH": f"{_python(directory)}:{os.defpath}"}
    for instruction in stages()[0]:
        match instruction.word:
            case "RUN":
                _run(PLACES.sub(rf"{directory}/\1", instruction.rest), source, environment)
            case "COPY":
                *names, target = instruction.rest.split()
                _copy(names, source / target)
            case word:
                assert word in ("FROM", "WORKDIR", "ENV"), f"{word} was not thought of"
    return directory / "opt" / "understudy"


def _python(directory: Path) -> Path:
    """Return a directory where `python` is the interpreter of this run, outside its environment."""
    bin_directory = directory / "bin"
    bin_directory.mkdir()
    interpreter = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    (bin_directory / "python").symlink_to(interpreter)
    return bin_directory


def _run(script: str, directory: Path, environment: dict[str, str]) -> None:
    # Where packages come from, and that they may be kept, is this machine's affair, as it would
    # be an engine's.
    kept = ("HOME", "PIP_", "XDG_", "SSL_", "REQUESTS_", "HTTP", "NO_PROXY", "http", "no_proxy")
    settings = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    done = subprocess.run(
        ["/bin/sh", "-ec", script],
        cwd=directory,
        env=settings | environment,
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _copy(names: list[str], target: Path) -> None:
    for name in names:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, target)
