"""PEM blocks, found as Go's encoding/pem finds them.

Which blocks there are decides which CAs are believed, so odd text must not add one. Go skips a
block that it cannot decode. Here it is an error if a certificate begins there: a CA that is missing
after a slip of the keyboard would be noticed late.
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
# A longer line ends no certificate: it is cut, and fits no type.
_LONGEST_END = 256


class PemError(ValueError):
    """A text in which certificates cannot be told from the rest."""


@dataclass(frozen=True, slots=True)
class _Block:
    kind: bytes
    has_headers: bool
    contents: bytes


def read_certificates(text: bytes) -> list[bytes]:
    """Return the contents of all certificates, or raise PemError.

    As for kube-apiserver, blocks of other types and blocks with headers are no certificates.
    """
    blocks = [one for one in _blocks(text) if one.kind == _CERTIFICATE]
    if len(blocks) != len(_BEGIN_OF_CERTIFICATE.findall(text)):
        raise PemError("a certificate that is not well-formed PEM")
    found = [one.contents for one in blocks if not one.has_headers]
    if not found:
        raise PemError("no certificates in PEM")
    return found


def _blocks(text: bytes) -> Iterator[_Block]:
    """Yield each block that Go decodes: from an END to the last BEGIN before it."""
    start = 0
    while (end := text.find(_END, start)) >= 0:
        begin = text.rfind(_BEGIN, start, end)
        after = end + len(_END)
        end_line, newline, _ = text[after : after + _LONGEST_END].partition(b"\n")
        if b":" in end_line:
            # Go may take it for a header, and then reads no further.
            raise PemError("an end of a block with a colon")
        block = None
        if begin == start or (begin > start and text[begin - 1 : begin] == b"\n"):
            kind = _trimmed(end_line, has_newline=bool(newline))
            block = _decode(text[begin + len(_BEGIN) : end], kind)
        if block is not None:
            yield block
        start = after if block is None else after + len(end_line) + len(newline)


def _decode(inside: bytes, kind: bytes) -> _Block | None:
    """Return the block of what is between BEGIN and END; None unless both name one type."""
    first, _, rest = inside.partition(b"\n")
    if not kind.endswith(_DASHES) or _trimmed(first, has_newline=True) != kind:
        return None
    lines = rest.split(b"\n")
    headers = 0
    while headers < len(lines) and b":" in lines[headers]:
        headers += 1
    if headers and headers == len(lines):
        return None
    encoded = b"\n".join(lines[headers:]).translate(None, _WHITESPACE)
    if len(encoded) % 4:  # Python takes one `=` too many
        return None
    try:
        contents = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return None
    return _Block(kind.removesuffix(_DASHES), headers > 0, contents)


def _trimmed(line: bytes, *, has_newline: bool) -> bytes:
    return (line.removesuffix(b"\r") if has_newline else line).rstrip(b" \t")
