"""Inspection of the client's TLS handshake records before OpenSSL reads them.

OpenSSL decodes the key of every certificate while it reads the Certificate message, before it runs
any callback. An EC key with explicit parameters or a compressed point makes it compute a square
root over numbers that the client chose. That blocks the event loop for 160 ms for a certificate of
291 bytes. Go rejects such certificates when it parses them, so this module rejects them as well.

In TLS 1.3 the message is encrypted. Its records are decrypted here a second time, with the client
handshake traffic secret from OpenSSL's keylog callback (docs/decisions/0017). In TLS 1.2 the
message is plaintext.

Records reach OpenSSL only after inspection. Input that cannot be parsed exactly as Go parses it
ends the handshake, so nothing that OpenSSL parses differently gets through.
"""

import hashlib
import hmac
import ssl
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

MAX_CERTIFICATES = 17
"""Maximum certificates a client may present: its own, and more issuers than are ever used."""

_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA = 20, 21, 22, 23
_RECORD_TYPES = frozenset((_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA))
_HEADER_BYTES = 5
# RFC 5246, 6.2.3: the maximum for any record of TLS 1.2 or 1.3.
_MAX_RECORD_BYTES = 16384 + 2048
_CERTIFICATE, _CLIENT_KEY_EXCHANGE, _FINISHED, _COMPRESSED_CERTIFICATE = 11, 16, 20, 25
_MESSAGE_HEADER_BYTES = 4
# ClientHello twice, Certificate, ClientKeyExchange, CertificateVerify and Finished are six.
_MAX_MESSAGES = 8
_NONCE_BYTES = 12

