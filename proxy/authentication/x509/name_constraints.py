"""Name constraints of a path, compared as Go compares them.

A client may control names and constraints if a CA has issued it a CA certificate. So all paths of a
chain share one budget. It counts what OpenSSL does with the same path afterwards. OpenSSL compares
every name with every constraint, byte by byte, while the search here takes a few steps.
"""

from collections.abc import Sequence

from proxy.authentication.x509.certificate import Certificate
from proxy.authentication.x509.extensions import NameConstraints
from proxy.authentication.x509.general_names import GeneralNames
from proxy.authentication.x509.name_forms import is_domain
from proxy.authentication.x509.sorted_subtrees import Mailbox, read_mailbox, sort_form

_MAX_COMPARISONS = 8192
_BYTES_PER_COMPARISON = 32
# The costs of other steps, in comparisons: sorting a constraint, looking up a name, and decoding a
# constraint. OpenSSL decodes it again for each name of a kind that Go does not compare.
_SORT_COST, _LOOKUP_COST, _DECODE_COST = 16, 24, 128


class ConstraintError(ValueError):
    """Raised for a name in a path that a CA above it must not sign, or that is not comparable."""


class ComparisonBudget:
    """The comparisons of names and constraints that are left for one chain."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MAX_COMPARISONS

    def charge(self, path: Sequence[Certificate]) -> None:
        """Take the cost of a path from the budget; raise ConstraintError if it is exceeded."""
        for position, certificate in enumerate(path):
            constraints = certificate.extensions.name_constraints
            if constraints is None:
                continue
            # The constraints of an anchor, the last of a path, are sorted once for all chains.
            if position < len(path) - 1:
                self._left -= constraints.count * _SORT_COST
            self._left -= sum(_cost(below, constraints) for below in path[:position])
        if self._left < 0:
            raise ConstraintError("too many names to compare")


def check_name_constraints(path: Sequence[Certificate]) -> None:
    """Raise ConstraintError unless every CA permits all names of the certificates below it."""
    constraints = [
        (position, certificate.extensions.name_constraints)
        for position, certificate in enumerate(path)
        if certificate.extensions.name_constraints is not None
    ]
    for index, certificate in enumerate(path):
        alternatives = certificate.extensions.alternative_names
        above = [each for position, each in constraints if position > index]
        if alternatives is None or not above:
            continue
        names = _Names(alternatives)
        if not all(names.are_within(each) for each in above):
            raise ConstraintError("name not permitted by a CA")


def _cost(below: Certificate, constraints: NameConstraints) -> int:
    names = below.extensions.alternative_names or GeneralNames()
    # OpenSSL compares the subject as well, its email addresses and its common names.
    count = names.count + 1 + len(below.attributes)
    size = len(below.extensions.alternative_names_value or b"") + len(below.subject)
    # Comparing two texts costs as much as the shorter one is long.
    compared_bytes = min(constraints.count * size, count * constraints.size)
    return (
        count * (constraints.count + _LOOKUP_COST)
        + compared_bytes // _BYTES_PER_COMPARISON
        + names.others * constraints.count * _DECODE_COST
    )


class _Names:
    """The names of one certificate in the form in which they are looked up."""

    def __init__(self, names: GeneralNames) -> None:
        if not all(is_domain(name, is_constraint=False) for name in names.dns):
            raise ConstraintError("name that cannot be compared")
        self._ips = names.ips
        self._dns = [sort_form(name) for name in names.dns]
        self._hosts = [sort_form(_comparable_host(host)) for host in names.hosts]
        self._mailboxes = [_comparable_mailbox(address) for address in names.emails]

    def are_within(self, constraints: NameConstraints) -> bool:
        """Return whether all names are permitted and none is excluded."""
        permitted, excluded = constraints.sorted
        unknown = [
            domain
            for local, domain in self._mailboxes
            if (local, domain) not in permitted.mailboxes
        ]
        domains = [domain for _, domain in self._mailboxes]
        return (
            permitted.networks.contain_all(self._ips)
            and excluded.networks.contain_none(self._ips)
            and permitted.dns.contain_all(self._dns)
            and excluded.dns.contain_none(self._dns)
            and permitted.hosts.contain_all(self._hosts)
            and excluded.hosts.contain_none(self._hosts)
            and permitted.mail_domains.contain_all(unknown)
            and excluded.mailboxes.isdisjoint(self._mailboxes)
            and excluded.mail_domains.contain_none(domains)
        )


def _comparable_mailbox(address: str) -> Mailbox:
    found = read_mailbox(address)
    if found is None:
        raise ConstraintError("email address that cannot be compared")
    return found


def _comparable_host(host: str) -> str:
    """Return the host of a URI without its port; raise if it is empty or an IP address."""
    name = host.partition(":")[0]
    if not name or name.replace(".", "").isdigit():
        raise ConstraintError("URI with a host that cannot be compared")
    return name
