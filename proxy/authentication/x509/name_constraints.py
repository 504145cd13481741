"""Name constraints of a path, compared as Go compares them.

A client may be the one who wrote names and constraints, if a CA let it be a CA. So all paths of a
chain share one budget. It counts what OpenSSL does with the same path afterwards: it compares every
name with every constraint, byte by byte, where the search here takes a few steps.
"""

from collections.abc import Sequence

from proxy.authentication.x509.certificate import Certificate
from proxy.authentication.x509.extensions import NameConstraints
from proxy.authentication.x509.general_names import GeneralNames
from proxy.authentication.x509.name_forms import is_domain
from proxy.authentication.x509.sorted_subtrees import Mailbox, order, read_mailbox

_MOST_COMPARISONS = 8192
_BYTES_OF_A_COMPARISON = 32
# What costs as much as so many comparisons: to sort a constraint, and to look up a name. OpenSSL
# decodes a constraint again for each name of a kind that Go does not compare.
_TO_SORT, _TO_LOOK_UP, _TO_DECODE = 16, 24, 128


class ConstraintError(ValueError):
    """A name in a path that a CA above it must not sign, or that cannot be compared."""


class ComparisonBudget:
    """How many comparisons of names and constraints are left for one chain."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST_COMPARISONS

    def take(self, path: Sequence[Certificate]) -> None:
        """Take what a path costs; ConstraintError if there is not that much left."""
        for position, one in enumerate(path):
            constraints = one.extensions.name_constraints
            if constraints is None:
                continue
            # Those of an anchor, the last of a path, are sorted once for all chains.
            if position < len(path) - 1:
                self._left -= constraints.count * _TO_SORT
            self._left -= sum(_cost(below, constraints) for below in path[:position])
        if self._left < 0:
            raise ConstraintError("too many names to compare")


def check_name_constraints(path: Sequence[Certificate]) -> None:
    """Raise ConstraintError unless every CA permits all names of the certificates below it."""
    constraints = [
        (position, one.extensions.name_constraints)
        for position, one in enumerate(path)
        if one.extensions.name_constraints is not None
    ]
    for index, certificate in enumerate(path):
        alternatives = certificate.extensions.alternative_names
        above = [one for position, one in constraints if position > index]
        if alternatives is None or not above:
            continue
        names = _Names(alternatives)
        if not all(names.are_within(one) for one in above):
            raise ConstraintError("a name that a CA must not sign")


def _cost(below: Certificate, constraints: NameConstraints) -> int:
    names = below.extensions.alternative_names or GeneralNames()
    # OpenSSL compares the subject as well, its email addresses and its common names.
    count = names.count + 1 + len(below.attributes)
    size = len(below.extensions.alternative_names_value or b"") + len(below.subject)
    # Of two texts only the shorter length is compared.
    compared_bytes = min(constraints.count * size, count * constraints.size)
    return (
        count * (constraints.count + _TO_LOOK_UP)
        + compared_bytes // _BYTES_OF_A_COMPARISON
        + names.others * constraints.count * _TO_DECODE
    )


class _Names:
    """The names of one certificate, as they are looked up."""

    def __init__(self, names: GeneralNames) -> None:
        if not all(is_domain(name, is_constraint=False) for name in names.dns):
            raise ConstraintError("a name that cannot be compared")
        self._ips = names.ips
        self._dns = [order(name) for name in names.dns]
        self._hosts = [order(_comparable_host(host)) for host in names.hosts]
        self._mailboxes = [_comparable_mailbox(address) for address in names.emails]

    def are_within(self, constraints: NameConstraints) -> bool:
        """Return whether all of them are permitted and none is excluded."""
        permitted, excluded = constraints.sorted
        unknown = [
            domain
            for local, domain in self._mailboxes
            if (local, domain) not in permitted.mailboxes
        ]
        domains = [domain for _, domain in self._mailboxes]
        return (
            permitted.networks.have_each(self._ips)
            and excluded.networks.have_none(self._ips)
            and permitted.dns.have_each(self._dns)
            and excluded.dns.have_none(self._dns)
            and permitted.hosts.have_each(self._hosts)
            and excluded.hosts.have_none(self._hosts)
            and permitted.mail_domains.have_each(unknown)
            and excluded.mailboxes.isdisjoint(self._mailboxes)
            and excluded.mail_domains.have_none(domains)
        )


def _comparable_mailbox(address: str) -> Mailbox:
    found = read_mailbox(address)
    if found is None:
        raise ConstraintError("an email address that cannot be compared")
    return found


def _comparable_host(host: str) -> str:
    """Return the host of a URI without its port; it is neither empty nor an address."""
    name = host.partition(":")[0]
    if not name or name.replace(".", "").isdigit():
        raise ConstraintError("a URI whose host cannot be compared")
    return name
