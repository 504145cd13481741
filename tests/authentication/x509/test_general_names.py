"""General names: the names of a subject, and the subtrees of name constraints."""

from ipaddress import ip_address

import pytest

from proxy.authentication.x509.der import Budget, DerError, DerReader
from proxy.authentication.x509.general_names import (
    GeneralNames,
    Network,
    Subtrees,
    read_general_names,
    read_subtrees,
)
from tests.support.forging import seq, tlv

EMAIL, DNS, DIRECTORY, URI, IP = 0x81, 0x82, 0xA4, 0x86, 0x87
IPV4, IPV6 = ip_address("10.1.2.3").packed, ip_address("2001:db8::1").packed
MAPPED = ip_address("::ffff:10.1.2.3").packed


def names_of(*names: tuple[int, bytes], items: int = 100) -> GeneralNames:
    extension = seq(*(tlv(tag, value) for tag, value in names))
    return read_general_names(DerReader(extension), Budget(items))


def subtrees_of(*bases: tuple[int, bytes], items: int = 100) -> Subtrees:
    contents = b"".join(seq(tlv(tag, value)) for tag, value in bases)
    return read_subtrees(DerReader(contents), Budget(items))


def test_names_are_sorted_by_kind_and_keep_their_order() -> None:
    found = names_of(
        (DNS, b"b.example"),
        (EMAIL, b"alice@example.com"),
        (URI, b"https://a.b:443/c"),
        (DNS, b"a.example"),
        (IP, IPV4),
        (IP, IPV6),
        (DIRECTORY, seq()),
    )

    assert found == GeneralNames(
        dns=("b.example", "a.example"),
        emails=("alice@example.com",),
        hosts=("a.b:443",),
        ips=(IPV4, IPV6),
        others=1,
    )
    assert (found.count, found.is_empty) == (7, False)


def test_names_of_other_kinds_alone_count_as_empty() -> None:
    found = names_of((DIRECTORY, seq()), (0x88, b"\x2a"))

    assert (found.count, found.others, found.is_empty) == (2, 2, True)
    assert names_of().is_empty


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        (DNS, b"zo\xeb"),
        (EMAIL, b"zo\xeb@a.b"),
        (URI, b"https://zo\xeb/"),
        (URI, b"https://a.b/%zz"),
        (IP, b""),
        (IP, IPV4[:3]),
        (IP, IPV4 + b"\x00"),
        (IP, IPV6[:15]),
    ],
)
def test_name_that_makes_go_reject_the_certificate_is_an_error(tag: int, value: bytes) -> None:
    with pytest.raises(DerError):
        names_of((DNS, b"a.example"), (tag, value))


def test_names_outside_a_sequence_are_an_error() -> None:
    with pytest.raises(DerError):
        read_general_names(DerReader(tlv(DNS, b"a.example")), Budget(1))


@pytest.mark.parametrize(
    ("tag", "value", "cost"),
    [
        (DNS, b"a.example", 1),
        (DIRECTORY, b"", 1),
        (URI, b"https://a.b/", 1),
        (URI, b"https://alice@a.b/", 2),
    ],
)
def test_names_take_their_items_from_the_budget(tag: int, value: bytes, cost: int) -> None:
    names_of((tag, value), items=cost)

    with pytest.raises(DerError):
        names_of((tag, value), items=cost - 1)


def test_subtrees_are_sorted_by_kind() -> None:
    found = subtrees_of(
        (DNS, b".example"),
        (DNS, b""),
        (EMAIL, b"alice@example.com"),
        (EMAIL, b"example.com"),
        (URI, b".a.b"),
        (IP, IPV4 + b"\xff\xff\x00\x00"),
        (DIRECTORY, seq()),
    )

    assert found == Subtrees(
        dns=(".example", ""),
        emails=("alice@example.com", "example.com"),
        hosts=(".a.b",),
        networks=(Network(IPV4, b"\xff\xff\x00\x00"),),
        others=1,
    )
    assert found.count == 7


def test_absent_subtrees_are_empty() -> None:
    assert read_subtrees(None, Budget(0)) == Subtrees()
    assert Subtrees().count == 0


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        (DNS, b"a..b"),
        (DNS, b"a."),
        (DNS, b"zo\xeb"),
        (EMAIL, b"a b@example.com"),
        (EMAIL, b"@example.com"),
        (EMAIL, b"a..b"),
        (URI, b"10.1.2.3"),
        (URI, b"::1"),
        (URI, b"a..b"),
        (IP, b""),
        (IP, IPV4),
        (IP, IPV6 + IPV4),
        (IP, IPV4 + b"\xff\x00\xff\x00"),
        (IP, IPV4 + b"\xff\xf1\x00\x00"),
        (IP, IPV4 + b"\x7f\x00\x00\x00"),
    ],
)
def test_constraint_that_makes_go_reject_the_certificate_is_an_error(
    tag: int, value: bytes
) -> None:
    with pytest.raises(DerError):
        subtrees_of((DNS, b"a.example"), (tag, value))


@pytest.mark.parametrize("ones", range(33))
def test_every_contiguous_mask_is_accepted(ones: int) -> None:
    mask = ((1 << 32) - (1 << 32 - ones)).to_bytes(4)

    assert subtrees_of((IP, IPV4 + mask)).networks == (Network(IPV4, mask),)


@pytest.mark.parametrize(
    ("tag", "value", "cost"),
    [
        (DNS, b"a.example", 1),
        (EMAIL, b"a.example", 1),
        (EMAIL, b"alice@a.example", 2),
        (URI, b"a.example", 1),
        (URI, b"a:b", 2),
        (DIRECTORY, b"", 1),
    ],
)
def test_subtrees_take_their_items_from_the_budget(tag: int, value: bytes, cost: int) -> None:
    subtrees_of((tag, value), items=cost)

    with pytest.raises(DerError):
        subtrees_of((tag, value), items=cost - 1)


@pytest.mark.parametrize(
    ("address", "is_inside"),
    [("10.1.2.3", True), ("10.1.255.255", True), ("10.2.0.0", False), ("::ffff:10.1.2.3", False)],
)
def test_network_contains_addresses_that_are_equal_under_its_mask(
    address: str, is_inside: object
) -> None:
    # The address of the network has bits outside the mask.
    network = Network(IPV4, b"\xff\xff\x00\x00")

    assert network.contains(ip_address(address).packed) is is_inside


def test_mapped_addresses_are_not_contained_in_ipv6_networks_but_agree_with_them() -> None:
    every_ipv6, every_mapped = Network(bytes(16), bytes(16)), Network(MAPPED, bytes(16))

    assert every_ipv6.contains(IPV6)
    assert not every_ipv6.contains(MAPPED)
    assert every_mapped.contains(MAPPED)
    assert not every_mapped.contains(IPV6)
    assert every_ipv6.agrees_with(MAPPED)
    assert every_mapped.agrees_with(IPV6)
    assert not every_ipv6.agrees_with(IPV4)