_SEQUENCE, _INTEGER, _BIT_STRING, _OID, _VERSION = 0x30, 0x02, 0x03, 0x06, 0xA0
_LONG_LENGTH = 0x80
_MAX_LENGTH_BYTES = 3
# Fields of a certificate between its version and its key: serial number, algorithm, issuer,
# validity, subject.
_BEFORE_KEY = (_INTEGER, _SEQUENCE, _SEQUENCE, _SEQUENCE, _SEQUENCE)
_RSA = bytes.fromhex("2a864886f70d010101")
_ED25519 = bytes.fromhex("2b6570")
_EC = bytes.fromhex("2a8648ce3d0201")
# P-224, P-256, P-384, P-521: the curves that Go supports, with the bytes of a coordinate.
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
    """The handshake bytes of one client; invalid input raises ssl.SSLError."""

    __slots__ = (
        "_expects_certificate",
        "_has_certificates",
        "_is_encrypted",
        "_is_finished",
        "_key",
        "_message_count",
        "_messages",
        "_nonce",
        "_received",
        "_sequence",
        "certificates",
    )

    def __init__(self, *, expects_certificate: bool = True) -> None:
        self._expects_certificate = expects_certificate
        self._received = bytearray()
        # Handshake messages; the last one may be incomplete.
        self._messages = bytearray()
        self._message_count = 0
        self._key: AESGCM | ChaCha20Poly1305 | None = None
        self._nonce = self._sequence = 0
        # TLS 1.2: whether the following messages are encrypted. Only Finished is.
        self._is_encrypted = False
        # TLS 1.3: whether Finished was received. Later records use other keys.
        self._is_finished = self._has_certificates = False
        self.certificates: tuple[bytes, ...] = ()
        """The certificates as the client sent them, its own first."""

    def feed(self, ciphertext: bytes | memoryview) -> None:
        """Accept bytes from the socket."""
        self._received += ciphertext

    def decrypt_with(self, suite_name: str, secret: bytes) -> None:
        """Decrypt the following TLS 1.3 records with the client handshake traffic secret."""
        suite = _SUITES.get(suite_name)
        if suite is None:
            raise ssl.SSLError("no shared cipher")
        self._key = suite.cipher(_expand_label(secret, b"key", suite.key_bytes, suite.digest))
        nonce = _expand_label(secret, b"iv", _NONCE_BYTES, suite.digest)
        self._nonce = int.from_bytes(nonce, "big")

    def next_records(self) -> bytes:
        """Return inspected records for OpenSSL; empty if no complete record was received.

        Returns one record until the client's secret is known, because later ones may need it.
        """
        records = self._next_record()
        while self._key is not None and not self._is_finished:
            record = self._next_record()
            if not record:
                break
            records += record
        return records

    def _next_record(self) -> bytes:
        received = self._received
        if len(received) < _HEADER_BYTES:
            return b""
        size = int.from_bytes(received[3:_HEADER_BYTES], "big")
        if received[0] not in _RECORD_TYPES or size > _MAX_RECORD_BYTES:
            # OpenSSL reports such a record most precisely, and its header is enough for that.
            return self._consume(_HEADER_BYTES)
        if len(received) < _HEADER_BYTES + size:
            return b""
        record = self._consume(_HEADER_BYTES + size)
        self._inspect(record)
        return record

    def take_rest(self) -> bytes:
        """Return the bytes received after the handshake, and clear the buffer."""
        return self._consume(len(self._received))

    def _consume(self, count: int) -> bytes:
        consumed = bytes(self._received[:count])
        del self._received[:count]
        return consumed

    def _inspect(self, record: bytes) -> None:
        kind = record[0]
        if kind == _APPLICATION_DATA and self._expects_certificate:
            self._read_messages(self._decrypt_record(record), is_tls_1_3=True)
        elif kind == _HANDSHAKE and not self._is_encrypted:
            self._read_messages(record[_HEADER_BYTES:], is_tls_1_3=False)

    def _decrypt_record(self, record: bytes) -> bytes:
        """Return the handshake messages, or parts of them, in a TLS 1.3 record."""
        if self._key is None:
            # Early data, or OpenSSL has reported no secret. A record that cannot be inspected is
            # not accepted.
            raise ssl.SSLError("unexpected message")
        nonce = (self._nonce ^ self._sequence).to_bytes(_NONCE_BYTES, "big")
        self._sequence += 1
        header, ciphertext_and_tag = record[:_HEADER_BYTES], record[_HEADER_BYTES:]
        try:
            inner = self._key.decrypt(nonce, ciphertext_and_tag, header).rstrip(b"\0")
        except (InvalidTag, ValueError):
            raise ssl.SSLError("decryption failed or bad record mac") from None
        return inner[:-1] if inner[-1:] == bytes((_HANDSHAKE,)) else b""

    def _read_messages(self, payload: bytes, *, is_tls_1_3: bool) -> None:
        messages = self._messages
        messages += payload
        while len(messages) >= _MESSAGE_HEADER_BYTES:
            end = _MESSAGE_HEADER_BYTES + int.from_bytes(messages[1:_MESSAGE_HEADER_BYTES], "big")
            if len(messages) < end:
                break
            kind, body = messages[0], bytes(messages[_MESSAGE_HEADER_BYTES:end])
            del messages[:end]
            self._read_message(kind, body, is_tls_1_3=is_tls_1_3)

    def _read_message(self, kind: int, body: bytes, *, is_tls_1_3: bool) -> None:
        self._message_count += 1
        # One Certificate message, and nothing after Finished: `certificates` must be the ones whose
        # key the client proves to hold.
        is_second = kind == _CERTIFICATE and self._has_certificates
        if (
            is_second
            or self._is_finished
            or self._message_count > _MAX_MESSAGES
            or kind == _COMPRESSED_CERTIFICATE
        ):
            raise ssl.SSLError("unexpected message")
        if kind == _CERTIFICATE:
            self._has_certificates = True
            self.certificates = _parse_certificates(body, is_tls_1_3=is_tls_1_3)
            for certificate in self.certificates:
                _check_key(certificate)
        elif kind == _CLIENT_KEY_EXCHANGE:
            # In TLS 1.2 no certificate can follow. OpenSSL then accepts only CertificateVerify, and
            # Finished, which is encrypted.
            self._is_encrypted = True
        elif kind == _FINISHED:
            self._is_finished = True


