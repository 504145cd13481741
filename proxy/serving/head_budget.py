"""Unfinished heads: how much memory all clients together may fill before anybody knows them."""

from typing import Protocol


class HeadHolder(Protocol):
    """A connection in the middle of a head."""

    def give_way(self) -> None:
        """Drop the unfinished head, tell the client, and close."""
        ...


class HeadBudget:
    """Counts the bytes of unfinished heads; a head that arrives whole is never counted.

    When they are too many, whoever holds most gives way, not whoever comes last: a few hoarders
    could otherwise keep everybody out whose head takes two packets. A hoarder with many small
    heads is held by the limit of connections per address.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[HeadHolder, int] = {}
        self.held_bytes = 0

    def limit(self, limit_bytes: int) -> None:
        """Hold to this limit, from the next bytes on."""
        self._limit_bytes = limit_bytes

    def hold(self, holder: HeadHolder, count: int) -> None:
        """Count `count` bytes for the holder, instead of what it held before."""
        self.held_bytes += count - self._held.get(holder, 0)
        self._held[holder] = count
        while self.held_bytes > self._limit_bytes:
            largest = max(self._held, key=self._held.__getitem__)
            # Released first, so that the loop ends whatever giving way does.
            self.release(largest)
            largest.give_way()

    def release(self, holder: HeadHolder) -> None:
        """Count nothing for the holder any more; may be called at any time."""
        self.held_bytes -= self._held.pop(holder, 0)
