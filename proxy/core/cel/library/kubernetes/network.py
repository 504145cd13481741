"""IP addresses and CIDR ranges, as Go's net/netip reads and writes them."""

import re
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.library.arguments import Implementation, text_of
from proxy.core.cel.values.kinds import Cidr, IpAddress, Value

_V4, _V6, _LONGEST = 32, 128, 45
_MULTICAST_V4, _MULTICAST_V6 = 0xE00000, 0xFF02
_MAPPED = 0xFFFF
_PREFIX = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


def parse_address(text: str) -> IpAddress | None:
    """Return the address of a text, None for anything else and for IPv4-mapped addresses."""
    if not text.isascii() or "%" in text or len(text) > _LONGEST:
        return None
    try:
        if ":" not in text:
            return IpAddress(int(IPv4Address(text)), _V4)
        number = int(IPv6Address(text))
    except ValueError:
        return None
    return None if number >> 32 == _MAPPED else IpAddress(number, _V6)


def address_text(address: IpAddress) -> str:
    """Return an address in its canonical form."""
    if address.bits == _V4:
        return str(IPv4Address(address.number))
    return str(IPv6Address(address.number))


def _parse_cidr(text: str) -> Cidr | None:
    head, slash, tail = text.rpartition("/")
    address = parse_address(head) if slash else None
    if address is None or not _PREFIX.fullmatch(tail) or int(tail) > address.bits:
        return None
    return Cidr(address, int(tail))


def _ip(values: Sequence[Value]) -> IpAddress:
    text = text_of(values[0])
    address = parse_address(text)
    if address is None:
        raise CelEvaluationError(f'IP Address "{text}" parse error during conversion from string')
    return address


def _cidr(values: Sequence[Value]) -> Cidr:
    cidr = _parse_cidr(text_of(values[0]))
    if cidr is None:
        raise CelEvaluationError("network address parse error during conversion from string")
    return cidr


def _address(value: Value) -> IpAddress:
    if isinstance(value, IpAddress):
        return value
    raise no_such_overload()


def _range(value: Value) -> Cidr:
    if isinstance(value, Cidr):
        return value
    raise no_such_overload()


def _masked(cidr: Cidr) -> Cidr:
    host_bits = cidr.address.bits - cidr.prefix
    number = cidr.address.number >> host_bits << host_bits
    return Cidr(IpAddress(number, cidr.address.bits), cidr.prefix)


def _holds(cidr: Cidr, address: IpAddress) -> bool:
    if cidr.address.bits != address.bits:
        return False
    host_bits = address.bits - cidr.prefix
    return cidr.address.number >> host_bits == address.number >> host_bits


def _contains_ip(values: Sequence[Value]) -> Value:
    other = values[1]
    address = parse_address(other) if isinstance(other, str) else _address(other)
    if address is None:
        raise no_such_overload()
    return _holds(_range(values[0]), address)


def _contains_cidr(values: Sequence[Value]) -> Value:
    cidr, other = _range(values[0]), values[1]
    inner = _cidr((other,)) if isinstance(other, str) else _range(other)
    return cidr.prefix <= inner.prefix and _holds(cidr, inner.address)


def _is_canonical(values: Sequence[Value]) -> Value:
    return address_text(_ip(values)) == text_of(values[0])


def _python_address(address: IpAddress) -> IPv4Address | IPv6Address:
    return IPv4Address(address.number) if address.bits == _V4 else IPv6Address(address.number)


def _test(test: Callable[[IpAddress], bool]) -> Implementation:
    return lambda values: test(_address(values[0]))


def _is_link_local_multicast(address: IpAddress) -> bool:
    if address.bits == _V4:
        return address.number >> 8 == _MULTICAST_V4
    return address.number >> 112 & 0xFF0F == _MULTICAST_V6


def _is_global_unicast(address: IpAddress) -> bool:
    known = _python_address(address)
    if address.bits == _V4 and address.number in (0, 2**32 - 1):
        return False
    return not (
        known.is_unspecified
        or known.is_loopback
        or known.is_multicast
        or _python_address(address).is_link_local
    )


def _cidr_text(values: Sequence[Value]) -> Value:
    cidr = _range(values[0])
    return f"{address_text(cidr.address)}/{cidr.prefix}"


OVERLOADS: dict[str, Implementation] = {
    "string_to_ip": _ip,
    "is_ip": lambda values: parse_address(text_of(values[0])) is not None,
    "ip_is_canonical": _is_canonical,
    "ip_to_string": lambda values: address_text(_address(values[0])),
    "ip_family": lambda values: 4 if _address(values[0]).bits == _V4 else 6,
    "ip_is_unspecified": _test(lambda address: address.number == 0),
    "ip_is_loopback": _test(lambda address: _python_address(address).is_loopback),
    "ip_is_link_local_multicast": _test(_is_link_local_multicast),
    "ip_is_link_local_unicast": _test(lambda address: _python_address(address).is_link_local),
    "ip_is_global_unicast": _test(_is_global_unicast),
    "string_to_cidr": _cidr,
    "is_cidr": lambda values: _parse_cidr(text_of(values[0])) is not None,
    "cidr_to_string": _cidr_text,
    "cidr_ip": lambda values: _range(values[0]).address,
    "cidr_masked": lambda values: _masked(_range(values[0])),
    "cidr_prefix_length": lambda values: _range(values[0]).prefix,
    "cidr_contains_ip_string": _contains_ip,
    "cidr_contains_ip_ip": _contains_ip,
    "cidr_contains_cidr_string": _contains_cidr,
    "cidr_contains_cidr": _contains_cidr,
}
