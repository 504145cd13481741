"""Our own code with its hot path compiled, built once for its sources.

A trial (docs/decisions/0009). The wheel is made by `HATCH_BUILD_HOOK_ENABLE_MYPYC=1 python -m build
--wheel` and unpacked into our cache directory. `python -m proxy` started there runs the compiled
code.

`python -m bench.compiled` prints that directory.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from proxy.sandbox.programs.binaries import announce_on_stderr
from proxy.sandbox.programs.go_program import build_once

_BUILD_SECONDS = 1200
_ALSO_NEEDED = ("pyproject.toml", "README.md", "LICENSE")


def compiled_code(checkout: Path) -> Path:
    """Return a directory with the compiled `proxy` of a checkout; OSError, SubprocessError."""
    sources = sorted(
        file
        for file in checkout.glob("proxy/**/*")
        if file.is_file() and "__pycache__" not in file.parts
    )

    def build(directory: Path) -> None:
        announce_on_stderr("compiling the hot path, which takes two minutes or more")
        # In a copy: the compiler leaves what it makes beside the sources, and whoever works there
        # would from then on run that instead of what the sources say.
        with tempfile.TemporaryDirectory(prefix="understudy-compile-") as copy:
            _copy(checkout, Path(copy), sources)
            _unpack(_build_wheel(Path(copy)), directory)

    return build_once(f"compiled-{_digest(checkout, sources)}", build)


def _copy(checkout: Path, copy: Path, sources: list[Path]) -> None:
    for path in [*sources, *(checkout / name for name in _ALSO_NEEDED)]:
        target = copy / path.relative_to(checkout)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _build_wheel(copy: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."],
        cwd=copy,
        env=os.environ | {"HATCH_BUILD_HOOK_ENABLE_MYPYC": "1"},
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=True,
    )
    return next((copy / "dist").glob("*.whl"))


def _unpack(wheel: Path, directory: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)


def _digest(checkout: Path, sources: list[Path]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in [*sources, checkout / "pyproject.toml"]:
        name = str(path.relative_to(checkout)).encode()
        digest.update(name + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    print(compiled_code(Path(__file__).parent.parent))
