"""Server-side TLS sessions over memory buffers: ciphertext in, plaintext out. No sockets.

Python's own `ssl` either verifies a client certificate in the handshake or requests none. An
expired or unknown certificate would then cost the client its connection, although its token may be
valid. kube-apiserver accepts any certificate whose key the client holds, and verifies it with each
request. pyOpenSSL supports that at the same cost: docs/decisions/0007.

The cost of a handshake is bounded before OpenSSL reads it, by its bytes and by the presented keys
(`ClientFlight`). OpenSSL builds no chain: docs/decisions/0016 and 0017.
"""

import ssl
from typing import Any, ClassVar

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL, crypto

from proxy.wire.tls_client_flight import ClientFlight

# For these few calls pyOpenSSL's own methods take twice the time of the calls themselves.
_lib: Any = Binding.lib
_ffi: Any = Binding.ffi

# Maximum plaintext of one record, and so the maximum that one read can return.
_RECORD_BYTES = 16 * 1024
# Shared by all sessions: a method that fills it also empties it before it returns.
_SCRATCH_BYTES = 128 * 1024
# Upper bound of a record's overhead: header, nonce and tag.
_MAX_RECORD_OVERHEAD_BYTES = 128
_scratch = _ffi.new("char[]", _SCRATCH_BYTES)
# View of the scratch buffer; a slice of it is a copy.
_contents: Any = _ffi.buffer(_scratch)
# Allocates uninitialized memory, for callers that fill it.
_allocate = _ffi.new_allocator(should_clear_after_alloc=False)
_pointer = _ffi.new("char **")

MAX_HANDSHAKE_BYTES = 16 * 1024
"""Default limit of the bytes a client may send before its handshake is complete."""
# Go's limit. Records without data, mainly key updates, cost 40 µs for 27 bytes each.
_MAX_RECORDS_WITHOUT_DATA = 16
_CLIENT_SECRET = b"CLIENT_HANDSHAKE_TRAFFIC_SECRET"
# Secrets that OpenSSL has reported in the current step of a handshake.
_reported_secrets: list[bytes] = []
# A client chooses its key, and so the cost of verifying with it. Go accepts RSA keys up to this
# size, with an exponent of four bytes. Other keys longer than their limit are DSA keys.
_MAX_RSA_BITS = 8192
_MAX_RSA_OTHER_BYTES = 64
_MAX_OTHER_BITS = 4096

# Forward secrecy and authenticated encryption; for TLS 1.3 OpenSSL has nothing else.
_CIPHERS = b"@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aNULL:!aDSS"


def build_server_context(*, requests_client_certificate: bool) -> SSL.Context:
    """Return a context that has no certificate and key yet.

    If a client certificate is requested, the client may present none, or any. The certificates of
    `ServerTLS.peer_chain` are not verified, except that the client holds the key of the first one.
    """
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_cipher_list(_CIPHERS)
    context.set_alpn_select_callback(_choose_protocol)
    # No resumption: the certificate of a resumed session was presented in another handshake.
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"understudy")
    context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    if requests_client_certificate:
        # OpenSSL verifies every presented certificate, and the binding cannot disable that. So it
        # has no trust anchors, and checks no further than the issuer of the client's certificate.
        context.set_verify_depth(0)
        context.set_verify(SSL.VERIFY_PEER, _accept_certificate)
        context.set_keylog_callback(_store_secret)
    return context


class OutputBuffer:
    """The pending output of a session."""

    __slots__ = ("bio",)

    def __init__(self, bio: Any) -> None:
        self.bio = bio

    @property
    def pending(self) -> int:
        """Return the number of pending bytes."""
        return int(_lib.BIO_get_mem_data(self.bio, _pointer))


