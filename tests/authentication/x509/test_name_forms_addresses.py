"""Which texts are addresses."""

import ipaddress
import random

import pytest

from proxy.authentication.x509.name_forms import is_address, is_ipv6

PARTS = (*"0123456789abcfFg:.", "::", ":", "1.2.3.4", "ffff", "01", ".256", "0")


def is_known_to_python(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def test_a_text_is_an_address_if_python_takes_it_for_one() -> None:
    """Python knows zones as well, which are in none of these texts."""
    chance = random.Random(9)
    seen = set()
    for _ in range(20_000):
        text = "".join(chance.choices(PARTS, k=chance.randint(0, 16)))
        expected = is_known_to_python(text)
        seen.add(expected)

        assert is_address(text) is expected, text
    assert seen == {True, False}


@pytest.mark.parametrize("text", ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:1.2.3.4"])
def test_an_address_of_ipv6_is_written_in_many_ways(text: str) -> None:
    assert is_ipv6(text)


@pytest.mark.parametrize(
    "text",
    ["", ":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8::", "1::2::3", "1.2.3.4", "fe80::1%eth0"],
)
def test_what_is_nearly_an_address_of_ipv6_is_none(text: str) -> None:
    assert not is_ipv6(text)
