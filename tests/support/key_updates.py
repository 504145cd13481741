"""A client's records of TLS 1.3 after its handshake, written here: no client sends many updates."""

import hashlib
import hmac
import ssl
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_HANDSHAKE, _APPLICATION_DATA = b"\x16", b"\x17"
_SUITE_DIGEST = {32: (hashlib.sha256, 16), 48: (hashlib.sha384, 32)}


class KeyUpdates:
    """Writes records of the connection whose handshake follows, with one context and one client."""

    def __init__(self, context: ssl.SSLContext, secrets: Path) -> None:
        """`secrets` is a file for what decrypts the connection."""
        context.keylog_filename = str(secrets)
        self._secrets = secrets
        self._secret = b""
        self._sequence = 0

    def record(self, *, asks_for_answer: bool) -> bytes:
        """Return a record that announces new keys."""
        sealed = self._sealed(b"\x18\0\0\1" + bytes((asks_for_answer,)) + _HANDSHAKE)
        self._secret = self._expand(b"traffic upd", len(self._secret))
        self._sequence = 0
        return sealed

    def data(self, payload: bytes) -> bytes:
        """Return a record with data."""
        return self._sealed(payload + _APPLICATION_DATA)

    def _sealed(self, inner: bytes) -> bytes:
        if not self._secret:
            lines = [line.split() for line in self._secrets.read_text().splitlines()]
            told = {words[0]: words[2] for words in lines if words[0].startswith("CLIENT")}
            self._secret = bytes.fromhex(told["CLIENT_TRAFFIC_SECRET_0"])
        key = AESGCM(self._expand(b"key", _SUITE_DIGEST[len(self._secret)][1]))
        nonce = int.from_bytes(self._expand(b"iv", 12), "big") ^ self._sequence
        self._sequence += 1
        header = b"\x17\3\3" + (len(inner) + 16).to_bytes(2, "big")
        return header + key.encrypt(nonce.to_bytes(12, "big"), inner, header)

    def _expand(self, label: bytes, size: int) -> bytes:
        label = b"tls13 " + label
        info = size.to_bytes(2, "big") + bytes((len(label),)) + label + b"\0\1"
        return hmac.digest(self._secret, info, _SUITE_DIGEST[len(self._secret)][0])[:size]