def _expand_label(secret: bytes, label: bytes, size: int, digest: str) -> bytes:
    """Return HKDF-Expand-Label of RFC 8446, 7.1, for no more than one block and no context."""
    label = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes((len(label),)) + label + b"\0\x01"
    return hmac.digest(secret, info, getattr(hashlib, digest))[:size]


def _parse_certificates(body: bytes, *, is_tls_1_3: bool) -> tuple[bytes, ...]:
    """Return the certificates of a Certificate message (RFC 8446, 4.4.2; RFC 5246, 7.4.6)."""
    if is_tls_1_3:
        _context, body = _split_vector(body, 1)
    entries, rest = _split_vector(body, 3)
    certificates: list[bytes] = []
    while entries:
        certificate, entries = _split_vector(entries, 3)
        if is_tls_1_3:
            _extensions, entries = _split_vector(entries, 2)
        certificates.append(certificate)
        if len(certificates) > MAX_CERTIFICATES:
            raise ssl.SSLError("excessive message size: too many certificates")
    if rest:
        raise ssl.SSLError("length mismatch")
    return tuple(certificates)


def _split_vector(data: bytes, length_bytes: int) -> tuple[bytes, bytes]:
    """Return the contents of a length-prefixed vector, and the bytes after it."""
    size = int.from_bytes(data[:length_bytes], "big")
    end = length_bytes + size
    if len(data) < end:
        raise ssl.SSLError("length mismatch")
    return data[length_bytes:end], data[end:]


def _check_key(certificate: bytes) -> None:
    """Reject a certificate unless Go parses its key and OpenSSL decodes it cheaply."""
    contents, rest = _split_element(certificate, _SEQUENCE)
    signed, _ = _split_element(contents, _SEQUENCE)
    if rest:
        raise _malformed_certificate()
    if signed[:1] == bytes((_VERSION,)):
        _, signed = _split_element(signed, _VERSION)
    for tag in _BEFORE_KEY:
        _, signed = _split_element(signed, tag)
    key, _ = _split_element(signed, _SEQUENCE)
    algorithm, key = _split_element(key, _SEQUENCE)
    bits, rest = _split_element(key, _BIT_STRING)
    name, parameters = _split_element(algorithm, _OID)
    if rest or not (name in (_RSA, _ED25519) or (name == _EC and _is_cheap(parameters, bits))):
        raise ssl.SSLError("certificate verify failed: unsupported public key")


def _is_cheap(parameters: bytes, bits: bytes) -> bool:
    """Return whether an EC key is an uncompressed point on a named curve."""
    curve, rest = _split_element(parameters, _OID)
    size = _CURVES.get(curve)
    # The first byte of a bit string is the number of unused bits.
    is_point = size is not None and len(bits) == 2 + 2 * size and bits[:2] == b"\0\x04"
    return is_point and not rest


def _split_element(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the contents of a DER element with this tag, and the bytes after it."""
    if len(data) < 2 or data[0] != tag:  # noqa: PLR2004 - tag and length
        raise _malformed_certificate()
    start, size = 2, data[1]
    if size >= _LONG_LENGTH:
        count = size - _LONG_LENGTH
        start += count
        size = int.from_bytes(data[2:start], "big")
        # DER allows only the shortest form of a length. OpenSSL accepts others, Go does not.
        if not 1 <= count <= _MAX_LENGTH_BYTES or size < _LONG_LENGTH or not data[2]:
            raise _malformed_certificate()
    if len(data) < start + size:
        raise _malformed_certificate()
    return data[start : start + size], data[start + size :]


def _malformed_certificate() -> ssl.SSLError:
    return ssl.SSLError("certificate verify failed: malformed certificate")
