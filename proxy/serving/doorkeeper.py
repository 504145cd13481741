"""Who may come in: connections at a time, in total and from one address.

A newcomer that finds every place taken gets the place of the unauthenticated connection on which
nothing has happened for longest: of its own address if that address has too many, else of any.
A connection with an authenticated request is never closed for that. The longest-silent one and not
the newest: a client that keeps reconnecting then only displaces connections like its own, and a
newcomer has as long as it takes to replace all others to finish its handshake and its request.
"""

from collections import Counter
from typing import Protocol

from proxy.fairness.origin import origin_of

ADDRESS, TOTAL = EVICTION_REASONS = ("address", "total")
"""What was full when a connection was closed for a newcomer."""


class Occupant(Protocol):
    """A connection that takes a place."""

    def evict(self) -> None:
        """Close at once: the place is given to a newcomer."""
        ...


class Doorkeeper:
    """Counts those who are inside, and turns away who is too many."""

    def __init__(self, *, places: int, places_per_address: int) -> None:
        self._places = places
        self._places_per_address = places_per_address
        self._guests: dict[Occupant, str] = {}
        self._by_origin: Counter[str] = Counter()
        # Least recently active first.
        self._unauthenticated: dict[Occupant, None] = {}
        self._unauthenticated_of: dict[str, dict[Occupant, None]] = {}
        self._turned_away = 0
        self.evictions: Counter[str] = Counter(dict.fromkeys(EVICTION_REASONS, 0))
        """How many connections were closed for a newcomer so far, by reason."""

    def limit(self, *, places: int, places_per_address: int) -> None:
        """Hold newcomers to these limits; whoever is inside stays."""
        self._places = places
        self._places_per_address = places_per_address

    @property
    def guests(self) -> int:
        """How many are inside."""
        return len(self._guests)

    @property
    def unauthenticated(self) -> int:
        """How many of them have had no authenticated request."""
        return len(self._unauthenticated)

    def lets_in(self, guest: Occupant, address: str) -> bool:
        """Tell whether there is a place for the guest, and take it; `left` gives it back."""
        origin = origin_of(address)
        if not self._has_room(origin):
            self._turned_away += 1
            return False
        self._guests[guest] = origin
        self._by_origin[origin] += 1
        self._unauthenticated[guest] = None
        self._unauthenticated_of.setdefault(origin, {})[guest] = None
        return True

    def renew(self, guest: Occupant) -> None:
        """Count an unauthenticated guest as the last one that did something."""
        if guest in self._unauthenticated:
            own = self._unauthenticated_of[self._guests[guest]]
            for order in (self._unauthenticated, own):
                del order[guest]
                order[guest] = None

    def mark_authenticated(self, guest: Occupant) -> None:
        """Keep the guest's place from newcomers from now on."""
        if guest in self._unauthenticated:
            self._forget(guest, self._guests[guest])

    def left(self, guest: Occupant) -> None:
        """Give back the guest's place, if it has one."""
        origin = self._guests.pop(guest, None)
        if origin is None:
            return
        if guest in self._unauthenticated:
            self._forget(guest, origin)
        self._by_origin[origin] -= 1
        if not self._by_origin[origin]:
            del self._by_origin[origin]

    def take_turned_away(self) -> int:
        """Return how many were turned away since the last time of asking."""
        count, self._turned_away = self._turned_away, 0
        return count

    def _has_room(self, origin: str) -> bool:
        if self._by_origin[origin] >= self._places_per_address:
            return self._evict_first(self._unauthenticated_of.get(origin), ADDRESS)
        if len(self._guests) >= self._places:
            return self._evict_first(self._unauthenticated, TOTAL)
        return True

    def _evict_first(self, order: dict[Occupant, None] | None, reason: str) -> bool:
        if not order:
            return False
        guest = next(iter(order))
        self.left(guest)
        self.evictions[reason] += 1
        guest.evict()
        return True

    def _forget(self, guest: Occupant, origin: str) -> None:
        del self._unauthenticated[guest]
        own = self._unauthenticated_of[origin]
        del own[guest]
        if not own:
            del self._unauthenticated_of[origin]
