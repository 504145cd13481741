"""PEM blocks, found as Go's encoding/pem finds them.

The blocks decide which CAs are trusted, so malformed text must not add one. Go skips a block that
it cannot decode. Here it is an error if a certificate begins there. Otherwise a CA that is missing
because of a typing error would be noticed late.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

_BEGIN, _END, _DASHES = b"-----BEGIN ", b"\n-----END ", b"-----"
_CERTIFICATE = b"CERTIFICATE"
_BEGIN_OF_CERTIFICATE = re.compile(rb"^-----BEGIN CERTIFICATE-----", re.MULTILINE)
_WHITESPACE = b" \t\r\n"
# A longer line ends no certificate: it is truncated, and then matches no type.
_MAX_END_LENGTH = 256


class PemError(ValueError):
    """Raised for a text in which certificates cannot be recognized reliably."""


@dataclass(frozen=True, slots=True)
class _Block:
    kind: bytes
    has_headers: bool
    contents: bytes


def read_certificates(text: bytes) -> list[bytes]:
    """Return the contents of all certificates, or raise PemError.

    As in kube-apiserver, blocks of other types and blocks with headers are not certificates.
    """
    blocks = [block for block in _blocks(text) if block.kind == _CERTIFICATE]
    if len(blocks) != len(_BEGIN_OF_CERTIFICATE.findall(text)):
        raise PemError("certificate that is not well-formed PEM")
    certificates = [block.contents for block in blocks if not block.has_headers]
    if not certificates:
        raise PemError("no certificates in PEM")
    return certificates


def _blocks(text: bytes) -> Iterator[_Block]:
    """Yield each block that Go decodes: from an END to the last BEGIN before it."""
    start = 0
    while (end := text.find(_END, start)) >= 0:
        begin = text.rfind(_BEGIN, start, end)
        after = end + len(_END)
        end_line, newline, _ = text[after : after + _MAX_END_LENGTH].partition(b"\n")
        if b":" in end_line:
            # Go may parse it as a header, and then stops.
            raise PemError("END line with a colon")
        block = None
        if begin == start or (begin > start and text[begin - 1 : begin] == b"\n"):
            kind = _trim(end_line, has_newline=bool(newline))
            block = _decode(text[begin + len(_BEGIN) : end], kind)
        if block is not None:
            yield block
        start = after if block is None else after + len(end_line) + len(newline)


def _decode(inside: bytes, kind: bytes) -> _Block | None:
    """Return the block between BEGIN and END; None unless both have the same type."""
    first, _, rest = inside.partition(b"\n")
    if not kind.endswith(_DASHES) or _trim(first, has_newline=True) != kind:
        return None
    lines = rest.split(b"\n")
    headers = 0
    while headers < len(lines) and b":" in lines[headers]:
        headers += 1
    if headers and headers == len(lines):
        return None
    encoded = b"\n".join(lines[headers:]).translate(None, _WHITESPACE)
    if len(encoded) % 4:  # Python accepts one `=` too many
        return None
    try:
        contents = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return None
    return _Block(kind.removesuffix(_DASHES), headers > 0, contents)


def _trim(line: bytes, *, has_newline: bool) -> bytes:
    return (line.removesuffix(b"\r") if has_newline else line).rstrip(b" \t")
