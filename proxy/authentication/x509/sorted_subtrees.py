"""Subtrees of name constraints, sorted as Go sorts them and searched as Go searches them.

Go looks only at the constraint that sorts next to a name. For domains that is the same as to look
at all of them, which the order makes sure of. For networks it is not, because their addresses may
have bits that their masks do not cover: a network permits as in Go, and any network excludes.
"""

import bisect
from collections.abc import Sequence

from proxy.authentication.x509.general_names import Network, Subtrees
from proxy.authentication.x509.name_forms import mailbox

# Sorts before every other character of a name, so that all below a domain are neighbours.
_REVERSED_ORDER = str.maketrans({".": "\0"})

Mailbox = tuple[str, str]
"""The local part of an email address, and its domain in the order of `order`."""


class SortedSubtrees:
    """Subtrees that are searched; a kind of which there are none has all names, or has none."""

    def __init__(self, subtrees: Subtrees, *, without_any: bool) -> None:
        self.networks = SortedNetworks(subtrees.networks, without_any=without_any)
        self.dns = SortedDomains(subtrees.dns, without_any=without_any)
        self.hosts = SortedDomains(subtrees.hosts, without_any=without_any)
        self.mailboxes = {read_mailbox(one) for one in subtrees.emails if "@" in one}
        self.mail_domains = SortedDomains(
            [one for one in subtrees.emails if "@" not in one],
            without_any=without_any and not self.mailboxes,
        )


class SortedDomains:
    """Domains in the order of their last characters, none of them below another.

    All below a domain are neighbours in this order. So what sorts before a name tells whether any
    of them has it.
    """

    def __init__(self, domains: Sequence[str], *, without_any: bool) -> None:
        self._has_all = "" in domains or (without_any and not domains)
        self._sorted: list[str] = []
        ordered = sorted(map(order, domains))
        for domain in ordered:
            if not self._sorted or not _is_below(domain, self._sorted[-1]):
                self._sorted.append(domain)
        # What is permitted is not asked for wildcards: only what is excluded may hide behind one.
        self._parents = set() if without_any else {_parent(one) for one in ordered} - {""}

    def have_each(self, names: Sequence[str]) -> bool:
        """Return whether each name is one of the domains or below one."""
        return self._has_all or all(map(self._has, names))

    def have_none(self, names: Sequence[str]) -> bool:
        """Return whether no name is one of the domains or below one; no wildcard may be, either."""
        if self._has_all:
            return not names
        return not self._sorted or not any(map(self._may_have, names))

    def _has(self, name: str) -> bool:
        at = bisect.bisect_right(self._sorted, name)
        return at > 0 and _is_below(name, self._sorted[at - 1])

    def _may_have(self, name: str) -> bool:
        return self._has(name) or (name.endswith("*") and _parent(name) in self._parents)


class SortedNetworks:
    """Networks in the order of their addresses, by the size of those."""

    def __init__(self, networks: Sequence[Network], *, without_any: bool) -> None:
        self._has_all = without_any and not networks
        self._sorted: dict[int, list[Network]] = {4: [], 16: []}
        self._masked: dict[tuple[int, int], set[int]] = {}
        for network in sorted(networks, key=lambda one: (one.address, one.mask)):
            kept = self._sorted[len(network.address)]
            if not kept or not _is_part(network, kept[-1]):
                kept.append(network)
            mask = int.from_bytes(network.mask)
            known = self._masked.setdefault((len(network.mask), mask), set())
            known.add(int.from_bytes(network.address) & mask)

    def have_each(self, addresses: Sequence[bytes]) -> bool:
        """Return whether the network that sorts next to an address has it, for each address."""
        return self._has_all or all(map(self._has_nearest, addresses))

    def have_none(self, addresses: Sequence[bytes]) -> bool:
        """Return whether no network agrees with any of the addresses, mapped or not."""
        numbers = {
            size: [int.from_bytes(one) for one in addresses if len(one) == size]
            for size in self._sorted
        }
        return all(
            known.isdisjoint([one & mask for one in numbers[size]])
            for (size, mask), known in self._masked.items()
        )

    def _has_nearest(self, address: bytes) -> bool:
        kept = self._sorted[len(address)]
        at = bisect.bisect_left(kept, address, key=lambda one: one.address)
        if at < len(kept) and kept[at].address == address:
            return True
        return bool(kept) and kept[max(at - 1, 0)].contains(address)


def _is_part(network: Network, whole: Network) -> bool:
    last = int.from_bytes(network.address) | ~int.from_bytes(network.mask) & (
        (1 << 8 * len(network.mask)) - 1
    )
    return whole.contains(network.address) and whole.contains(last.to_bytes(len(network.mask)))


def order(name: str) -> str:
    """Return a name from its end, without case, and with a separator that sorts first."""
    return name.lower()[::-1].translate(_REVERSED_ORDER)


def _is_below(name: str, domain: str) -> bool:
    """Return whether a name is a domain or below it, both in order.

    One with a leading period, which is its end here, has only what is below it.
    """
    if not name.startswith(domain):
        return False
    return len(name) == len(domain) or domain[-1:] in ("", "\0") or name[len(domain)] == "\0"


def _parent(name: str) -> str:
    """Return a name in order without its first label, empty if it has only one."""
    return name.rpartition("\0")[0]


def read_mailbox(address: str) -> Mailbox | None:
    """Return an email address as it is compared, None if Go takes it for none."""
    parts = mailbox(address)
    return None if parts is None else (parts[0], order(parts[1]))
