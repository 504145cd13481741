"""Chains that Go refuses, and handshakes that cost too much."""

import datetime
import ssl
import tempfile

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from proxy.authentication.ca_bundle import CABundle, PEMBundle, caller_from_certificate
from proxy.authentication.x509.certificate import Certificate, read_certificate
from proxy.authentication.x509.path import PathError, find_paths
from proxy.wire.exchange import Peer
from proxy.wire.tls_client import ClientTLS
from proxy.wire.tls_server import ServerTLS
from tests.support.certificates import Certificates, new_certificates
from tests.support.chain_table import CASES, ROOT, ROOTS
from tests.support.forging import Draft, Forger, extension, pem_of
from tests.support.hostile_chains import FIELDS, judge

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


def is_believed(title: str) -> bool:
    """Tell whether a chain of the table proves who somebody is."""
    bundle = CABundle(PEMBundle(pem_of(*ROOTS), "the CAs"), read=caller_from_certificate)
    peer = Peer("10.0.0.1", CASES[title].make().certificates)
    return bundle.verify(peer, datetime.datetime.now(datetime.UTC)).subject is not None


def shakes_hands(certificates: Certificates, *shown: bytes, key: rsa.RSAPrivateKey) -> bool:
    """Tell whether a client with these certificates gets through its handshake."""
    context = certificates.client_context()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem_of(*shown) + private)
        file.flush()
        context.load_cert_chain(file.name)
    client = ClientTLS(context, server_hostname=HOST)
    server = ServerTLS(certificates.listening_context())
    try:
        for _ in range(4):
            if not client.is_ready:
                client.handshake()
            server.receive(client.read_output())
            server.handshake()
            client.receive(server.read_output())
    except ssl.SSLError:
        return False
    return server.is_ready


@pytest.mark.parametrize(
    "title",
    [
        "extension: Netscape type, critical",
        "path: between with Netscape type, critical",
        "path: a root with Netscape type, critical",
    ],
)
def test_60_a_critical_extension_that_go_does_not_handle_proves_nothing(title: str) -> None:
    assert is_believed("name: a name")
    assert not is_believed(title)


def test_61_a_name_in_a_text_that_go_does_not_read_proves_nothing() -> None:
    assert is_believed("name: T61String")
    assert not is_believed("name: UniversalString")


@pytest.mark.parametrize("curve", ["secp256k1", "brainpoolP256r1"])
def test_62_a_ca_on_a_curve_that_go_does_not_know_signs_nobody(curve: str) -> None:
    assert is_believed("key: a CA between on P-384")
    assert not is_believed(f"key: a CA between on {curve}")


def test_63_a_ca_with_a_dsa_key_signs_nobody() -> None:
    assert is_believed("key: a CA between with RSA")
    assert not is_believed("key: a CA between with DSA")


def test_64_a_name_that_a_ca_must_not_sign_proves_nothing() -> None:
    assert is_believed("constraint: a wildcard beside an excluded one")
    assert not is_believed("constraint: a wildcard above an excluded one")


def test_65_a_handshake_of_sixty_kilobytes_is_ended(certificates: Certificates) -> None:
    key = rsa.generate_private_key(65537, 2048)
    own = Forger.root("mallory", key=key)
    large = own.sign(Draft(extensions=[extension("1.2.3.4", b"0" * 60_000)]))

    assert shakes_hands(certificates, own.der, key=key)
    assert not shakes_hands(certificates, own.der, large, key=key)


def test_66_a_key_that_is_costly_to_verify_with_ends_the_handshake(
    certificates: Certificates,
) -> None:
    plain = rsa.generate_private_key(65537, 2048)
    numbers = plain.private_numbers()
    swapped = rsa.RSAPrivateNumbers(
        numbers.p,
        numbers.q,
        65537,
        65537 % (numbers.p - 1),
        65537 % (numbers.q - 1),
        numbers.iqmp,
        rsa.RSAPublicNumbers(numbers.d, numbers.p * numbers.q),
    ).private_key(unsafe_skip_rsa_key_validation=True)

    assert shakes_hands(certificates, Forger.root("mallory", key=plain).der, key=plain)
    assert not shakes_hands(certificates, Forger.root("mallory", key=swapped).der, key=swapped)


def test_67_few_signatures_are_verified_for_a_stranger() -> None:
    verified = 0

    def count(_one: Certificate, _signer: Certificate) -> bool:
        nonlocal verified
        verified += 1
        return False

    impostor = Forger(ROOT.subject, Draft().key)
    chain = [read_certificate(impostor.sign(Draft().with_usage())) for _ in range(60)]
    now = datetime.datetime.now(datetime.UTC)
    with pytest.raises(PathError):
        list(find_paths(chain, [read_certificate(ROOT.der)], now, count))

    assert verified < 10


def test_68_a_chain_with_thousands_of_names_is_not_read_to_its_end() -> None:
    assert judge((FIELDS["attributes"](100 * 11),))
    assert not judge((FIELDS["attributes"](2000 * 11),))
