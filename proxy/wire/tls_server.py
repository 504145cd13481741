"""TLS of the listening side over memory: ciphertext in, plaintext out, and the reverse. No sockets.

Python's own `ssl` verifies a client's certificate in the handshake or asks for none: a certificate
that is stale or of a stranger costs the client its connection, although it may have a good token.
The API server takes any certificate, as long as the client has its key, and judges it with each
request. pyOpenSSL can do that, at the same cost: docs/decisions/0007.

What a handshake may cost is bounded before OpenSSL sees it, by its bytes and by the keys that are
shown (`ClientFlight`), and OpenSSL builds no chain: docs/decisions/0016 and 0017.
"""

import ssl
from typing import Any, ClassVar

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL, crypto

from proxy.wire.tls_client_flight import ClientFlight

# pyOpenSSL's own methods for these few calls take twice the time of the calls themselves.
_lib: Any = Binding.lib
_ffi: Any = Binding.ffi

# The most plaintext one record carries, so the most that one read can return.
_RECORD_BYTES = 16 * 1024
# One for all: whoever fills it empties it before anybody else has a turn.
_SCRATCH_BYTES = 128 * 1024
# More than what a record has besides its plaintext.
_RECORD_ROOM = 128
_scratch = _ffi.new("char[]", _SCRATCH_BYTES)
# What a slice of it copies.
_contents: Any = _ffi.buffer(_scratch)
# Memory as it comes, for who fills it.
_new_room = _ffi.new_allocator(should_clear_after_alloc=False)
_pointer = _ffi.new("char **")

MAX_HANDSHAKE_BYTES = 16 * 1024
"""What a client may send before its handshake is done, if nothing else is said."""
# Go's number. Records without data, above all requests for new keys, cost 40 us for 27 bytes.
_MOST_RECORDS_WITHOUT_DATA = 16
_CLIENT_SECRET = b"CLIENT_HANDSHAKE_TRAFFIC_SECRET"
# What OpenSSL has told in the step of a handshake that is being done.
_told_secrets: list[bytes] = []
# A client chooses its key, and what verifying with it costs us. Go takes RSA of no more bits, with
# an exponent of four bytes. Other keys that are longer than this are of DSA.
_MOST_RSA_BITS = 8192
_MOST_RSA_OTHER_BYTES = 64
_MOST_OTHER_BITS = 4096

# Forward secrecy and authenticated encryption; for TLS 1.3 OpenSSL has nothing else.
_CIPHERS = b"@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aNULL:!aDSS"


def server_context(*, asks_for_certificate: bool) -> SSL.Context:
    """Return a context without certificate and key yet.

    A client that is asked for a certificate may have none, or any at all: nobody has verified
    what `ServerTLS.peer_chain` tells, only that the client holds the key of its first.
    """
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_cipher_list(_CIPHERS)
    context.set_alpn_select_callback(_choose_protocol)
    # No resumption: the certificate of a resumed session was shown in another handshake.
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"understudy")
    context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    if asks_for_certificate:
        # OpenSSL verifies whatever is shown, and the binding has no way to tell it not to. So it
        # has no anchors, and looks no further than the issuer of the client's certificate.
        context.set_verify_depth(0)
        context.set_verify(SSL.VERIFY_PEER, _take_certificate)
        context.set_keylog_callback(_take_secret)
    return context


class OutputBuffer:
    """The ciphertext that is due."""

    __slots__ = ("bio",)

    def __init__(self, bio: Any) -> None:
        self.bio = bio

    @property
    def pending(self) -> int:
        """Return how many bytes are due."""
        return int(_lib.BIO_get_mem_data(self.bio, _pointer))


