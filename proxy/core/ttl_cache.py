"""A cache with a fixed time to live and a bounded size, fast enough for every request.

All entries have the same time to live. So they expire in the order in which they were added, and a
plain dictionary keeps that order. A lookup is one dictionary access and one clock reading.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TTLCache(Generic[K, V]):
    """Values that expire a fixed time after they were added, or are evicted, oldest first.

    A lookup never extends the time to live. Adding a key again restarts it.
    """

    __slots__ = ("_clock", "_entries", "_max_entries", "_ttl_seconds")

    def __init__(self, max_entries: int, ttl_seconds: float, clock: Callable[[], float]) -> None:
        self._max_entries = max_entries
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._entries: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        """Return the value of a key that has not expired, or None."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and self._clock() < entry[0] else None

    def put(self, key: K, value: V) -> None:
        """Add a value, which expires after the time to live."""
        now = self._clock()
        entries = self._entries
        entries.pop(key, None)  # The new entry goes to the end, behind all older ones.
        while entries:
            oldest = next(iter(entries))
            if len(entries) < self._max_entries and now < entries[oldest][0]:
                break
            del entries[oldest]
        if self._ttl_seconds > 0:
            entries[key] = (now + self._ttl_seconds, value)

    def __len__(self) -> int:
        """Return the number of entries, including expired ones that were not removed yet."""
        return len(self._entries)
