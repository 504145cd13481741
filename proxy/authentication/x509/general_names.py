"""General names: the alternative names of a subject, and the subtrees of name constraints."""

from dataclasses import dataclass

from proxy.authentication.x509.der import (
    CONTEXT,
    SEQUENCE,
    Budget,
    DerError,
    DerReader,
)
from proxy.authentication.x509.name_forms import is_address, is_domain, parse_mailbox, read_host

_EMAIL, _DNS, _URI, _IP = CONTEXT + 1, CONTEXT + 2, CONTEXT + 6, CONTEXT + 7
_IP_BYTES = (4, 16)
_LEADING_ONES = frozenset((0x00, 0x80, 0xC0, 0xE0, 0xF0, 0xF8, 0xFC, 0xFE))
_MAPPED = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True)
class GeneralNames:
    """Names of the four kinds that Go compares."""

    dns: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Hosts of URIs with their port; empty for a URI without a host, or not in plain form."""
    ips: tuple[bytes, ...] = ()
    others: int = 0
    """The number of names of other kinds."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is no name that Go compares."""
        return self.count == self.others

    @property
    def count(self) -> int:
        """Return the total number of all kinds."""
        return sum(map(len, (self.dns, self.emails, self.hosts, self.ips))) + self.others


@dataclass(frozen=True, slots=True)
class Network:
    """A network: addresses equal to `address` in the bits of `mask`.

    The address itself may have bits outside the mask.
    """

    address: bytes
    mask: bytes

    def contains(self, address: bytes) -> bool:
        """Return whether Go considers an address part of the network.

        IPv4-mapped IPv6 addresses are a family of their own: `::/0` contains none of them.
        """
        return _is_mapped(address) is _is_mapped(self.address) and self.agrees_with(address)

    def agrees_with(self, address: bytes) -> bool:
        """Return whether an address is equal in the bits of the mask, IPv4-mapped or not."""
        if len(address) != len(self.address):
            return False
        difference = int.from_bytes(address) ^ int.from_bytes(self.address)
        return not difference & int.from_bytes(self.mask)


@dataclass(frozen=True, slots=True)
class Subtrees:
    """The bases of subtrees, by kind."""

    dns: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()
    others: int = 0
    """The number of subtrees of kinds that Go does not compare."""

    @property
    def count(self) -> int:
        """Return the total number of all kinds."""
        return sum(map(len, (self.dns, self.emails, self.hosts, self.networks))) + self.others


def read_general_names(extension: DerReader, budget: Budget) -> GeneralNames:
    """Return the names of a subject; raise DerError if Go rejects the certificate."""
    names = extension.read(SEQUENCE)
    found: dict[int, list[bytes]] = {_DNS: [], _EMAIL: [], _URI: [], _IP: []}
    others = 0
    while not names.is_empty:
        budget.take()
        tag, value = names.read_value()
        if tag in found:
            found[tag].append(value)
        else:
            others += 1
    if any(len(address) not in _IP_BYTES for address in found[_IP]):
        raise DerError("IP address of invalid length")
    return GeneralNames(
        dns=tuple(_ascii(name) for name in found[_DNS]),
        emails=tuple(_ascii(name) for name in found[_EMAIL]),
        hosts=tuple(read_host(_ascii(name), budget) for name in found[_URI]),
        ips=tuple(found[_IP]),
        others=others,
    )


def read_subtrees(subtrees: DerReader | None, budget: Budget) -> Subtrees:
    """Return the bases of subtrees; raise DerError if Go rejects the certificate."""
    if subtrees is None:
        return Subtrees()
    dns: list[str] = []
    emails: list[str] = []
    hosts: list[str] = []
    networks: list[Network] = []
    others = 0
    while not subtrees.is_empty:
        budget.take()
        tag, value = subtrees.read(SEQUENCE).read_value()
        if tag == _DNS:
            dns.append(_domain_constraint(_ascii(value)))
        elif tag == _EMAIL:
            emails.append(_email_constraint(_ascii(value), budget))
        elif tag == _URI:
            hosts.append(_host_constraint(_ascii(value), budget))
        elif tag == _IP:
            networks.append(_network(value))
        else:
            others += 1
    return Subtrees(tuple(dns), tuple(emails), tuple(hosts), tuple(networks), others)


def _ascii(value: bytes) -> str:
    if not value.isascii():
        raise DerError("name that is not ASCII")
    return value.decode("ascii")


def _domain_constraint(domain: str) -> str:
    if not is_domain(domain, is_constraint=True):
        raise DerError("constraint that is not a domain")
    return domain


def _email_constraint(constraint: str, budget: Budget) -> str:
    if "@" not in constraint:
        return _domain_constraint(constraint)
    budget.take()  # parsing a mailbox costs as much as another item
    if parse_mailbox(constraint) is None:
        raise DerError("constraint that is not an email address")
    return constraint


def _host_constraint(domain: str, budget: Budget) -> str:
    if ":" in domain:
        budget.take()  # checking for an address costs as much as another item
    if is_address(domain):
        raise DerError("URI constraint that is an IP address")
    return _domain_constraint(domain)


def _network(value: bytes) -> Network:
    half = len(value) // 2
    if len(value) % 2 or half not in _IP_BYTES:
        raise DerError("network of invalid length")
    address, mask = value[:half], value[half:]
    ones = mask.lstrip(b"\xff")
    if ones and (ones[0] not in _LEADING_ONES or any(ones[1:])):
        raise DerError("non-contiguous network mask")
    return Network(address, mask)


def _is_mapped(address: bytes) -> bool:
    return len(address) == _IP_BYTES[1] and address.startswith(_MAPPED)
