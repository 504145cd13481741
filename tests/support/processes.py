"""The proxy as a process of its own, and what a process costs as the kernel counts it."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.sandbox.processes import LOOPBACK, ReservedPort, start_child

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProxyProcess:
    """A proxy that was started; it may not listen yet."""

    address: tuple[str, int]
    pid: int


@contextmanager
def started_proxy(document: dict[str, Any], directory: Path) -> Iterator[ProxyProcess]:
    """Start `understudy serve` with these settings on a port of its own; stopped on leaving."""
    with ReservedPort() as port:
        serving = document["serving"] | {"address": f"{LOOPBACK}:{port.number}"}
        config_file = directory / "config.yaml"
        config_file.write_text(json.dumps(document | {"serving": serving}))  # JSON is YAML, too
        process = start_child(
            [sys.executable, "-m", "proxy", "serve", "--config", config_file],
            log_file=directory / "understudy.log",
        )
        try:
            yield ProxyProcess((LOOPBACK, port.number), process.pid)
        finally:
            process.stop()


def resident_bytes(pid: int | None = None) -> int:
    """Return the memory that a process has in use, our own if none is named."""
    pages = Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1]
    return int(pages) * _PAGE_BYTES
