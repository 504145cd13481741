"""An identity as the header lines that impersonate it upstream."""

from functools import lru_cache

from proxy.core.header_lines import Header
from proxy.core.identity import Identity

_BARE_KEY_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789!#$&'*+-.^_`|~")
_LONGEST_REMEMBERED_KEY = 128


def identity_headers(identity: Identity) -> list[Header]:
    """Return the complete impersonation of an identity, one line per value, the user first."""
    lines = [(b"Impersonate-User", identity.name.encode())]
    if identity.uid:
        lines.append((b"Impersonate-Uid", identity.uid.encode()))
    lines += [(b"Impersonate-Group", group.encode()) for group in identity.groups]
    for key, values in identity.extra:
        name = b"Impersonate-Extra-" + encoded_extra_key(key)
        lines += [(name, value.encode()) for value in values]
    return lines


def encoded_extra_key(key: str) -> bytes:
    """Return an extra key as it survives in a header name, upper-case letters included.

    The server lower-cases before it decodes, so a letter sent bare would lose its case.
    """
    return _remembered_key(key) if len(key) <= _LONGEST_REMEMBERED_KEY else _encode_key(key)


def _encode_key(key: str) -> bytes:
    return b"".join(
        b"%c" % byte if byte in _BARE_KEY_BYTES else b"%%%02X" % byte for byte in key.encode()
    )


# Few keys exist in practice, and a bounded number of short ones costs a bounded amount of memory.
_remembered_key = lru_cache(maxsize=1024)(_encode_key)
