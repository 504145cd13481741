"""The order in which several workers run all tests: groups in parallel, then one worker alone.

A group is a file, or a package whose tests share servers. Files of `SERIAL` measure CPU time or
latency. They run at the end, when every other worker has stopped with all its servers.
"""

from typing import Protocol

from xdist.scheduler import LoadScopeScheduling

# Beside other tests these would measure the other tests.
SERIAL = (
    "tests/bench/test_decisions.py",  # what arrives within 20 ms is one round trip
    "tests/complexity/test_attacks_beside_callers.py",
    "tests/complexity/test_whole_requests.py",
    "tests/e2e/test_decisions_under_load.py",
    "tests/e2e/test_tokens_under_load.py",
    "tests/floods/test_admin_port.py",
    "tests/floods/test_loop_lag.py",
    "tests/scenarios/test_memory_before_authentication.py",
    "tests/scenarios/test_reviews_down.py",
    "tests/scenarios/test_slot_starvation.py",
)
# Their conftest starts servers for the whole package.
PACKAGES = (
    "tests/e2e/backends/",
    "tests/e2e/clients/",
    "tests/e2e/identity/",
    "tests/e2e/installation/",
    "tests/e2e/kep/",
)
# The longest first, so that the workers finish together.
LONGEST = (
    *PACKAGES,
    "tests/e2e/",
    "tests/scenarios/",
    "tests/floods/",
    "tests/bench/",
    "tests/properties/",
)
SERIAL_GROUP = "serial"


class Worker(Protocol):
    """What the scheduler needs of a worker's controller, which has no types."""

    shutting_down: bool

    def shutdown(self) -> None: ...


def group_of(test: str) -> str:
    """Return the group of a test id."""
    file = test.partition("::")[0]
    if file in SERIAL:
        return SERIAL_GROUP
    return next((package for package in PACKAGES if file.startswith(package)), file)


class TwoPhases(LoadScopeScheduling):  # type: ignore[misc]  # the library has no types
    """Give whole groups to workers; give the serial group to the last of them."""

    def remove_node(self, node: Worker) -> str | None:
        """Forget a worker that has finished or crashed, and ask the others to go on."""
        crashed_in: str | None = super().remove_node(node)
        if self.workqueue:
            for other in self.nodes:
                self._reschedule(other)
        return crashed_in

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: Worker) -> None:
        group = min(self.workqueue, key=self._rank)
        others = [other for other in self.nodes if other is not node]
        if group == SERIAL_GROUP and others:
            # The last worker is asked again when the others are removed.
            if not all(other.shutting_down for other in others):
                node.shutdown()
            return
        self.workqueue.move_to_end(group, last=False)
        super()._assign_work_unit(node)

    def _rank(self, group: str) -> tuple[bool, int, int]:
        places = (place for place, prefix in enumerate(LONGEST) if group.startswith(prefix))
        return group == SERIAL_GROUP, next(places, len(LONGEST)), -len(self.workqueue[group])
