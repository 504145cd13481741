"""What `understudy audit join` tells Prometheus, from its own mouth."""

import subprocess
import sys
from pathlib import Path


def join_page(directory: Path) -> str:
    """Return the metrics of a join of two empty logs, which has every series of every join."""
    log, page = directory / "empty.log", directory / "join.prom"
    log.touch()
    command = [sys.executable, "-m", "proxy", "audit", "join", "--proxy-user", "somebody"]
    subprocess.run([*command, "--metrics", page, log, log], capture_output=True, check=True)
    return page.read_text()
