"""TLS of the listening side: clients of Python's own TLS talk to it without a socket."""

import contextlib
import gc
import random
import ssl
import tempfile

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from OpenSSL import SSL

from proxy.wire.tls_client import ClientTLS
from proxy.wire.tls_server import ServerTLS
from tests.support.certificates import Certificates, new_certificates
from tests.support.forging import Draft, Forger, extension, pem_of
from tests.support.processes import resident_bytes

HOST = "127.0.0.1"
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture(scope="module")
def serving(certificates: Certificates) -> SSL.Context:
    """A server that asks for client certificates."""
    return certificates.listening_context()


def shake_hands(client: ClientTLS, server: ServerTLS) -> None:
    """Carry handshake messages to and fro until both are ready."""
    for _ in range(4):
        if not client.is_ready:
            client.handshake()
        server.receive(client.read_output())
        if not server.is_ready:
            server.handshake()
        client.receive(server.read_output())


def pair(context: ssl.SSLContext, serving: SSL.Context) -> tuple[ClientTLS, ServerTLS]:
    """Return a client and a server that have shaken hands."""
    client = ClientTLS(context, server_hostname=HOST)
    server = ServerTLS(serving)
    shake_hands(client, server)
    return client, server


@pytest.fixture
def both(certificates: Certificates, serving: SSL.Context) -> tuple[ClientTLS, ServerTLS]:
    return pair(certificates.client_context(), serving)


def test_a_handshake_makes_both_sides_ready(both: tuple[ClientTLS, ServerTLS]) -> None:
    client, server = both

    assert client.is_ready
    assert server.is_ready


@pytest.mark.parametrize(
    "size", [0, 1, 16 * 1024, 16 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 1024 * 1024]
)
def test_plaintext_crosses_in_both_directions(both: tuple[ClientTLS, ServerTLS], size: int) -> None:
    client, server = both
    there, back = b"a" * size, b"b" * size

    server.receive(client.write(there))
    client.receive(server.write(back))

    assert (server.read(), client.read()) == (there, back)
    assert not server.peer_closed


def test_what_is_due_is_told_before_it_is_fetched(both: tuple[ClientTLS, ServerTLS]) -> None:
    client, server = both
    assert server.outgoing.pending == 0
    server.receive(client.close())
    server.read()

    goodbye = server.close()

    assert (len(goodbye) > 0, server.outgoing.pending) == (True, 0)


def test_ciphertext_may_come_byte_by_byte(both: tuple[ClientTLS, ServerTLS]) -> None:
    client, server = both
    plaintext = b""

    for byte in client.write(b"hello"):
        server.receive(bytes([byte]))
        plaintext += server.read()

    assert plaintext == b"hello"


def test_ciphertext_may_come_in_helpings_of_any_size_read_or_not(
    both: tuple[ClientTLS, ServerTLS],
) -> None:
    client, server = both
    chance = random.Random(1)
    sent = chance.randbytes(3_000_000)
    ciphertext = client.write(sent)
    received = b""

    while ciphertext:
        helping = chance.choice([1, 1000, 65_536, 65_537, 300_000])
        server.receive(ciphertext[:helping])
        ciphertext = ciphertext[helping:]
        if chance.random() < 0.5:
            received += server.read()

    assert received + server.read() == sent


def test_a_large_transfer_leaves_no_large_buffers_behind(
    certificates: Certificates, serving: SSL.Context
) -> None:
    pairs = [pair(certificates.client_context(), serving) for _ in range(50)]
    large = b"x" * 256 * 1024
    before = resident_bytes()

    for client, server in pairs:
        server.receive(client.write(large))
        assert server.read() == large
        client.receive(server.write(large))
        assert client.read() == large

    # Each pair has four buffers; kept at the size of what crossed them they would be a megabyte.
    assert resident_bytes() - before < 50 * 500_000


def test_a_goodbye_is_told_from_silence(both: tuple[ClientTLS, ServerTLS]) -> None:
    client, server = both

    server.receive(client.write(b"last words") + client.close())

    assert server.read() == b"last words"
    assert server.read() == b""
    assert server.peer_closed


def test_two_goodbyes_may_cross(both: tuple[ClientTLS, ServerTLS]) -> None:
    client, server = both
    goodbye = server.close()
    server.receive(client.close())

    assert goodbye
    assert server.read() == b""
    assert server.peer_closed


def test_a_goodbye_before_the_handshake_is_none_and_harms_nobody(
    both: tuple[ClientTLS, ServerTLS], serving: SSL.Context
) -> None:
    client, server = both

    assert ServerTLS(serving).close() == b""

    server.receive(client.write(b"hello"))
    assert server.read() == b"hello"


