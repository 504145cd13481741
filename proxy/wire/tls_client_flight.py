"""What a client sends in its TLS handshake, inspected before OpenSSL reads it.

OpenSSL decodes the key of every certificate while it reads their message, before it calls anything
back. An EC key with parameters of its own, or with a compressed point, makes it find a square root
by the client's numbers: 160 ms of the event loop for a certificate of 291 bytes. Go refuses such
certificates when it parses them, and so they are refused here.

In TLS 1.3 the message is encrypted. Its records are decrypted here once more, with the handshake
secret of the client, which OpenSSL tells (docs/decisions/0017). In TLS 1.2 it is plaintext.

Records reach OpenSSL after they were inspected here. Whatever cannot be read exactly
as Go reads it ends the handshake, so nothing that is read differently by OpenSSL gets through.
"""

import hashlib
import hmac
import ssl
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

MAX_CERTIFICATES = 17
"""How many a client may show: its own, and more issuers than are ever looked at."""

_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA = 20, 21, 22, 23
_RECORD_TYPES = frozenset((_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA))
_HEADER_BYTES = 5
# RFC 5246, 6.2.3: the most that any record of TLS 1.2 or 1.3 has.
_MOST_RECORD_BYTES = 16384 + 2048
_CERTIFICATE, _CLIENT_KEY_EXCHANGE, _FINISHED, _COMPRESSED_CERTIFICATE = 11, 16, 20, 25
_MESSAGE_HEADER_BYTES = 4
# ClientHello twice, Certificate, ClientKeyExchange, CertificateVerify and Finished are six.
_MOST_MESSAGES = 8
_NONCE_BYTES = 12

_SEQUENCE, _INTEGER, _BIT_STRING, _OID, _VERSION = 0x30, 0x02, 0x03, 0x06, 0xA0
_LONG_LENGTH = 0x80
_MOST_LENGTH_BYTES = 3
# Before the key of a certificate, after its version: serial number, algorithm, issuer, validity,
# subject.
_BEFORE_KEY = (_INTEGER, _SEQUENCE, _SEQUENCE, _SEQUENCE, _SEQUENCE)
_RSA = bytes.fromhex("2a864886f70d010101")
_ED25519 = bytes.fromhex("2b6570")
_EC = bytes.fromhex("2a8648ce3d0201")
# P-224, P-256, P-384, P-521: the curves of Go, and the bytes of a coordinate.
_CURVES = {
    bytes.fromhex("2b81040021"): 28,
    bytes.fromhex("2a8648ce3d030107"): 32,
    bytes.fromhex("2b81040022"): 48,
    bytes.fromhex("2b81040023"): 66,
}


class _Suite(NamedTuple):
    cipher: type[AESGCM] | type[ChaCha20Poly1305]
    key_bytes: int
    digest: str


_SUITES = {
    "TLS_AES_128_GCM_SHA256": _Suite(AESGCM, 16, "sha256"),
    "TLS_AES_256_GCM_SHA384": _Suite(AESGCM, 32, "sha384"),
    "TLS_CHACHA20_POLY1305_SHA256": _Suite(ChaCha20Poly1305, 32, "sha256"),
}


