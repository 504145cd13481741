"""Forms of names: addresses, domains, mailboxes and URIs."""

import ipaddress
import random

import pytest

from proxy.authentication.x509.der import Budget, DerError
from proxy.authentication.x509.name_forms import (
    is_address,
    is_domain,
    is_ipv6,
    parse_mailbox,
    read_host,
)

PARTS = (*"0123456789abcfFg:.", "::", ":", "1.2.3.4", "ffff", "01", ".256", "0")


def is_known_to_python(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def test_random_text_is_an_address_exactly_if_python_parses_it() -> None:
    """Python parses zones as well, but no text here has one."""
    chance = random.Random(9)
    seen = set()
    for _ in range(20_000):
        text = "".join(chance.choices(PARTS, k=chance.randint(0, 16)))
        expected = is_known_to_python(text)
        seen.add(expected)

        assert is_address(text) is expected, text
    assert seen == {True, False}


@pytest.mark.parametrize("text", ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:1.2.3.4"])
def test_each_notation_of_an_ipv6_address_is_accepted(text: str) -> None:
    assert is_ipv6(text)


@pytest.mark.parametrize(
    "text",
    ["", ":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8::", "1::2::3", "1.2.3.4", "fe80::1%eth0"],
)
def test_malformed_ipv6_address_is_rejected(text: str) -> None:
    assert not is_ipv6(text)


@pytest.mark.parametrize("name", ["", "a", "a.b", "*.a.b", "a_b.c", "a!b", "1.2"])
def test_domain_with_printable_labels_is_accepted(name: str) -> None:
    assert is_domain(name, is_constraint=False)
    assert is_domain(name, is_constraint=True)


@pytest.mark.parametrize("name", [".", "a.", "a..b", "..a", "a b", "a\x00", "a\x7f", "zoë"])
def test_domain_with_empty_or_unprintable_labels_is_rejected(name: str) -> None:
    assert not is_domain(name, is_constraint=False)
    assert not is_domain(name, is_constraint=True)


def test_only_a_constraint_may_start_with_a_dot() -> None:
    assert is_domain(".a.b", is_constraint=True)
    assert not is_domain(".a.b", is_constraint=False)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("alice@a.b", ("alice", "a.b")),
        ("a.b+c@d", ("a.b+c", "d")),
        ('"a b@c"@d', ("a b@c", "d")),
        (r'"a\"b\\c"@d', (r'a"b\c', "d")),
        ('"a..b."@d', ("a..b.", "d")),
        (r"a\@b@c", ("a@b", "c")),
        ('""@d', ("", "d")),
        ("a@", ("a", "")),
        # Go accepts anything printable after the first "@" as the domain.
        ("a@b@c", ("a", "b@c")),
    ],
)
def test_mailbox_is_split_into_its_local_part_and_its_domain(
    address: str, parts: tuple[str, str]
) -> None:
    assert parse_mailbox(address) == parts


@pytest.mark.parametrize(
    "address",
    [
        "",
        "alice",
        "@a.b",
        "a b@c",
        ".a@b",
        "a.@b",
        "a..b@c",
        "a@b.",
        "a@.b",
        '"a@b',
        '"a"b@c',
        '"a\n"@b',
        "a\\",
    ],
)
def test_malformed_mailbox_is_rejected(address: str) -> None:
    assert parse_mailbox(address) is None


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("https://a.b", "a.b"),
        ("https://a.b:443/c?d=%20", "a.b:443"),
        ("spiffe://cluster.local/ns/a/sa/b", "cluster.local"),
        ("urn:a:b", ""),
        ("file:/a", ""),
    ],
)
def test_host_of_a_plain_uri_takes_nothing_from_the_budget(uri: str, host: str) -> None:
    assert read_host(uri, Budget(0)) == host


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "a/b",
        "//a.b/c",
        "https://alice@a.b/",
        "https://alice:secret@a.b/",
        "https://[::1]:443/",
        "https://a.b:/",
        "https://a.b/c#d",
        "https://a.b/ü",
        "s://a:b:80/",
    ],
)
def test_uri_that_is_not_plain_has_no_host_and_takes_an_item(uri: str) -> None:
    assert read_host(uri, Budget(1)) == ""
    with pytest.raises(DerError, match="too many"):
        read_host(uri, Budget(0))


@pytest.mark.parametrize(
    "uri",
    [
        ":",
        "1a:b",
        "https://a.b/%zz",
        "https://a.b/#%z",
        "https://a.b/\x7f",
        "https://a.b\n/",
        "https://a b/",
        "https://a.b:port/",
        "https://a:b:80/",
        "https://a../",
        "https://al ice@a.b/",
        "https://%zz@a.b/",
        "https://[::1/",
        "https://[1.2.3.4]/",
        "https://[::1]port/",
        "https://a[::1]/",
        "https://[fe80::1%25eth0]/",
    ],
)
def test_uri_that_go_does_not_parse_is_an_error(uri: str) -> None:
    with pytest.raises(DerError, match="URI that Go does not parse"):
        read_host(uri, Budget(1))
