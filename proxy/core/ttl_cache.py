"""A memory with a short life and a bounded size, made to be asked at every request.

All entries live equally long, so the order in which they were learned is the order in which they
expire, and a plain dictionary keeps it. Asking is one look-up and one look at the clock.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TTLCache(Generic[K, V]):
    """Values that are forgotten a fixed time after they were learned, or when there are too many.

    Asking never lengthens a life; learning a key again starts a new one.
    """

    __slots__ = ("_clock", "_entries", "_most", "_ttl_seconds")

    def __init__(self, most: int, ttl_seconds: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._entries: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        """Return what was learned of a key within its life; None if nothing was."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and self._clock() < entry[0] else None

    def put(self, key: K, value: V) -> None:
        """Remember a value from now on."""
        now = self._clock()
        entries = self._entries
        entries.pop(key, None)  # It goes to the end, where the youngest are.
        while entries:
            oldest = next(iter(entries))
            if len(entries) < self._most and now < entries[oldest][0]:
                break
            del entries[oldest]
        if self._ttl_seconds > 0:
            entries[key] = (now + self._ttl_seconds, value)

    def clear(self) -> None:
        """Forget everything at once."""
        self._entries.clear()

    def __len__(self) -> int:
        """Count what is kept, dead entries that nobody has cleared away among it."""
        return len(self._entries)