class ServerTLS:
    """One TLS session. Ciphertext to send piles up until `take_output` fetches it."""

    __slots__ = (
        "_connection",
        "_flight",
        "_handshake_room",
        "_held_back",
        "_incoming",
        "_records_without_data",
        "_session",
        "_shown",
        "is_ready",
        "outgoing",
        "peer_closed",
    )

    STEP_BYTES: ClassVar[int] = 64 * 1024
    """How much is taken at once: a buffer grows to it, each session's own, and never shrinks."""

    def __init__(self, context: SSL.Context, *, handshake_bytes: int = MAX_HANDSHAKE_BYTES) -> None:
        connection = SSL.Connection(context, None)
        connection.set_accept_state()
        self._connection = connection
        self._session = connection._ssl  # noqa: SLF001 - for the calls that have to be fast
        # Or one read would take any number of records without data, uncounted.
        _lib.SSL_clear_mode(self._session, _lib.SSL_MODE_AUTO_RETRY)
        self._incoming = connection._into_ssl  # noqa: SLF001 - likewise
        self.outgoing = OutputBuffer(connection._from_ssl)  # noqa: SLF001 - likewise
        self.is_ready = False
        self.peer_closed = False
        self._handshake_room = handshake_bytes
        asks = context.get_verify_mode() != SSL.VERIFY_NONE
        self._flight: ClientFlight | None = ClientFlight(expects_certificate=asks)
        self._shown: tuple[bytes, ...] = ()
        self._records_without_data = 0
        # What came with the handshake's last bytes, or is too much for a handshake.
        self._held_back = b""

    def handshake(self) -> bool:
        """Go on with the handshake and tell whether it is done; a failure raises ssl.SSLError."""
        flight = self._flight
        if flight is None:
            return True
        while records := flight.next_records():
            _lib.BIO_write(self._incoming, records, len(records))
            if self._step(flight):
                self._flight, self._shown, self.is_ready = None, flight.certificates, True
                self.receive(flight.rest() + self._held_back)
                self._held_back = b""
                return True
        if self._held_back:
            raise ssl.SSLError("excessive message size")
        return False

    def receive(self, ciphertext: bytes | memoryview) -> None:
        """Take bytes from the socket; of a handshake no more than it may have."""
        if self._flight is not None:
            room = self._handshake_room
            self._held_back += bytes(ciphertext[room:])
            self._flight.feed(ciphertext[:room])
            self._handshake_room = max(0, room - len(ciphertext))
            return
        start = ciphertext if isinstance(ciphertext, bytes) else _ffi.from_buffer(ciphertext)
        _lib.BIO_write(self._incoming, start, len(ciphertext))

    def decrypt(self, ciphertext: bytes | memoryview) -> bytes:
        """Take bytes from the socket and return all plaintext there is."""
        start = ciphertext if isinstance(ciphertext, bytes) else _ffi.from_buffer(ciphertext)
        _lib.BIO_write(self._incoming, start, len(ciphertext))
        _lib.ERR_clear_error()
        count = _lib.SSL_read(self._session, _scratch, _RECORD_BYTES)
        if count <= 0:
            return self.read() if self._has_more(count) else b""
        plaintext: bytes = _contents[:count]
        if self._records_without_data:
            self._records_without_data = 0
        # One record, and no more of the next: nearly always.
        if not _lib.BIO_get_mem_data(self._incoming, _pointer):
            return plaintext
        return self.read(plaintext)

    def read(self, first: bytes = b"") -> bytes:
        """Return all plaintext there is, after the first; knows then if the peer has left."""
        pieces = [first]
        while True:
            _lib.ERR_clear_error()
            count = _lib.SSL_read(self._session, _scratch, _RECORD_BYTES)
            if count <= 0:
                if self._has_more(count):
                    continue
                break
            pieces.append(_contents[:count])
            self._records_without_data = 0
            # OpenSSL takes record by record from the BIO, so what it has not seen is still there.
            if not _lib.BIO_get_mem_data(self._incoming, _pointer):
                break
        return b"".join(pieces)

    def write(self, plaintext: bytes) -> bytes | memoryview:
        """Return plaintext as ciphertext, together with whatever else is due.

        What is large is a view of where its records were written: they are not copied.
        """
        if len(plaintext) <= _RECORD_BYTES:
            if plaintext and _lib.SSL_write(self._session, plaintext, len(plaintext)) <= 0:
                raise ssl.SSLError("cannot encrypt")
            # As `take_output` does; this is asked for every answer.
            count = _lib.BIO_read(self.outgoing.bio, _scratch, _SCRATCH_BYTES)
            record: bytes = _contents[:count] if count > 0 else b""
            return record
        return self._write_records(plaintext)

    def read_output(self) -> bytes:
        """Return ciphertext that is due: handshake messages, alerts."""
        count = _lib.BIO_read(self.outgoing.bio, _scratch, _SCRATCH_BYTES)
        if count <= 0:
            return b""
        output: bytes = _contents[:count]
        return output if count < _SCRATCH_BYTES else output + self.read_output()

    def close(self) -> bytes:
        """Say goodbye; returns the ciphertext of the close alert."""
        # The peer need not answer our goodbye; we never wait for its own.
        _lib.SSL_shutdown(self._session)
        _lib.ERR_clear_error()
        return self.read_output()

    def release_buffers(self) -> None:
        """Give back what the buffers have grown to; worth it where a long silence may follow."""
        if _lib.BIO_get_mem_data(self._incoming, _pointer) or self.outgoing.pending:
            return
        # The session owns its buffers, and frees the old ones.
        self._incoming, self.outgoing.bio = _new_buffer(), _new_buffer()
        _lib.SSL_set_bio(self._session, self._incoming, self.outgoing.bio)
        self._connection._into_ssl = self._incoming  # noqa: SLF001 - or it would name freed ones
        self._connection._from_ssl = self.outgoing.bio  # noqa: SLF001 - likewise

    def peer_chain(self) -> tuple[bytes, ...]:
        """Return the certificates the peer has shown, as DER, its own first; it holds its key.

        Nobody has verified them. A resumed session carries the certificate of an earlier
        handshake, which does not count.
        """
        own = self._connection.get_peer_certificate()
        if own is None or _lib.SSL_session_reused(self._session):
            return ()
        # As they came. The first must be, byte for byte, the one whose key OpenSSL has seen proven.
        proven = crypto.dump_certificate(crypto.FILETYPE_ASN1, own)
        return self._shown if self._shown[:1] == (proven,) else ()

    def _step(self, flight: ClientFlight) -> bool:
        """Let OpenSSL read one more record of the handshake, and tell whether that was the last."""
        _lib.ERR_clear_error()
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            if _told_secrets:
                suite_name = self._connection.get_cipher_name()
                flight.decrypt_with(suite_name or "", _told_secrets[-1])
            return False
        except SSL.Error as error:
            raise _fault(error) from error
        finally:
            _told_secrets.clear()
        return True

    def _write_records(self, plaintext: bytes) -> memoryview:
        """Write one record after the other, each straight to its place in what is returned."""
        session, bio = self._session, self.outgoing.bio
        encrypt, fetch = _lib.SSL_write, _lib.BIO_read
        start, size = _ffi.from_buffer(plaintext), len(plaintext)
        room = size + (size // _RECORD_BYTES + 1) * _RECORD_ROOM
        output = _new_room("char[]", room)
        filled = position = 0
        while position < size:
            # As much as OpenSSL takes at once, which is a record: partial writes are its mode.
            count = encrypt(session, start + position, size - position)
            fetched = fetch(bio, output + filled, room - filled)
            if count <= 0 or fetched <= 0:
                raise ssl.SSLError("cannot encrypt")
            position += count
            filled += fetched
        # No more than was filled, and it keeps its memory for as long as somebody has the view.
        records = memoryview(_ffi.buffer(output, filled))
        # With more due than the records, and no room for it: never yet.
        return records if filled < room else memoryview(bytes(records) + self.read_output())

    def _has_more(self, count: int) -> bool:
        """Tell whether more can be read after a read without plaintext; raises ssl.SSLError."""
        error = _lib.SSL_get_error(self._session, count)
        if error == _lib.SSL_ERROR_WANT_READ:
            if not _lib.BIO_get_mem_data(self._incoming, _pointer):
                return False
            self._records_without_data += 1
            if self._records_without_data > _MOST_RECORDS_WITHOUT_DATA:
                raise ssl.SSLError("too many records without data")
            return True
        if error != _lib.SSL_ERROR_ZERO_RETURN:
            _lib.ERR_clear_error()
            raise ssl.SSLError("the TLS stream is broken")
        self.peer_closed = True
        return False


def _new_buffer() -> Any:
    buffer = _lib.BIO_new(_lib.BIO_s_mem())
    if buffer == _ffi.NULL:
        raise MemoryError
    return buffer


def _choose_protocol(_: SSL.Connection, offered: list[bytes]) -> Any:
    """Speak HTTP/1.1, whatever else the client offers."""
    return b"http/1.1" if b"http/1.1" in offered else SSL.NO_OVERLAPPING_PROTOCOLS


def _take_secret(_connection: SSL.Connection, line: bytes) -> None:
    """Keep what decrypts the client's part of this handshake, until the step is over."""
    label, _, rest = line.partition(b" ")
    if label == _CLIENT_SECRET:
        _told_secrets.append(bytes.fromhex(rest.rpartition(b" ")[2].decode("ascii")))


def _take_certificate(_connection: SSL.Connection, certificate: crypto.X509, *_found: int) -> bool:
    """Let the handshake go on: whom a certificate stands for is not decided here.

    OpenSSL tells of the client's own certificate, and of its issuer if that was shown, before it
    verifies anything with their keys.
    """
    try:
        return _is_cheap(certificate.get_pubkey())
    except crypto.Error:
        return True  # Nothing can be verified with what is no key.


def _is_cheap(key: crypto.PKey) -> bool:
    """Tell whether verifying with a key costs about as much as with one that Go takes."""
    if key.type() != crypto.TYPE_RSA:
        return key.bits() <= _MOST_OTHER_BITS
    # What is not the modulus is the exponent, and some bytes around both.
    encoded = crypto.dump_publickey(crypto.FILETYPE_ASN1, key)
    return key.bits() <= _MOST_RSA_BITS and len(encoded) - key.bits() // 8 <= _MOST_RSA_OTHER_BYTES


def _fault(error: SSL.Error) -> ssl.SSLError:
    reasons = error.args[0] if error.args and isinstance(error.args[0], list) else [error.args]
    return ssl.SSLError("; ".join(str(reason[-1]) for reason in reasons if reason))