def test_a_tampered_record_is_an_error_of_its_stream_alone(
    certificates: Certificates, serving: SSL.Context
) -> None:
    """OpenSSL keeps errors for a thread: one that is left behind would be the next one's."""
    client, server = pair(certificates.client_context(), serving)
    _, innocent = pair(certificates.client_context(), serving)
    record = bytearray(client.write(b"hello"))
    record[-1] ^= 1
    server.receive(bytes(record))

    with pytest.raises(ssl.SSLError):
        server.read()

    assert innocent.read() == b""


def test_what_is_not_tls_is_an_error(serving: SSL.Context) -> None:
    server = ServerTLS(serving)
    server.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

    with pytest.raises(ssl.SSLError, match="http request"):
        server.handshake()


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_only_the_safer_versions_are_spoken(
    certificates: Certificates, serving: SSL.Context, version: ssl.TLSVersion
) -> None:
    context = certificates.client_context("alice")
    context.minimum_version = context.maximum_version = version

    _, server = pair(context, serving)

    assert server.is_ready
    assert b"alice" in server.peer_chain()[0]


def test_an_old_version_is_refused(certificates: Certificates, serving: SSL.Context) -> None:
    context = certificates.client_context()
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")

    with pytest.raises(ssl.SSLError, match="protocol"):
        pair(context, serving)


def test_an_old_cipher_is_refused(certificates: Certificates, serving: SSL.Context) -> None:
    context = certificates.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    pair(context, serving)

    context.set_ciphers("ECDHE-ECDSA-AES256-SHA:AES256-SHA")
    with pytest.raises(ssl.SSLError, match="cipher"):
        pair(context, serving)


def test_without_a_certificate_there_is_nothing_to_tell(
    both: tuple[ClientTLS, ServerTLS],
) -> None:
    _, server = both

    assert server.peer_chain() == ()


def test_a_certificate_that_is_not_asked_for_is_not_shown(certificates: Certificates) -> None:
    serving = certificates.listening_context(asks_for_certificate=False)

    _, server = pair(certificates.client_context("alice"), serving)

    assert server.peer_chain() == ()


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_stranger_s_certificate_is_told_and_does_not_end_the_handshake(
    certificates: Certificates, serving: SSL.Context, version: ssl.TLSVersion
) -> None:
    context = certificates.client_context()
    context.minimum_version = context.maximum_version = version
    leaf = new_certificates().clients.issue_cert(common_name="mallory")
    leaf.configure_cert(context)

    client, server = pair(context, serving)
    server.receive(client.write(b"hello"))

    assert server.read() == b"hello"
    assert b"mallory" in server.peer_chain()[0]


def test_the_whole_chain_is_told_the_client_s_own_first(
    certificates: Certificates, serving: SSL.Context
) -> None:
    middle = certificates.clients.create_child_ca()
    context = certificates.client_context()
    leaf = middle.issue_cert(common_name="alice")
    leaf.configure_cert(context)

    _, server = pair(context, serving)

    shown = [ssl.PEM_cert_to_DER_cert(pem.bytes().decode()) for pem in leaf.cert_chain_pems]
    assert list(server.peer_chain()) == shown
    assert len(shown) == 2


def test_a_certificate_without_its_key_ends_the_handshake(
    certificates: Certificates, serving: SSL.Context
) -> None:
    """Whatever certificates are taken, the client's signature must fit the one it shows."""
    context = certificates.client_context("alice")
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # where the signature can be seen, and spoilt
    client, server = ClientTLS(context, server_hostname=HOST), ServerTLS(serving)
    client.handshake()
    server.receive(client.read_output())
    server.handshake()
    client.receive(server.read_output())
    client.handshake()

    server.receive(with_spoilt_signature(client.read_output()))

    with pytest.raises(ssl.SSLError, match="signature"):
        server.handshake()


def with_spoilt_signature(flight: bytes) -> bytes:
    handshake, certificate_verify = 22, 15
    spoilt, at = bytearray(flight), 0
    while at < len(flight):
        end = at + 5 + int.from_bytes(flight[at + 3 : at + 5])
        if flight[at] == handshake and flight[at + 5] == certificate_verify:
            spoilt[end - 1] ^= 1
        at = end
    assert spoilt != flight
    return bytes(spoilt)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_no_session_is_resumed(
    certificates: Certificates, serving: SSL.Context, version: ssl.TLSVersion
) -> None:
    """So whoever has a certificate shows it in its own handshake."""
    context = certificates.client_context("alice")
    context.minimum_version = context.maximum_version = version

    first, chain = connect(context, serving, None)
    second, other_chain = connect(context, serving, first.session)

    assert not second.session_reused
    assert chain == other_chain != ()


