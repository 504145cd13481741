"""The bearer token of a WebSocket client that cannot send an Authorization header: a browser."""

import binascii
import re
from collections.abc import Sequence

from proxy.core.errors import Unauthorized
from proxy.core.header_lines import Header
from proxy.core.websocket_protocols import TOKEN_PREFIX, offered_protocols

_ENCODED = re.compile(rb"[A-Za-z0-9_-]*")
_STANDARD_ALPHABET = bytes.maketrans(b"-_", b"+/")


def websocket_token(headers: Sequence[Header], *, upgrade: bytes | None) -> bytes | None:
    """Return the token among the subprotocols, as the API server reads it; None if there is none.

    It counts only where the request asks for a WebSocket. Unauthorized, unless there is one token,
    at least one real protocol is left to choose, and the token is UTF-8 in base64url without
    padding.
    """
    if upgrade is None or upgrade.lower() != b"websocket":
        return None
    offered = offered_protocols(headers)
    if len(offered.tokens) > 1:
        raise Unauthorized
    if not offered.tokens or not offered.tokens[0].startswith(TOKEN_PREFIX):
        return None
    token = _decoded(offered.tokens[0][len(TOKEN_PREFIX) :])
    if token and not offered.protocols:
        raise Unauthorized
    return token or None


def _decoded(encoded: bytes) -> bytes:
    # The pattern first: the decoder would skip what it does not know, and so read many texts alike.
    if _ENCODED.fullmatch(encoded) is None:
        raise Unauthorized
    padding = b"=" * (-len(encoded) % 4)
    try:
        token = binascii.a2b_base64(encoded.translate(_STANDARD_ALPHABET) + padding)
        token.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Unauthorized from error
    return token
