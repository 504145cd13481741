"""A machine of a test's own: an empty cache, an empty PATH, and a mirror that offers nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from proxy.sandbox.programs.cache import cache_directory
from tests.support.control_plane_programs import Mirror, running_mirror


@dataclass(frozen=True, slots=True)
class Machine:
    """Where things are on it; `said` is what was announced to its user."""

    assets: Path
    cache: Path
    path: Path
    mirror: Mirror
    said: list[str]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Machine]:
    """Point everything `find_binaries` looks at to places of this test."""
    path = tmp_path / "bin"
    path.mkdir()
    # The shell scripts that stand in for programs need a few real ones.
    for tool in ("sh", "echo", "dirname", "sleep", "printf", "chmod"):
        real = Path("/bin") / tool
        (path / tool).symlink_to(real if real.exists() else Path("/usr/bin") / tool)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with running_mirror() as mirror:
        monkeypatch.setenv("UNDERSTUDY_ENVTEST_INDEX", mirror.index)
        yield Machine(tmp_path / "assets", cache_directory(), path, mirror, [])
