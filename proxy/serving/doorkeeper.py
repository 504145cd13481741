"""Who may come in: connections at a time, in total and from one address."""

from collections import Counter

from proxy.fairness.origin import origin_of


class Doorkeeper:
    """Counts those who are inside, and turns away who is too many."""

    def __init__(self, *, places: int, places_per_address: int) -> None:
        self._places = places
        self._places_per_address = places_per_address
        self._guests: dict[object, str] = {}
        self._by_origin: Counter[str] = Counter()
        self._turned_away = 0

    def limit(self, *, places: int, places_per_address: int) -> None:
        """Hold newcomers to these limits; whoever is inside stays."""
        self._places = places
        self._places_per_address = places_per_address

    @property
    def guests(self) -> int:
        """How many are inside."""
        return len(self._guests)

    def lets_in(self, guest: object, address: str) -> bool:
        """Tell whether there is a place for the guest, and take it; `left` gives it back."""
        origin = origin_of(address)
        if len(self._guests) >= self._places or (
            self._by_origin[origin] >= self._places_per_address
        ):
            self._turned_away += 1
            return False
        self._guests[guest] = origin
        self._by_origin[origin] += 1
        return True

    def left(self, guest: object) -> None:
        """Give back the guest's place, if it has one."""
        origin = self._guests.pop(guest, None)
        if origin is None:
            return
        self._by_origin[origin] -= 1
        if not self._by_origin[origin]:
            del self._by_origin[origin]

    def take_turned_away(self) -> int:
        """Return how many were turned away since the last time of asking."""
        count, self._turned_away = self._turned_away, 0
        return count
