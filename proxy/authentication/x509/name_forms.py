"""Forms of names: IP addresses, domains, mailboxes and URIs, parsed as in Go.

Go rejects a certificate with a URI that its net/url does not parse. A host is compared with name
constraints only if the whole URI is in plain form: then no two parsers can disagree about it.
"""

import re

from proxy.authentication.x509.der import Budget, DerError

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_GROUPS = re.compile(r"[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,7}")
_GROUP_COUNT = 8


def is_address(text: str) -> bool:
    """Return whether a text is an IPv4 or IPv6 address."""
    return is_ipv6(text) if ":" in text else _IPV4.fullmatch(text) is not None


def is_ipv6(text: str) -> bool:
    """Return whether a text is an IPv6 address; its end may be in IPv4 notation."""
    head, colon, last = text.rpartition(":")
    if "." in last:
        if not _IPV4.fullmatch(last):
            return False
        text = head + colon + "0:0"
    left, gap, right = text.partition("::")
    parts = [part for part in (left, right) if part]
    if not all(_GROUPS.fullmatch(part) for part in parts):
        return False
    count = sum(part.count(":") + 1 for part in parts)
    return count < _GROUP_COUNT if gap else count == _GROUP_COUNT


_PRINTABLE = re.compile("[!-~]+")
# Go accepts a backslash before any character outside quotes, and before these inside.
_MAILBOX = re.compile(
    r"(?:\"(?P<quoted>(?:[\x01-\x08\x0b\x0c\x0e-!#-\[\]-\x7f]++|\\[\x01-\x09\x0b\x0c\x0e-\x7f])*+)\""
    r"|(?P<atoms>(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]++|\\.)++)"
    r")@(?P<domain>.*)",
    re.DOTALL,
)
# Placeholder for an escaped backslash. It cannot occur in a name: names are ASCII.
_ESCAPED_BACKSLASH = "\uffff"


def is_domain(name: str, *, is_constraint: bool) -> bool:
    """Return whether Go accepts this as a domain name; the empty one is accepted."""
    if not name:
        return True
    if name.endswith("."):
        return False
    if is_constraint and name.startswith("."):
        name = name[1:]
    has_empty_label = name.startswith(".") or ".." in name
    return not has_empty_label and _PRINTABLE.fullmatch(name) is not None


def parse_mailbox(address: str) -> tuple[str, str] | None:
    """Return local part and domain of an email address, None if Go does not accept it."""
    parts = _MAILBOX.fullmatch(address)
    if parts is None or not is_domain(parts["domain"], is_constraint=False):
        return None
    if parts["quoted"] is not None:
        return _unescaped(parts["quoted"]), parts["domain"]
    local = _unescaped(parts["atoms"])
    if local.startswith(".") or local.endswith(".") or ".." in local:
        return None
    return local, parts["domain"]


def _unescaped(text: str) -> str:
    return (
        text.replace("\\\\", _ESCAPED_BACKSLASH).replace("\\", "").replace(_ESCAPED_BACKSLASH, "\\")
    )


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
# Go unescapes other bytes as well, and then rejects them: they are not ASCII.
_HOST = re.compile(r"(?:[A-Za-z0-9!\"$&'()*+,.:;<=>\[\]_~-]|%25)*")
_PORT = re.compile(r"(?::[0-9]*)?")
_STRICT_PORT_SCHEMES = ("http", "https")


def read_host(uri: str, budget: Budget) -> str:
    """Return the host and port of a URI; raise DerError if Go does not parse it.

    Empty for a URI without a host, and for every URI not in plain form. The latter takes two items
    of the budget, because it takes twice as long.
    """
    plain = _PLAIN_URI.fullmatch(uri)
    if plain is not None:
        return (plain["host"] or "") + (plain["port"] or "")
    budget.take()
    if not _is_parsed_by_go(uri):
        raise DerError("URI that Go does not parse")
    return ""


def _is_parsed_by_go(uri: str) -> bool:
    """Return whether Go's url.Parse accepts a URI; any query is accepted."""
    rest, _, fragment = uri.partition("#")
    if _CONTROL.search(rest) or _BAD_ESCAPE.search(fragment) or rest.startswith(":"):
        return False
    scheme = _SCHEME.match(rest)
    rest = rest[scheme.end() if scheme else 0 :].partition("?")[0]
    if not rest.startswith("/"):
        # After a scheme the rest is opaque; without a scheme it is a relative path.
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
        return _is_bracketed_ipv6(host)
    parts = host.partition(":") if scheme in _STRICT_PORT_SCHEMES else host.rpartition(":")
    if parts[1] and not _PORT.fullmatch(parts[1] + parts[2]):
        return False
    return bool(_HOST.fullmatch(host)) and is_domain(host.replace("%25", "%"), is_constraint=False)


def _is_bracketed_ipv6(host: str) -> bool:
    """Return whether a host is an IPv6 address in brackets; unlike Go, zones are rejected."""
    address, bracket, port = host[1:].rpartition("]")
    return bool(host[0] == "[" and bracket and _PORT.fullmatch(port) and is_ipv6(address))
