"""Which addresses count as one."""

import pytest

from proxy.concurrency.rate_limit import address_key


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%1", "fe80::2%1", True),
    ],
)
def test_an_ipv6_network_is_one_address(one: str, other: str, is_same: object) -> None:
    assert (address_key(one) == address_key(other)) is is_same