def connect(
    context: ssl.SSLContext, serving: SSL.Context, session: ssl.SSLSession | None
) -> tuple[ssl.SSLObject, tuple[bytes, ...]]:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=HOST, session=session)
    server = ServerTLS(serving)
    for _ in range(4):
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        server.receive(outgoing.read())
        if not server.is_ready:
            server.handshake()
        incoming.write(server.read_output())
    incoming.write(server.write(b"x"))
    assert client.read() == b"x"
    chain = server.peer_chain()
    server.close()  # a session that was cut would never be resumed
    return client, chain


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_resumed_session_carries_no_certificate(
    certificates: Certificates, version: ssl.TLSVersion
) -> None:
    """Even where a session is resumed: what it knows was shown in another handshake."""
    serving = certificates.listening_context()
    serving.set_session_cache_mode(SSL.SESS_CACHE_SERVER)
    context = certificates.client_context("alice")
    context.minimum_version = context.maximum_version = version

    first, chain = connect(context, serving, None)
    second, resumed_chain = connect(context, serving, first.session)

    assert second.session_reused
    assert chain != ()
    assert resumed_chain == ()


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["h2", "http/1.1"], "http/1.1"), (["h2"], None), ([], None)],
    ids=["both", "only h2", "none"],
)
def test_http_1_1_is_spoken_whatever_is_offered(
    certificates: Certificates, serving: SSL.Context, offered: list[str], chosen: str | None
) -> None:
    context = certificates.client_context()
    if offered:
        context.set_alpn_protocols(offered)

    client, _ = connect(context, serving, None)

    assert client.selected_alpn_protocol() == chosen


def test_large_records_stay_as_they_are_until_they_are_sent(
    both: tuple[ClientTLS, ServerTLS],
) -> None:
    """What is not copied must not be given to anybody else meanwhile."""
    client, server = both
    sent = [bytes([number]) * 50_000 for number in range(20)]

    waiting = [server.write(plaintext) for plaintext in sent]
    gc.collect()
    # What was given back would be taken for these.
    others = [bytes([255]) * len(ciphertext) for ciphertext in waiting]

    assert [client.decrypt(ciphertext) for ciphertext in waiting] == sent
    assert {len(ciphertext) for ciphertext in waiting} == {len(others[0])}


def test_buffers_that_were_released_go_on(both: tuple[ClientTLS, ServerTLS]) -> None:
    client, server = both
    client.receive(server.write(b"a" * 100_000))
    client.read()

    server.release_buffers()

    assert server.decrypt(client.write(b"there")) == b"there"
    client.receive(server.write(b"back"))
    assert client.read() == b"back"


def test_half_a_record_outlives_its_buffer(both: tuple[ClientTLS, ServerTLS]) -> None:
    client, server = both
    record = client.write(b"in two")
    assert server.decrypt(record[:9]) == b""

    server.release_buffers()

    assert server.decrypt(record[9:]) == b"in two"


def test_a_buffer_that_holds_something_is_not_released(
    serving: SSL.Context, certificates: Certificates
) -> None:
    client = ClientTLS(certificates.client_context(), server_hostname=HOST)
    server = ServerTLS(serving)
    client.handshake()
    first_words = client.read_output()
    server.receive(first_words[:9])
    server.release_buffers()
    server.receive(first_words[9:])
    server.handshake()

    server.release_buffers()

    shake_hands(client, server)
    assert server.decrypt(client.write(b"there")) == b"there"


def test_released_buffers_are_given_back(serving: SSL.Context, certificates: Certificates) -> None:
    context, payload = certificates.client_context(), b"a" * 16_000
    pairs = [pair(context, serving) for _ in range(300)]
    before = resident_bytes()
    for client, server in pairs:
        server.decrypt(client.write(payload))
        client.receive(server.write(payload))
        client.read()
        server.release_buffers()

    # Both ways a buffer grows to a third more than it held: 12 MB.
    assert resident_bytes() - before < 300 * 16_000


