"""Certificates that a client shows are inspected before OpenSSL decodes their keys."""

import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st
from OpenSSL import SSL

from proxy.wire.tls_client import ClientTLS
from proxy.wire.tls_client_flight import MAX_CERTIFICATES, ClientFlight
from proxy.wire.tls_server import ServerTLS
from tests.support import hostile_keys
from tests.support.certificates import Certificates, new_certificates
from tests.support.forging import Draft, Forger, Key, seq, tlv
from tests.support.key_updates import KeyUpdates
from tests.wire.test_tls_server import HOST, VERSIONS, pair, showing

GOOD_POINT = b"\x04" + b"\1" * 64
REFUSED = {
    "a curve of its own": hostile_keys.costly_curve(),
    "a compressed point": hostile_keys.compressed_point(),
    "another curve": hostile_keys.named_curve(hostile_keys.SECP256K1, GOOD_POINT),
    "a curve as algorithm": hostile_keys.named_curve(
        hostile_keys.P224, GOOD_POINT, algorithm=hostile_keys.SM2
    ),
    "RSA-PSS": hostile_keys.other_algorithm(hostile_keys.RSA_PSS),
    "DSA": hostile_keys.other_algorithm(hostile_keys.DSA),
}
KEYS: dict[str, Callable[[], Key]] = {
    "P-224": lambda: ec.generate_private_key(ec.SECP224R1()),
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}
GOOD = Forger.root("good").der
UNSUPPORTED = "certificate verify failed"


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture(scope="module")
def serving(certificates: Certificates) -> SSL.Context:
    return certificates.listening_context()


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def refusal(context: ssl.SSLContext, serving: SSL.Context) -> tuple[float, str]:
    """Return the CPU time of the server until it refuses a client, and its reason."""
    client, server = ClientTLS(context, server_hostname=HOST), ServerTLS(serving)
    spent = 0.0
    for _ in range(3):
        if not client.is_ready:
            client.handshake()
        output = client.read_output()
        started = time.process_time()
        try:
            server.receive(output)
            server.handshake()
        except ssl.SSLError as error:
            return spent + time.process_time() - started, str(error)
        spent += time.process_time() - started
        client.receive(server.read_output())
    raise AssertionError("the handshake was not refused")


@pytest.mark.parametrize("key", REFUSED.values(), ids=REFUSED.keys())
def test_key_that_go_does_not_take_ends_the_handshake_at_once(
    certificates: Certificates, serving: SSL.Context, rsa_key: rsa.RSAPrivateKey, key: bytes
) -> None:
    """Decoding eight of the first took OpenSSL more than a second.

    By TLS 1.3: a client of Python's own shows no such certificates by 1.2.
    """
    hostile = [hostile_keys.certificate(key)] * 8
    context = showing(certificates, Forger.root("a", key=rsa_key).der, *hostile, key=rsa_key)
    context.minimum_version = ssl.TLSVersion.TLSv1_3

    seconds, reason = min(refusal(context, serving) for _ in range(3))

    assert UNSUPPORTED in reason
    assert seconds < 0.02


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("kind", KEYS)
def test_issuer_may_have_any_key_that_go_takes(
    certificates: Certificates,
    serving: SSL.Context,
    rsa_key: rsa.RSAPrivateKey,
    version: ssl.TLSVersion,
    kind: str,
) -> None:
    signer = Forger.root("a signer", key=KEYS[kind]())
    shown = (signer.sign(Draft(key=rsa_key)), signer.der)
    context = showing(certificates, *shown, key=rsa_key)
    context.minimum_version = context.maximum_version = version

    assert pair(context, serving)[1].peer_chain() == shown


def test_number_of_certificates_is_bounded(
    certificates: Certificates, serving: SSL.Context, rsa_key: rsa.RSAPrivateKey
) -> None:
    signer = Forger.root("a signer")
    own = signer.sign(Draft(key=rsa_key))

    def context(count: int) -> ssl.SSLContext:
        return showing(certificates, own, *[signer.der] * (count - 1), key=rsa_key)

    assert len(pair(context(MAX_CERTIFICATES), serving)[1].peer_chain()) == MAX_CERTIFICATES
    with pytest.raises(ssl.SSLError, match="excessive message size"):
        pair(context(MAX_CERTIFICATES + 1), serving)


# --- by records --------------------------------------------------------------------------------


def certificate_message(*certificates: bytes) -> bytes:
    """Return a Certificate message of TLS 1.2."""
    entries = b"".join(len(one).to_bytes(3, "big") + one for one in certificates)
    body = len(entries).to_bytes(3, "big") + entries
    return b"\x0b" + len(body).to_bytes(3, "big") + body


def record(payload: bytes, kind: int = 22) -> bytes:
    return bytes((kind, 3, 3)) + len(payload).to_bytes(2, "big") + payload


def inspected(flight: ClientFlight, data: bytes) -> bytes:
    """Return all records that OpenSSL is given of this."""
    flight.feed(data)
    given = b""
    while records := flight.next_records():
        given += records
    return given


