"""Which names sorted subtrees have: as many as the unsorted ones, and as Go finds them."""

import itertools
import random

import pytest

from proxy.authentication.x509.general_names import Network, Subtrees
from proxy.authentication.x509.sorted_subtrees import (
    SortedDomains,
    SortedNetworks,
    SortedSubtrees,
    sort_form,
)

MAPPED = bytes(10) + b"\xff\xff"
IPV6 = b"\x20\x01\x0d\xb8" + bytes(12)


def network(address: bytes, ones: int) -> Network:
    bits = 8 * len(address)
    return Network(address, ((1 << bits) - (1 << bits - ones)).to_bytes(len(address), "big"))


def permits(networks: list[Network], address: bytes) -> bool:
    return SortedNetworks(networks, without_any=True).contain_all([address])


def excludes(networks: list[Network], address: bytes) -> bool:
    return not SortedNetworks(networks, without_any=False).contain_none([address])


@pytest.mark.parametrize(
    ("permitted", "address", "expected"),
    [
        (network(bytes(16), 0), IPV6, True),
        (network(bytes(16), 0), MAPPED + b"\x0a\0\0\1", False),
        (network(MAPPED + b"\1\2\3\4", 0), IPV6, False),
        (network(MAPPED + b"\1\2\3\4", 0), MAPPED + b"\x0a\0\0\1", True),
        (network(MAPPED + b"\1\2\3\4", 104), MAPPED + b"\x0a\0\0\1", False),
        (network(bytes(4), 0), MAPPED + b"\x0a\0\0\1", False),
    ],
)
def test_mapped_addresses_are_a_family_of_their_own_where_they_are_permitted(
    permitted: Network, address: bytes, expected: object
) -> None:
    assert permits([permitted], address) is expected


def test_mapped_addresses_are_excluded_with_those_of_ipv6() -> None:
    """Stricter than Go, which would let them through."""
    assert excludes([network(bytes(16), 0)], MAPPED + b"\x0a\0\0\1")
    assert excludes([network(MAPPED + b"\1\2\3\4", 0)], IPV6)
    assert not excludes([network(bytes(4), 0)], IPV6)


def test_without_networks_all_are_permitted_and_none_is_excluded() -> None:
    assert permits([], IPV6)
    assert not excludes([], IPV6)


def is_below(name: str, domain: str) -> bool:
    """Return what RFC 5280 says of one name and one domain."""
    name, domain = name.lower(), domain.lower()
    if domain.startswith("."):
        return name.endswith(domain)
    return domain in ("", name) or name.endswith("." + domain)


def test_sorted_domains_have_what_any_of_them_has() -> None:
    chance = random.Random(7)
    labels = ("a", "b", "A", "a-b", "c_", "com", "-", "ab")
    names = [
        ".".join(one) for count in (1, 2, 3) for one in itertools.product(labels, repeat=count)
    ]
    for _ in range(300):
        domains = chance.sample(names, chance.randint(1, 6))
        domains = [chance.choice(("", "", ".")) + one for one in domains]
        name = chance.choice(names + domains).removeprefix(".")
        expected = any(is_below(name, one) for one in domains)

        assert SortedDomains(domains, without_any=True).contain_all([sort_form(name)]) is expected
        assert (
            SortedDomains(domains, without_any=False).contain_none([sort_form(name)])
            is not expected
        )


def test_a_wildcard_is_excluded_with_what_it_may_stand_for() -> None:
    excluded = SortedDomains(["secret.example.com", ".org"], without_any=False)

    for name in ("*.example.com", "*.EXAMPLE.com", "*x.example.com", "*.org"):
        assert not excluded.contain_none([sort_form(name)]), name
    for name in ("*.b.example.com", "*.com", "*", "a.example.com"):
        assert excluded.contain_none([sort_form(name)]), name


def test_email_addresses_are_permitted_one_by_one_or_by_domain() -> None:
    permitted = SortedSubtrees(Subtrees(emails=("a@B.org", "c.org")), without_any=True)

    assert permitted.mailboxes == {("a", sort_form("b.org"))}
    assert permitted.mail_domains.contain_all([sort_form("c.org")])
    assert not permitted.mail_domains.contain_all([sort_form("b.org")])

    only_one = SortedSubtrees(Subtrees(emails=("a@b.org",)), without_any=True)
    assert not only_one.mail_domains.contain_all([sort_form("b.org")])
