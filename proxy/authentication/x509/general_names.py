"""General names: the alternative names of a subject, and the subtrees of name constraints."""

from dataclasses import dataclass

from proxy.authentication.x509.der import (
    CONTEXT,
    SEQUENCE,
    Budget,
    DerError,
    DerReader,
)
from proxy.authentication.x509.name_forms import is_address, is_domain, mailbox, read_host

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
    """Of URIs, with their port; empty where a URI has none, or is not plain."""
    ips: tuple[bytes, ...] = ()
    others: int = 0
    """How many there are of other kinds."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is no name that Go compares."""
        return self.count == self.others

    @property
    def count(self) -> int:
        """Return how many there are of all kinds."""
        return sum(map(len, (self.dns, self.emails, self.hosts, self.ips))) + self.others


@dataclass(frozen=True, slots=True)
class Network:
    """Addresses that agree with an address where its mask is set; the address may have more."""

    address: bytes
    mask: bytes

    def contains(self, address: bytes) -> bool:
        """Return whether Go finds an address of the same family in the network.

        IPv6 addresses that stand for IPv4 are a family of their own: `::/0` has none of them.
        """
        return _is_mapped(address) is _is_mapped(self.address) and self.agrees_with(address)

    def agrees_with(self, address: bytes) -> bool:
        """Return whether an address is the same where the mask is set, mapped or not."""
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
    """How many there are of kinds that Go does not compare."""

    @property
    def count(self) -> int:
        """Return how many there are of all kinds."""
        return sum(map(len, (self.dns, self.emails, self.hosts, self.networks))) + self.others


def read_general_names(extension: DerReader, budget: Budget) -> GeneralNames:
    """Return the names of a subject; DerError where Go refuses the certificate."""
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
        raise DerError("an IP address of another length")
    return GeneralNames(
        dns=tuple(_ascii(name) for name in found[_DNS]),
        emails=tuple(_ascii(name) for name in found[_EMAIL]),
        hosts=tuple(read_host(_ascii(name), budget) for name in found[_URI]),
        ips=tuple(found[_IP]),
        others=others,
    )


def read_subtrees(subtrees: DerReader | None, budget: Budget) -> Subtrees:
    """Return the bases of subtrees; DerError where Go refuses the certificate."""
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
        raise DerError("a name that is not ASCII")
    return value.decode("ascii")


def _domain_constraint(domain: str) -> str:
    if not is_domain(domain, is_constraint=True):
        raise DerError("a constraint that is not a domain")
    return domain


def _email_constraint(constraint: str, budget: Budget) -> str:
    if "@" not in constraint:
        return _domain_constraint(constraint)
    budget.take()  # it takes as long as to read another one
    if mailbox(constraint) is None:
        raise DerError("a constraint that is not an email address")
    return constraint


def _host_constraint(domain: str, budget: Budget) -> str:
    if ":" in domain:
        budget.take()  # to tell it from an address takes as long
    if is_address(domain):
        raise DerError("a constraint of URIs that is an address")
    return _domain_constraint(domain)


def _network(value: bytes) -> Network:
    half = len(value) // 2
    if len(value) % 2 or half not in _IP_BYTES:
        raise DerError("a network of another length")
    address, mask = value[:half], value[half:]
    ones = mask.lstrip(b"\xff")
    if ones and (ones[0] not in _LEADING_ONES or any(ones[1:])):
        raise DerError("a mask that is not ones and then zeros")
    return Network(address, mask)


def _is_mapped(address: bytes) -> bool:
    return len(address) == _IP_BYTES[1] and address.startswith(_MAPPED)