class ClientFlight:
    """The bytes of one client until its handshake is done; a fault raises ssl.SSLError."""

    __slots__ = (
        "_arrived",
        "_expects_certificate",
        "_has_certificates",
        "_is_finished",
        "_is_sealed",
        "_key",
        "_message_count",
        "_messages",
        "_nonce",
        "_sequence",
        "certificates",
    )

    def __init__(self, *, expects_certificate: bool = True) -> None:
        self._expects_certificate = expects_certificate
        self._arrived = bytearray()
        # Handshake messages, of which the last may be unfinished.
        self._messages = bytearray()
        self._message_count = 0
        self._key: AESGCM | ChaCha20Poly1305 | None = None
        self._nonce = self._sequence = 0
        # Whether what follows is encrypted, in TLS 1.2: nothing but Finished is.
        self._is_sealed = False
        # Whether the last message has come, in TLS 1.3: what follows has other keys.
        self._is_finished = self._has_certificates = False
        self.certificates: tuple[bytes, ...] = ()
        """The certificates that were shown, as they came, the client's own first."""

    def feed(self, ciphertext: bytes | memoryview) -> None:
        """Take bytes from the socket."""
        self._arrived += ciphertext

    def decrypt_with(self, suite_name: str, secret: bytes) -> None:
        """Read the records of TLS 1.3 that follow with the client's handshake traffic secret."""
        suite = _SUITES.get(suite_name)
        if suite is None:
            raise ssl.SSLError("no shared cipher")
        self._key = suite.cipher(_expanded(secret, b"key", suite.key_bytes, suite.digest))
        nonce = _expanded(secret, b"iv", _NONCE_BYTES, suite.digest)
        self._nonce = int.from_bytes(nonce, "big")

    def next_records(self) -> bytes:
        """Return records that were inspected, for OpenSSL to read; empty if none has come whole.

        One, until the client's secret is known: what follows may have to be read with it.
        """
        records = self._next_record()
        while self._key is not None and not self._is_finished:
            record = self._next_record()
            if not record:
                break
            records += record
        return records

    def _next_record(self) -> bytes:
        arrived = self._arrived
        if len(arrived) < _HEADER_BYTES:
            return b""
        size = int.from_bytes(arrived[3:_HEADER_BYTES], "big")
        if arrived[0] not in _RECORD_TYPES or size > _MOST_RECORD_BYTES:
            # OpenSSL says best what that is, and needs no more of it.
            return self._take(_HEADER_BYTES)
        if len(arrived) < _HEADER_BYTES + size:
            return b""
        record = self._take(_HEADER_BYTES + size)
        self._inspect(record)
        return record

    def rest(self) -> bytes:
        """Return what has come after the handshake, and hold nothing more."""
        return self._take(len(self._arrived))

    def _take(self, count: int) -> bytes:
        taken = bytes(self._arrived[:count])
        del self._arrived[:count]
        return taken

    def _inspect(self, record: bytes) -> None:
        kind = record[0]
        if kind == _APPLICATION_DATA and self._expects_certificate:
            self._take_messages(self._decrypted(record), is_tls_1_3=True)
        elif kind == _HANDSHAKE and not self._is_sealed:
            self._take_messages(record[_HEADER_BYTES:], is_tls_1_3=False)

    def _decrypted(self, record: bytes) -> bytes:
        """Return the handshake messages in a record of TLS 1.3, or parts of them."""
        if self._key is None:
            # Data before any answer of ours, or OpenSSL has told no secret: unread, unaccepted.
            raise ssl.SSLError("unexpected message")
        nonce = (self._nonce ^ self._sequence).to_bytes(_NONCE_BYTES, "big")
        self._sequence += 1
        header, sealed = record[:_HEADER_BYTES], record[_HEADER_BYTES:]
        try:
            inner = self._key.decrypt(nonce, sealed, header).rstrip(b"\0")
        except (InvalidTag, ValueError):
            raise ssl.SSLError("decryption failed or bad record mac") from None
        return inner[:-1] if inner[-1:] == bytes((_HANDSHAKE,)) else b""

    def _take_messages(self, payload: bytes, *, is_tls_1_3: bool) -> None:
        messages = self._messages
        messages += payload
        while len(messages) >= _MESSAGE_HEADER_BYTES:
            end = _MESSAGE_HEADER_BYTES + int.from_bytes(messages[1:_MESSAGE_HEADER_BYTES], "big")
            if len(messages) < end:
                break
            kind, body = messages[0], bytes(messages[_MESSAGE_HEADER_BYTES:end])
            del messages[:end]
            self._take_message(kind, body, is_tls_1_3=is_tls_1_3)

    def _take_message(self, kind: int, body: bytes, *, is_tls_1_3: bool) -> None:
        self._message_count += 1
        # One Certificate message, and nothing after Finished: the reported certificates must be the
        # ones whose key the client proves to hold.
        is_second = kind == _CERTIFICATE and self._has_certificates
        if (
            is_second
            or self._is_finished
            or self._message_count > _MOST_MESSAGES
            or kind == _COMPRESSED_CERTIFICATE
        ):
            raise ssl.SSLError("unexpected message")
        if kind == _CERTIFICATE:
            self._has_certificates = True
            self.certificates = _shown_certificates(body, is_tls_1_3=is_tls_1_3)
            for certificate in self.certificates:
                _check_key(certificate)
        elif kind == _CLIENT_KEY_EXCHANGE:
            # In TLS 1.2 nothing can be shown after it: CertificateVerify, and then Finished, which
            # is encrypted, are all that OpenSSL takes.
            self._is_sealed = True
        elif kind == _FINISHED:
            self._is_finished = True


