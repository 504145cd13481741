"""What counts as one address when something is shared out by addresses."""

from ipaddress import IPv6Address

# Whoever has one IPv6 address has its whole network.
_HOST_BITS = 64


def origin_of(address: str) -> str:
    """Return what counts as one address. A client of a socket for both IPs is an IPv4 one."""
    if ":" not in address:
        return address
    parsed = IPv6Address(address)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> _HOST_BITS:x}"