class ServerTLS:
    """One TLS session. Output ciphertext accumulates until `read_output` returns it."""

    __slots__ = (
        "_connection",
        "_excess",
        "_flight",
        "_handshake_bytes_left",
        "_incoming",
        "_presented",
        "_records_without_data",
        "_session",
        "is_ready",
        "outgoing",
        "peer_closed",
    )

    STEP_BYTES: ClassVar[int] = 64 * 1024
    """Maximum ciphertext per call: each session's buffer grows to this size and never shrinks."""

    def __init__(self, context: SSL.Context, *, handshake_bytes: int = MAX_HANDSHAKE_BYTES) -> None:
        connection = SSL.Connection(context, None)
        connection.set_accept_state()
        self._connection = connection
        self._session = connection._ssl  # noqa: SLF001 - for calls on the fast path
        # Otherwise one read would process any number of records without data, uncounted.
        _lib.SSL_clear_mode(self._session, _lib.SSL_MODE_AUTO_RETRY)
        self._incoming = connection._into_ssl  # noqa: SLF001 - likewise
        self.outgoing = OutputBuffer(connection._from_ssl)  # noqa: SLF001 - likewise
        self.is_ready = False
        self.peer_closed = False
        self._handshake_bytes_left = handshake_bytes
        requests_certificate = context.get_verify_mode() != SSL.VERIFY_NONE
        self._flight: ClientFlight | None = ClientFlight(expects_certificate=requests_certificate)
        self._presented: tuple[bytes, ...] = ()
        self._records_without_data = 0
        # Bytes beyond the handshake's limit, possibly received with its last bytes.
        self._excess = b""

    def handshake(self) -> bool:
        """Continue the handshake and return whether it is complete; raises ssl.SSLError."""
        flight = self._flight
        if flight is None:
            return True
        while records := flight.next_records():
            _lib.BIO_write(self._incoming, records, len(records))
            if self._step(flight):
                self._flight, self._presented, self.is_ready = None, flight.certificates, True
                self.receive(flight.take_rest() + self._excess)
                self._excess = b""
                return True
        if self._excess:
            raise ssl.SSLError("excessive message size")
        return False

    def receive(self, ciphertext: bytes | memoryview) -> None:
        """Accept bytes from the socket; during the handshake, at most its limit."""
        if self._flight is not None:
            capacity = self._handshake_bytes_left
            self._excess += bytes(ciphertext[capacity:])
            self._flight.feed(ciphertext[:capacity])
            self._handshake_bytes_left = max(0, capacity - len(ciphertext))
            return
        start = ciphertext if isinstance(ciphertext, bytes) else _ffi.from_buffer(ciphertext)
        _lib.BIO_write(self._incoming, start, len(ciphertext))

    def decrypt(self, ciphertext: bytes | memoryview) -> bytes:
        """Accept bytes from the socket and return all available plaintext."""
        start = ciphertext if isinstance(ciphertext, bytes) else _ffi.from_buffer(ciphertext)
        _lib.BIO_write(self._incoming, start, len(ciphertext))
        _lib.ERR_clear_error()
        count = _lib.SSL_read(self._session, _scratch, _RECORD_BYTES)
        if count <= 0:
            return self.read() if self._has_more(count) else b""
        plaintext: bytes = _contents[:count]
        if self._records_without_data:
            self._records_without_data = 0
        # Nearly always: one record, and nothing of the next one.
        if not _lib.BIO_get_mem_data(self._incoming, _pointer):
            return plaintext
        return self.read(plaintext)

    def read(self, first: bytes = b"") -> bytes:
        """Return `first` and all available plaintext; sets `peer_closed` on close_notify."""
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
            # OpenSSL reads record by record from the BIO, so unread records are still there.
            if not _lib.BIO_get_mem_data(self._incoming, _pointer):
                break
        return b"".join(pieces)

    def write(self, plaintext: bytes) -> bytes | memoryview:
        """Encrypt plaintext and return it with all other pending output.

        A large result is a view of the memory that its records were written to, without a copy.
        """
        if len(plaintext) <= _RECORD_BYTES:
            if plaintext and _lib.SSL_write(self._session, plaintext, len(plaintext)) <= 0:
                raise ssl.SSLError("cannot encrypt")
            # Same as `read_output`, inlined because this runs for every response.
            count = _lib.BIO_read(self.outgoing.bio, _scratch, _SCRATCH_BYTES)
            record: bytes = _contents[:count] if count > 0 else b""
            return record
        return self._write_records(plaintext)

    def read_output(self) -> bytes:
        """Return pending output: handshake messages, alerts."""
        count = _lib.BIO_read(self.outgoing.bio, _scratch, _SCRATCH_BYTES)
        if count <= 0:
            return b""
        output: bytes = _contents[:count]
        return output if count < _SCRATCH_BYTES else output + self.read_output()

    def close(self) -> bytes:
        """Close the write side; return the ciphertext of the close_notify alert."""
        # The peer need not respond with its own close_notify; the proxy never waits for it.
        _lib.SSL_shutdown(self._session)
        _lib.ERR_clear_error()
        return self.read_output()

    def release_buffers(self) -> None:
        """Free the memory of grown buffers; useful before a long idle period."""
        if _lib.BIO_get_mem_data(self._incoming, _pointer) or self.outgoing.pending:
            return
        # The session owns its buffers, and frees the old ones.
        self._incoming, self.outgoing.bio = _new_buffer(), _new_buffer()
        _lib.SSL_set_bio(self._session, self._incoming, self.outgoing.bio)
        self._connection._into_ssl = self._incoming  # noqa: SLF001 - else a freed buffer
        self._connection._from_ssl = self.outgoing.bio  # noqa: SLF001 - likewise

    def peer_chain(self) -> tuple[bytes, ...]:
        """Return the certificates that the peer presented, as DER, its own first.

        The peer holds the key of the first one. Nothing else is verified. A resumed session has
        the certificate of an earlier handshake, which does not count.
        """
        own = self._connection.get_peer_certificate()
        if own is None or _lib.SSL_session_reused(self._session):
            return ()
        # As received. The first must be, byte for byte, the one whose key the peer proved to hold.
        proven = crypto.dump_certificate(crypto.FILETYPE_ASN1, own)
        return self._presented if self._presented[:1] == (proven,) else ()

    def _step(self, flight: ClientFlight) -> bool:
        """Continue the handshake in OpenSSL; return whether it is complete."""
        _lib.ERR_clear_error()
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            if _reported_secrets:
                suite_name = self._connection.get_cipher_name()
                flight.decrypt_with(suite_name or "", _reported_secrets[-1])
            return False
        except SSL.Error as error:
            raise _ssl_error(error) from error
        finally:
            _reported_secrets.clear()
        return True

    def _write_records(self, plaintext: bytes) -> memoryview:
        """Encrypt record by record, each directly to its place in the returned memory."""
        session, bio = self._session, self.outgoing.bio
        encrypt, fetch = _lib.SSL_write, _lib.BIO_read
        start, size = _ffi.from_buffer(plaintext), len(plaintext)
        capacity = size + (size // _RECORD_BYTES + 1) * _MAX_RECORD_OVERHEAD_BYTES
        output = _allocate("char[]", capacity)
        filled = position = 0
        while position < size:
            # OpenSSL writes one record per call, because partial writes are enabled.
            count = encrypt(session, start + position, size - position)
            fetched = fetch(bio, output + filled, capacity - filled)
            if count <= 0 or fetched <= 0:
                raise ssl.SSLError("cannot encrypt")
            position += count
            filled += fetched
        # The filled part only. The view keeps its memory alive.
        records = memoryview(_ffi.buffer(output, filled))
        # A full buffer means that more output than the records is pending. Not observed so far.
        return records if filled < capacity else memoryview(bytes(records) + self.read_output())

    def _has_more(self, count: int) -> bool:
        """Return whether more can be read after a read without plaintext; raises ssl.SSLError."""
        error = _lib.SSL_get_error(self._session, count)
        if error == _lib.SSL_ERROR_WANT_READ:
            if not _lib.BIO_get_mem_data(self._incoming, _pointer):
                return False
            self._records_without_data += 1
            if self._records_without_data > _MAX_RECORDS_WITHOUT_DATA:
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
    """Select HTTP/1.1, whatever else the client offers."""
    return b"http/1.1" if b"http/1.1" in offered else SSL.NO_OVERLAPPING_PROTOCOLS


def _store_secret(_connection: SSL.Connection, line: bytes) -> None:
    """Store the secret that decrypts the client's handshake records, until the step ends."""
    label, _, rest = line.partition(b" ")
    if label == _CLIENT_SECRET:
        _reported_secrets.append(bytes.fromhex(rest.rpartition(b" ")[2].decode("ascii")))


def _accept_certificate(
    _connection: SSL.Connection, certificate: crypto.X509, *_found: int
) -> bool:
    """Return whether the handshake may continue; the certificate's identity is not checked here.

    OpenSSL calls this for the client's own certificate, and for its issuer if presented, before it
    verifies anything with their keys.
    """
    try:
        return _is_cheap(certificate.get_pubkey())
    except crypto.Error:
        return True  # Without a usable key nothing can be verified with it.


def _is_cheap(key: crypto.PKey) -> bool:
    """Return whether verifying with a key costs about as much as with keys that Go accepts."""
    if key.type() != crypto.TYPE_RSA:
        return key.bits() <= _MAX_OTHER_BITS
    # The encoding without the modulus is the exponent and some framing bytes.
    encoded = crypto.dump_publickey(crypto.FILETYPE_ASN1, key)
    return key.bits() <= _MAX_RSA_BITS and len(encoded) - key.bits() // 8 <= _MAX_RSA_OTHER_BYTES


def _ssl_error(error: SSL.Error) -> ssl.SSLError:
    reasons = error.args[0] if error.args and isinstance(error.args[0], list) else [error.args]
    return ssl.SSLError("; ".join(str(reason[-1]) for reason in reasons if reason))
