"""URIs of alternative names: which of them Go reads, and which have a host that is compared.

Go refuses a certificate for a URI that its net/url does not parse. A host is compared with name
constraints only if the whole URI is plain: then no two readers can disagree about it.
"""

import re

from proxy.authentication.x509.addresses import is_ipv6
from proxy.authentication.x509.der import Budget, DerError
from proxy.authentication.x509.domains import is_domain

_PATH = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*+"
_PLAIN_URI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:"
    r"//(?P<host>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)(?P<port>:[0-9]+)?(?:[/?]" + _PATH + r")?"
    r"|/?[A-Za-z0-9]" + _PATH + r")"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_USER = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
# Go unescapes other bytes as well, and then refuses them: they are not ASCII.
_HOST = re.compile(r"(?:[A-Za-z0-9!\"$&'()*+,.:;<=>\[\]_~-]|%25)*")
_PORT = re.compile(r"(?::[0-9]*)?")
_WITH_STRICT_COLONS = ("http", "https")


def read_host(uri: str, budget: Budget) -> str:
    """Return the host and port of a URI; DerError where Go does not parse it.

    Empty without a host, and for every URI that is not plain. One that is not plain takes two items
    of the budget, because it takes twice as long.
    """
    plain = _PLAIN_URI.fullmatch(uri)
    if plain is not None:
        return (plain["host"] or "") + (plain["port"] or "")
    budget.spend()
    if not _is_parsed_by_go(uri):
        raise DerError("a URI that Go does not parse")
    return ""


def _is_parsed_by_go(uri: str) -> bool:
    """Follow url.Parse of Go; the query is whatever it is."""
    rest, _, fragment = uri.partition("#")
    if _CONTROL.search(rest) or _BAD_ESCAPE.search(fragment) or rest.startswith(":"):
        return False
    scheme = _SCHEME.match(rest)
    rest = rest[scheme.end() if scheme else 0 :].partition("?")[0]
    if not rest.startswith("/"):
        # After a scheme that is opaque; without one it is a relative path.
        return scheme is not None or (
            ":" not in rest.partition("/")[0] and not _BAD_ESCAPE.search(rest)
        )
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        if not _is_authority(authority, scheme[1].lower() if scheme else ""):
            return False
        rest = slash + path
    return not _BAD_ESCAPE.search(rest)


def _is_authority(authority: str, scheme: str) -> bool:
    user, _, host = authority.rpartition("@")
    if not _USER.fullmatch(user) or _BAD_ESCAPE.search(user):
        return False
    if "[" in host:
        return _is_address(host)
    parts = host.partition(":") if scheme in _WITH_STRICT_COLONS else host.rpartition(":")
    if parts[1] and not _PORT.fullmatch(parts[1] + parts[2]):
        return False
    return bool(_HOST.fullmatch(host)) and is_domain(host.replace("%25", "%"), is_constraint=False)


def _is_address(host: str) -> bool:
    """Return whether a host is an IPv6 address in brackets; stricter than Go: without a zone."""
    address, bracket, port = host[1:].rpartition("]")
    return bool(host[0] == "[" and bracket and _PORT.fullmatch(port) and is_ipv6(address))
