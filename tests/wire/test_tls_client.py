"""TLS over memory: two streams that talk to each other without a socket."""

import random
import ssl

import pytest

from proxy.wire.tls_client import ClientTLS
from tests.support.certificates import Certificates, new_certificates
from tests.support.processes import resident_bytes

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


def serving(certificates: Certificates) -> ssl.SSLContext:
    """A server that takes client certificates."""
    context = certificates.server_context()
    context.verify_mode = ssl.CERT_OPTIONAL
    certificates.clients.configure_trust(context)
    return context


def shake_hands(client: ClientTLS, server: ClientTLS) -> None:
    """Carry handshake messages to and fro until both are ready."""
    for _ in range(4):
        for one, other in ((client, server), (server, client)):
            if not one.is_ready:
                one.handshake()
            other.receive(one.read_output())


def pair(certificates: Certificates, user: str | None = None) -> tuple[ClientTLS, ClientTLS]:
    """Return a client and a server that have shaken hands."""
    client = ClientTLS(certificates.client_context(user), server_hostname=HOST)
    server = ClientTLS(serving(certificates))
    shake_hands(client, server)
    return client, server


def test_a_handshake_makes_both_sides_ready(certificates: Certificates) -> None:
    client, server = pair(certificates)

    assert client.is_ready
    assert server.is_ready


@pytest.mark.parametrize(
    "size", [0, 1, 16 * 1024, 16 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 1024 * 1024]
)
def test_plaintext_crosses_in_both_directions(certificates: Certificates, size: int) -> None:
    client, server = pair(certificates)
    there, back = b"a" * size, b"b" * size

    server.receive(client.write(there))
    client.receive(server.write(back))

    assert (server.read(), client.read()) == (there, back)
    assert not server.peer_closed


def test_ciphertext_may_come_byte_by_byte(certificates: Certificates) -> None:
    client, server = pair(certificates)
    plaintext = b""

    for byte in client.write(b"hello"):
        server.receive(bytes([byte]))
        plaintext += server.read()

    assert plaintext == b"hello"


def test_ciphertext_may_come_in_helpings_of_any_size_read_or_not(
    certificates: Certificates,
) -> None:
    client, server = pair(certificates)
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


def test_a_record_may_end_just_where_a_helping_does(certificates: Certificates) -> None:
    client, server = pair(certificates)
    overhead = len(pair(certificates)[0].write(b"x")) - 1
    first = client.write(b"a" * (3 * 16 * 1024))
    second = client.write(b"b" * (64 * 1024 - len(first) - overhead))
    assert len(first + second) == 64 * 1024

    server.receive(first + second + client.write(b"the rest"))

    assert server.read().endswith(b"bthe rest")


def test_a_large_transfer_leaves_no_large_buffers_behind(certificates: Certificates) -> None:
    pairs = [pair(certificates) for _ in range(50)]
    large = b"x" * 256 * 1024
    before = resident_bytes()

    for client, server in pairs:
        for one, other in ((client, server), (server, client)):
            other.receive(one.write(large))
            assert other.read() == large

    # Each pair has four buffers; kept at the size of what crossed them they would be a megabyte.
    assert resident_bytes() - before < 50 * 500_000


def test_a_goodbye_is_told_from_silence(certificates: Certificates) -> None:
    client, server = pair(certificates)

    server.receive(client.write(b"last words") + client.close())

    assert server.read() == b"last words"
    assert server.peer_closed
    assert server.read() == b""


def test_two_goodbyes_may_cross(certificates: Certificates) -> None:
    client, server = pair(certificates)
    goodbye = server.close()
    server.receive(client.close())

    assert goodbye
    assert server.read() == b""
    assert server.peer_closed


def test_a_tampered_record_is_an_error(certificates: Certificates) -> None:
    client, server = pair(certificates)
    record = bytearray(client.write(b"hello"))
    record[-1] ^= 1
    server.receive(bytes(record))

    with pytest.raises(ssl.SSLError):
        server.read()


def test_what_is_not_tls_is_an_error(certificates: Certificates) -> None:
    server = ClientTLS(serving(certificates))
    server.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

    with pytest.raises(ssl.SSLError):
        server.handshake()


@pytest.mark.parametrize("hostname", ["localhost", "127.0.0.2"])
def test_a_server_of_another_name_is_not_trusted(certificates: Certificates, hostname: str) -> None:
    client = ClientTLS(certificates.client_context(), server_hostname=hostname)

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client, ClientTLS(serving(certificates)))


def test_sessions_that_take_turns_do_not_meet(certificates: Certificates) -> None:
    """All of a thread share their buffers: whatever one leaves in them would be another's."""
    ours, theirs = pair(certificates), pair(certificates)
    request, other = ours[0].write(b"ours"), theirs[0].write(b"theirs")
    ours[1].receive(request[:7])
    assert ours[1].read() == b""
    theirs[1].receive(other)

    assert ours[1].decrypt(request[7:] + ours[0].write(b", still")) == b"ours, still"
    assert theirs[1].read() == b"theirs"


def test_handshakes_that_take_turns_do_not_meet(certificates: Certificates) -> None:
    client = ClientTLS(certificates.client_context(), server_hostname=HOST)
    server = ClientTLS(serving(certificates))
    client.handshake()
    first_words = client.read_output()
    for start in range(0, len(first_words), 50):
        server.receive(first_words[start : start + 50])
        server.handshake()
        pair(certificates)

    shake_hands(client, server)

    client.receive(server.write(b"done"))
    assert client.read() == b"done"


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_fault_stays_with_its_session(certificates: Certificates, is_ready: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Neither what came after it nor the alert that answers it reaches another session."""
    client, server = pair(certificates)
    if is_ready:
        _, broken = pair(certificates)
        with pytest.raises(ssl.SSLError):
            broken.decrypt(b"\x17\x03\x03\x00\x20" + bytes(32) + b"\x17\x03\x03")
    else:
        broken = ClientTLS(serving(certificates))
        broken.receive(b"\x16\x03\x01\x00\x05hello\x16\x03\x01")
        with pytest.raises(ssl.SSLError):
            broken.handshake()

    client.receive(server.write(b"as ever"))

    assert client.read() == b"as ever"
    assert broken.read_output(), "no alert"


def test_what_comes_after_a_goodbye_stays_with_its_session(certificates: Certificates) -> None:
    client, server = pair(certificates)
    left_client, left = pair(certificates)

    left.decrypt(left_client.close() + b"\x17\x03\x03\x00\x20")

    assert left.peer_closed
    assert server.decrypt(client.write(b"as ever")) == b"as ever"


def test_what_comes_with_the_end_of_a_handshake_is_read_after_it(
    certificates: Certificates,
) -> None:
    client = ClientTLS(certificates.client_context(), server_hostname=HOST)
    server = ClientTLS(serving(certificates))
    client.handshake()
    server.receive(client.read_output())
    server.handshake()
    client.receive(server.read_output())
    assert client.handshake()
    server.receive(client.read_output() + client.write(b"at once"))

    assert server.handshake()
    pair(certificates)

    assert server.read() == b"at once"
