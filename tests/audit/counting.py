"""What backends told, for tests to look at."""

from collections import Counter

from proxy.audit.backends.buffer import BackendMode, BufferLimits


class Counts:
    """Counts what becomes of events."""

    def __init__(self) -> None:
        self.stored = 0
        self.lost: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def events_stored(self, backend: str, count: int) -> None:
        self.stored += count

    def events_lost(self, backend: str, reason: str, count: int) -> None:
        self.lost[reason] += count

    def backend_failed(self, backend: str, reason: str) -> None:
        self.failures[reason] += 1


def limits(
    mode: BackendMode = BackendMode.BATCH, *, events: int = 1000, size: int = 1_000_000
) -> BufferLimits:
    return BufferLimits(mode, events, size)
