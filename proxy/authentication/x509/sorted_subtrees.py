"""Subtrees of name constraints, sorted as Go sorts them and searched as Go searches them.

Go checks only the constraint that sorts next to a name. For domains that is equivalent to checking
all of them, because of the sort order. For networks it is not, because their addresses may have
bits outside their masks. So permitted networks are searched as in Go, and every excluded network is
checked.
"""

import bisect
from collections.abc import Sequence

from proxy.authentication.x509.general_names import Network, Subtrees
from proxy.authentication.x509.name_forms import parse_mailbox

# Sorts before every other character of a name, so that all names below a domain are adjacent.
_REVERSED_ORDER = str.maketrans({".": "\0"})

Mailbox = tuple[str, str]
"""The local part of an email address, and its domain in the form of `order`."""


class SortedSubtrees:
    """Sorted subtrees; a kind without any contains all names if `without_any`, else none."""

    def __init__(self, subtrees: Subtrees, *, without_any: bool) -> None:
        self.networks = SortedNetworks(subtrees.networks, without_any=without_any)
        self.dns = SortedDomains(subtrees.dns, without_any=without_any)
        self.hosts = SortedDomains(subtrees.hosts, without_any=without_any)
        self.mailboxes = {read_mailbox(email) for email in subtrees.emails if "@" in email}
        self.mail_domains = SortedDomains(
            [email for email in subtrees.emails if "@" not in email],
            without_any=without_any and not self.mailboxes,
        )


class SortedDomains:
    """Domains sorted by their reversed names, none of them below another.

    All names below a domain are adjacent in this order. So the domain that sorts before a name
    decides whether any domain contains it.
    """

    def __init__(self, domains: Sequence[str], *, without_any: bool) -> None:
        self._contains_all = "" in domains or (without_any and not domains)
        self._sorted: list[str] = []
        ordered = sorted(map(sort_form, domains))
        for domain in ordered:
            if not self._sorted or not _is_below(domain, self._sorted[-1]):
                self._sorted.append(domain)
        # Only excluded subtrees need this: an excluded name may be matched by a wildcard.
        self._parents = set() if without_any else {_parent(domain) for domain in ordered} - {""}

    def contain_all(self, names: Sequence[str]) -> bool:
        """Return whether each name is one of the domains or below one."""
        return self._contains_all or all(map(self._contains, names))

    def contain_none(self, names: Sequence[str]) -> bool:
        """Return whether no name is one of the domains or below one, nor may be by a wildcard."""
        if self._contains_all:
            return not names
        return not self._sorted or not any(map(self._may_contain, names))

    def _contains(self, name: str) -> bool:
        at = bisect.bisect_right(self._sorted, name)
        return at > 0 and _is_below(name, self._sorted[at - 1])

    def _may_contain(self, name: str) -> bool:
        return self._contains(name) or (name.endswith("*") and _parent(name) in self._parents)


class SortedNetworks:
    """Networks sorted by their addresses, separately for each address size."""

    def __init__(self, networks: Sequence[Network], *, without_any: bool) -> None:
        self._contains_all = without_any and not networks
        self._sorted: dict[int, list[Network]] = {4: [], 16: []}
        self._masked: dict[tuple[int, int], set[int]] = {}
        for network in sorted(networks, key=lambda network: (network.address, network.mask)):
            kept = self._sorted[len(network.address)]
            if not kept or not _is_subnet(network, kept[-1]):
                kept.append(network)
            mask = int.from_bytes(network.mask)
            known = self._masked.setdefault((len(network.mask), mask), set())
            known.add(int.from_bytes(network.address) & mask)

    def contain_all(self, addresses: Sequence[bytes]) -> bool:
        """Return whether each address is in the network that sorts next to it."""
        return self._contains_all or all(map(self._nearest_contains, addresses))

    def contain_none(self, addresses: Sequence[bytes]) -> bool:
        """Return whether no network contains any of the addresses, IPv4-mapped or not."""
        numbers = {
            size: [int.from_bytes(address) for address in addresses if len(address) == size]
            for size in self._sorted
        }
        return all(
            known.isdisjoint([number & mask for number in numbers[size]])
            for (size, mask), known in self._masked.items()
        )

    def _nearest_contains(self, address: bytes) -> bool:
        kept = self._sorted[len(address)]
        at = bisect.bisect_left(kept, address, key=lambda network: network.address)
        if at < len(kept) and kept[at].address == address:
            return True
        return bool(kept) and kept[max(at - 1, 0)].contains(address)


def _is_subnet(network: Network, whole: Network) -> bool:
    last = int.from_bytes(network.address) | ~int.from_bytes(network.mask) & (
        (1 << 8 * len(network.mask)) - 1
    )
    return whole.contains(network.address) and whole.contains(last.to_bytes(len(network.mask)))


def sort_form(name: str) -> str:
    """Return a name reversed, in lower case, and with a separator that sorts first."""
    return name.lower()[::-1].translate(_REVERSED_ORDER)


def _is_below(name: str, domain: str) -> bool:
    """Return whether a name is a domain or below it, both in the form of `order`.

    A domain with a leading period, which is at its end here, contains only the names below it.
    """
    if not name.startswith(domain):
        return False
    return len(name) == len(domain) or domain[-1:] in ("", "\0") or name[len(domain)] == "\0"


def _parent(name: str) -> str:
    """Return a name in the form of `order` without its first label; empty if it has only one."""
    return name.rpartition("\0")[0]


def read_mailbox(address: str) -> Mailbox | None:
    """Return an email address in the form in which it is compared, None if Go rejects it."""
    parts = parse_mailbox(address)
    return None if parts is None else (parts[0], sort_form(parts[1]))
