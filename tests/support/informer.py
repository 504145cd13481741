"""A client-go informer as a program; its source is in `informer/`.

with running_informer(kubeconfig, "default", log_file=log) as informer:
    informer.wait_until_told("added", "a-config-map")
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proxy.sandbox.processes import ChildProcess, start_child
from tests.support.build_once import built_by_go
from tests.support.streaming import wait_until

SOURCE = Path(__file__).with_name("informer")


class Informer:
    """What it asked and what it was told so far, in order."""

    def __init__(self, process: ChildProcess, log_file: Path) -> None:
        self._process = process
        self._log_file = log_file

    def lines(self, *what: str) -> list[dict[str, Any]]:
        """Return lines by kind: request, synced, added, updated, deleted, error, lost."""
        # The log holds client-go's own words, too, and the last line may be on its way.
        whole = self._log_file.read_text().rpartition("\n")[0].splitlines()
        said = [json.loads(line) for line in whole if line.startswith('{"what":')]
        return [line for line in said if line["what"] in what]

    def names(self, what: str) -> list[str]:
        """Return the names of the objects it was told this of, in order."""
        return [line["name"] for line in self.lines(what)]

    def wait_until_told(self, what: str, name: str = "") -> None:
        """Wait for a line of this kind, about this object if it is about one."""

        def is_told() -> bool:
            self._process.ensure_running()
            return any(line.get("name", "") == name for line in self.lines(what))

        wait_until(is_told, f"the informer was not told: {what} {name}")

    def complaints(self) -> list[str]:
        """Return what client-go logged, but for the features it starts with."""
        lines = self._log_file.read_text().splitlines()
        words = [line for line in lines if not line.startswith('{"what":')]
        return [line for line in words if "Feature gate default state" not in line]


@contextmanager
def running_informer(kubeconfig: Path, namespace: str, *, log_file: Path) -> Iterator[Informer]:
    """Watch the ConfigMaps of a namespace for the time of the context."""
    process = start_child(
        [informer_program(), f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"],
        log_file=log_file,
    )
    try:
        yield Informer(process, log_file)
    finally:
        process.stop()


def informer_program() -> Path:
    """Return the program, built once for its sources; skip or fail the test if Go cannot."""
    return built_by_go("informer", SOURCE)
