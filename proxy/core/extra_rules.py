"""Which extras the constrained modes accept, and the words in which they refuse the others."""

import re

from proxy.core.go_quote import shown_quote
from proxy.core.identity import LONGEST_SUBDOMAIN, SUBDOMAIN, Extra

_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_NOT_A_PATH = 'must be a domain-prefixed path (such as "acme.io/foo")'
_TOO_LONG = f"must be no more than {LONGEST_SUBDOMAIN} characters"
_BAD_HOST = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    r" for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_BAD_PATH = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"


def extra_fault(extra: Extra) -> str | None:
    """Return why the constrained modes refuse these extras, or None when they do not."""
    for key, values in extra:
        fault = _key_fault(key) or _values_fault(values)
        if fault is not None:
            return fault
    return None


def _key_fault(key: str) -> str | None:
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    faults = _path_faults(key)
    if faults:
        text = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        return f"impersonating an invalid key in extra is not allowed: {text}"
    if key != key.lower():
        return f"impersonating a non-lowercase key in extra is not allowed: {shown_quote(key)}"
    return None


def _values_fault(values: tuple[str, ...]) -> str | None:
    if not values:
        return "impersonating empty values in extra is not allowed"
    if "" in values:
        return "impersonating the empty string value in extra is not allowed"
    return None


def _path_faults(key: str) -> list[str]:
    host, _, path = key.partition("/")
    if not host or not path:
        return [_invalid(key, _NOT_A_PATH)]
    faults = []
    if len(host.encode()) > LONGEST_SUBDOMAIN:
        faults.append(_invalid(host, _TOO_LONG))
    if SUBDOMAIN.fullmatch(host) is None:
        faults.append(_invalid(host, _BAD_HOST))
    if _PATH.fullmatch(path) is None:
        faults.append(_invalid(path, _BAD_PATH))
    return faults


def _invalid(value: str, detail: str) -> str:
    return f"extra.key: Invalid value: {shown_quote(value)}: {detail}"