def _expanded(secret: bytes, label: bytes, size: int, digest: str) -> bytes:
    """Return HKDF-Expand-Label of RFC 8446, 7.1, for no more than one block and no context."""
    label = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes((len(label),)) + label + b"\0\x01"
    return hmac.digest(secret, info, getattr(hashlib, digest))[:size]


def _shown_certificates(body: bytes, *, is_tls_1_3: bool) -> tuple[bytes, ...]:
    """Return the certificates of a Certificate message (RFC 8446, 4.4.2; RFC 5246, 7.4.6)."""
    if is_tls_1_3:
        _context, body = _vector(body, 1)
    entries, rest = _vector(body, 3)
    certificates: list[bytes] = []
    while entries:
        certificate, entries = _vector(entries, 3)
        if is_tls_1_3:
            _extensions, entries = _vector(entries, 2)
        certificates.append(certificate)
        if len(certificates) > MAX_CERTIFICATES:
            raise ssl.SSLError("excessive message size: too many certificates")
    if rest:
        raise ssl.SSLError("length mismatch")
    return tuple(certificates)


def _vector(data: bytes, length_bytes: int) -> tuple[bytes, bytes]:
    """Return a vector that is preceded by its length, and what follows it."""
    size = int.from_bytes(data[:length_bytes], "big")
    end = length_bytes + size
    if len(data) < end:
        raise ssl.SSLError("length mismatch")
    return data[length_bytes:end], data[end:]


def _check_key(certificate: bytes) -> None:
    """Refuse a certificate unless its key is one that Go parses, at a cost that it can have."""
    contents, rest = _element(certificate, _SEQUENCE)
    signed, _ = _element(contents, _SEQUENCE)
    if rest:
        raise _malformed()
    if signed[:1] == bytes((_VERSION,)):
        _, signed = _element(signed, _VERSION)
    for tag in _BEFORE_KEY:
        _, signed = _element(signed, tag)
    key, _ = _element(signed, _SEQUENCE)
    algorithm, key = _element(key, _SEQUENCE)
    bits, rest = _element(key, _BIT_STRING)
    name, parameters = _element(algorithm, _OID)
    if rest or not (name in (_RSA, _ED25519) or (name == _EC and _is_cheap(parameters, bits))):
        raise ssl.SSLError("certificate verify failed: unsupported public key")


def _is_cheap(parameters: bytes, bits: bytes) -> bool:
    """Tell whether an EC key is an uncompressed point on a curve that it names."""
    curve, rest = _element(parameters, _OID)
    size = _CURVES.get(curve)
    # The bit string begins with how many of its bits do not count.
    is_point = size is not None and len(bits) == 2 + 2 * size and bits[:2] == b"\0\x04"
    return is_point and not rest


def _element(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the contents of a DER element of this tag, and what follows it."""
    if len(data) < 2 or data[0] != tag:  # noqa: PLR2004 - tag and length
        raise _malformed()
    start, size = 2, data[1]
    if size >= _LONG_LENGTH:
        count = size - _LONG_LENGTH
        start += count
        size = int.from_bytes(data[2:start], "big")
        # DER has one way to write a length: the shortest. OpenSSL takes others, Go does not.
        if not 1 <= count <= _MOST_LENGTH_BYTES or size < _LONG_LENGTH or not data[2]:
            raise _malformed()
    if len(data) < start + size:
        raise _malformed()
    return data[start : start + size], data[start + size :]


def _malformed() -> ssl.SSLError:
    return ssl.SSLError("certificate verify failed: malformed certificate")
