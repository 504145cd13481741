import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.kubernetes.network import OVERLOADS
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('string(ip("2001:DB8::1"))', "2001:db8::1"),
        ('isIP("::ffff:1.2.3.4")', False),
        ('isIP("fe80::1%en0")', False),
        ('isIP("10.0.0.1")', True),
        ('isIP("010.0.0.1")', False),
        ('ip.isCanonical("2001:DB8::1")', False),
        ('ip("10.0.0.1").family()', 4),
        ('ip("::1").family()', 6),
        ('ip("::1").isLoopback()', True),
        ('ip("0.0.0.0").isUnspecified()', True),
        ('ip("224.0.0.1").isLinkLocalMulticast()', True),
        ('ip("ff02::1").isLinkLocalMulticast()', True),
        ('ip("fe80::1").isLinkLocalUnicast()', True),
        ('ip("8.8.8.8").isGlobalUnicast()', True),
        ('ip("255.255.255.255").isGlobalUnicast()', False),
        ('isCIDR("10.0.0.0/33")', False),
        ('isCIDR("10.0.0.0")', False),
        ('string(cidr("10.1.2.3/8").masked())', "10.0.0.0/8"),
        ('string(cidr("10.1.2.3/8").ip())', "10.1.2.3"),
        ('cidr("10.0.0.0/8").prefixLength()', 8),
        ('cidr("10.0.0.0/8").containsIP("10.1.1.1")', True),
        ('cidr("10.0.0.0/8").containsIP(ip("::1"))', False),
        ('cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")', True),
        ('cidr("10.0.0.0/16").containsCIDR(cidr("10.0.0.0/8"))', False),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("ip(object.s)", "parse error during conversion from string"),
        ("cidr(object.s)", "network address parse error"),
        ('cidr("10.0.0.0/8").containsIP(object.s)', "no such overload"),
        ('cidr("10.0.0.0/8").containsCIDR(object.s)', "network address parse error"),
        ("object.a.family()", "no such overload"),
        ("object.a.masked()", "no such overload"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)