@pytest.mark.parametrize("key", REFUSED.values(), ids=REFUSED.keys())
def test_key_that_go_does_not_take_is_refused_in_tls_1_2(key: bytes) -> None:
    message = certificate_message(GOOD, hostile_keys.certificate(key))

    with pytest.raises(ssl.SSLError, match=UNSUPPORTED):
        inspected(ClientFlight(), record(message))


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(1, 500))
def test_message_in_any_number_of_records_and_reads_is_inspected(
    sizes: list[int], read_bytes: int
) -> None:
    message = certificate_message(hostile_keys.certificate(REFUSED["a compressed point"]))
    data, sizes = b"", [*sizes, len(message)]
    for size in sizes:
        data, message = data + (record(message[:size]) if message else b""), message[size:]
    flight, given = ClientFlight(), bytearray()

    def read_all() -> None:
        for start in range(0, len(data), read_bytes):
            given.extend(inspected(flight, data[start : start + read_bytes]))

    with pytest.raises(ssl.SSLError, match=UNSUPPORTED):
        read_all()

    assert len(given) < len(data)  # OpenSSL has never seen the end of the message


@pytest.mark.parametrize(
    "malformed",
    [
        b"\x30\x80" + GOOD[4:] + b"\0\0",
        b"\x30\x83\0" + GOOD[2:],
        GOOD[:-1],
        GOOD + b"\0",
        seq(tlv(0x31, GOOD[4:])),
        seq(),
        b"",
    ],
    ids=["indefinite", "over-long", "cut", "more", "another tag", "nothing in it", "empty"],
)
def test_certificate_that_is_no_der_is_refused(malformed: bytes) -> None:
    with pytest.raises(ssl.SSLError, match=UNSUPPORTED):
        inspected(ClientFlight(), record(certificate_message(GOOD, malformed)))


@pytest.mark.parametrize(
    "message",
    [
        b"\x0b\0\0\2\0\0",
        b"\x0b\0\0\4\0\0\0\0",
        b"\x0b\0\0\6\0\0\3\0\0\1",
        b"\x19\0\0\0",
        b"\x01\0\0\0" * 9,
    ],
    ids=["no list", "more than the list", "cut certificate", "compressed", "many messages"],
)
def test_message_that_is_no_certificate_message_is_refused(message: bytes) -> None:
    with pytest.raises(ssl.SSLError, match=r"length mismatch|unexpected message"):
        inspected(ClientFlight(), record(message))


@pytest.mark.parametrize(
    "first", [certificate_message(GOOD), b"\x14\0\0\0"], ids=["second", "late"]
)
def test_certificates_are_shown_once_and_before_the_end(first: bytes) -> None:
    with pytest.raises(ssl.SSLError, match="unexpected message"):
        inspected(ClientFlight(), record(first + certificate_message(GOOD)))


def test_certificate_other_than_the_proven_one_is_not_told(
    certificates: Certificates, serving: SSL.Context
) -> None:
    _, server = pair(certificates.client_context("alice"), serving)
    assert server.peer_chain()

    server._presented = (GOOD, *server._presented)

    assert server.peer_chain() == ()


def test_encrypted_record_is_refused_unless_it_can_be_read() -> None:
    sealed = record(b"x" * 40, kind=23)

    with pytest.raises(ssl.SSLError, match="unexpected message"):
        inspected(ClientFlight(), sealed)
    assert inspected(ClientFlight(expects_certificate=False), sealed) == sealed


def test_what_is_no_record_is_left_to_openssl_by_its_first_bytes() -> None:
    flight = ClientFlight()
    flight.feed(b"GET / HTTP/1.1\r\n")

    assert flight.next_records() == b"GET /"


def test_good_certificates_are_told_as_they_came() -> None:
    flight = ClientFlight()
    data = record(certificate_message(GOOD, GOOD))

    assert inspected(flight, data) == data
    assert flight.certificates == (GOOD, GOOD)


# --- records without data ----------------------------------------------------------------------


@pytest.mark.parametrize("answers", [0, 2400])
def test_flood_of_key_updates_is_cut_off(
    certificates: Certificates, serving: SSL.Context, tmp_path: Path, answers: int
) -> None:
    """64 KiB of them cost 100 ms of the event loop."""
    context = certificates.client_context("alice")
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    updates = KeyUpdates(context, tmp_path / "secrets")
    _, server = pair(context, serving)
    flood = b"".join(updates.record(asks_for_answer=one < answers) for one in range(2400))

    started = time.process_time()
    with pytest.raises(ssl.SSLError, match="too many records without data"):
        server.decrypt(flood)

    assert time.process_time() - started < 0.02


def test_some_key_updates_and_data_after_them_are_taken(
    certificates: Certificates, serving: SSL.Context, tmp_path: Path
) -> None:
    context = certificates.client_context("alice")
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    updates = KeyUpdates(context, tmp_path / "secrets")
    _, server = pair(context, serving)

    for round_ in range(5):
        few = b"".join(updates.record(asks_for_answer=False) for _ in range(10))
        assert server.decrypt(few + updates.data(b"%d" % round_)) == b"%d" % round_