def showing(certificates: Certificates, *shown: bytes, key: rsa.RSAPrivateKey) -> ssl.SSLContext:
    """Return a client that shows these certificates, whoever has signed them."""
    context = certificates.client_context()
    context.set_ciphers("ALL:@SECLEVEL=0")  # a hostile client shows any key
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem_of(*shown) + private)
        file.flush()
        context.load_cert_chain(file.name)
    return context


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_handshake_beyond_its_bytes_is_ended_before_its_certificates_are_parsed(
    certificates: Certificates,
    serving: SSL.Context,
    version: ssl.TLSVersion,
    rsa_key: rsa.RSAPrivateKey,
) -> None:
    own = Forger.root("mallory", key=rsa_key)

    def context(padding: int) -> ssl.SSLContext:
        large = own.sign(Draft(extensions=[extension("1.2.3.4", b"0" * padding)]))
        context = showing(certificates, own.der, large, key=rsa_key)
        context.minimum_version = context.maximum_version = version
        return context

    _, server = pair(context(12_000), serving)
    assert len(server.peer_chain()) == 2
    with pytest.raises(ssl.SSLError, match="excessive message size"):
        pair(context(16_000), serving)


def test_how_many_bytes_a_handshake_may_have_can_be_said(
    certificates: Certificates, serving: SSL.Context
) -> None:
    context = certificates.client_context("alice")
    for room, is_enough in ((4096, True), (700, False)):
        client = ClientTLS(context, server_hostname=HOST)
        server = ServerTLS(serving, handshake_bytes=room)
        if is_enough:
            shake_hands(client, server)
        else:
            with pytest.raises(ssl.SSLError, match="excessive message size"):
                shake_hands(client, server)
        assert server.is_ready is is_enough


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_what_follows_a_handshake_at_once_is_not_counted(
    certificates: Certificates, serving: SSL.Context, version: ssl.TLSVersion
) -> None:
    """A client sends its first request with the last bytes of its handshake."""
    context = certificates.client_context("alice")
    context.minimum_version = context.maximum_version = version
    client, server = ClientTLS(context, server_hostname=HOST), ServerTLS(serving)
    request = b"x" * 60_000
    waiting = b""
    for _ in range(3):
        if not client.is_ready:
            client.handshake()
        waiting += client.read_output()
        if client.is_ready:
            waiting += bytes(client.write(request))
        server.receive(waiting)
        waiting = b""
        if not server.is_ready:
            server.handshake()
        client.receive(server.read_output())
        if server.is_ready:
            break
    received = server.read()
    if not received:  # in 1.2 the server's last word comes first
        client.handshake()
        received = server.decrypt(bytes(client.write(request)))

    assert received == request


def private_key(p: int, q: int, *, e: int) -> rsa.RSAPrivateKey:
    d = pow(e, -1, (p - 1) * (q - 1))
    numbers = rsa.RSAPrivateNumbers(
        p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), rsa.RSAPublicNumbers(e, p * q)
    )
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


@pytest.mark.parametrize("whose", ["its own", "its issuer's"])
def test_a_key_with_a_large_exponent_ends_the_handshake(
    certificates: Certificates, serving: SSL.Context, rsa_key: rsa.RSAPrivateKey, whose: str
) -> None:
    """Verifying with it costs as much as signing, and its owner chooses a cheap other half."""
    numbers = rsa_key.private_numbers()
    hostile = private_key(numbers.p, numbers.q, e=numbers.d)
    for key, is_taken in ((rsa_key, True), (hostile, False)):
        own = key if whose == "its own" else rsa_key
        signer = Forger.root("a signer", key=key)
        shown = (signer.sign(Draft(key=own)), signer.der)
        context = showing(certificates, *shown, key=own)
        if is_taken:
            assert pair(context, serving)[1].peer_chain()
        else:
            with pytest.raises(ssl.SSLError, match="certificate verify failed"):
                pair(context, serving)


def test_a_key_above_8192_bits_ends_the_handshake(
    certificates: Certificates, serving: SSL.Context
) -> None:
    """As in Go. The primes are of Mersenne: nobody has time to look for others."""
    for primes, is_taken in (((3217, 4423), True), ((4253, 4423), False)):
        p, q = (2**one - 1 for one in primes)
        key = private_key(p, q, e=65537)
        context = showing(certificates, Forger.root("mallory", key=key).der, key=key)
        if is_taken:
            assert pair(context, serving)[1].peer_chain()
        else:
            with pytest.raises(ssl.SSLError, match="certificate verify failed"):
                pair(context, serving)


def test_no_chain_is_verified_in_the_handshake(
    certificates: Certificates, serving: SSL.Context
) -> None:
    """What was shown is told, in its order; two of them were looked at."""
    signer = Forger.root("a root")
    shown: list[bytes] = []
    for number in range(12):
        signer = signer.middle(f"ca {number}")
        shown.insert(0, signer.der)
    key = rsa.generate_private_key(65537, 2048)
    own = signer.sign(Draft(key=key))

    _, server = pair(showing(certificates, own, *shown, key=key), serving)

    assert list(server.peer_chain()) == [own, *shown]
    verified = server._connection.get_verified_chain()
    assert verified is not None
    assert len(verified) == 2
