"""Whom a verified certificate stands for, read as the API server reads it."""

import datetime
import hashlib
import warnings

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID, ObjectIdentifier

from proxy.authentication.authenticator import Authenticator
from proxy.authentication.client_certificate import CertificateAuthenticator
from proxy.core.errors import Forbidden, Unauthorized
from proxy.core.identity import Caller, Identity
from proxy.wire.peer import Peer

CN, ORG = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME
UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")
KEY = ec.generate_private_key(ec.SECP256R1())
DAY = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
LAST_MOMENT = DAY + datetime.timedelta(days=1)

Attribute = tuple[ObjectIdentifier, str]


def certificate(*attributes: Attribute) -> bytes:
    """Return a certificate with this subject, each attribute in an RDN of its own."""
    return signed(x509.Name([name_attribute(*attribute) for attribute in attributes]))


def name_attribute(oid: ObjectIdentifier, value: str) -> x509.NameAttribute[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty or long name is what the test is about
        return x509.NameAttribute(oid, value, _validate=False)


def signed(subject: x509.Name) -> bytes:
    builder = x509.CertificateBuilder(
        issuer_name=subject,
        subject_name=subject,
        public_key=KEY.public_key(),
        serial_number=7,
        not_valid_before=DAY,
        not_valid_after=LAST_MOMENT,
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def authenticate(der: bytes) -> Identity:
    return CertificateAuthenticator(lambda: DAY).authenticate(der).identity


def test_the_common_name_is_the_user_and_each_organization_a_group() -> None:
    der = certificate((CN, "alice"), (ORG, "b"), (ORG, "a"), (ORG, "b"))

    assert authenticate(der) == Identity(
        name="alice",
        groups=("b", "a", "b", "system:authenticated"),
        extra=(
            (
                "authentication.kubernetes.io/credential-id",
                (f"X509SHA256={hashlib.sha256(der).hexdigest()}",),
            ),
        ),
    )


@pytest.mark.parametrize("place", ["{}system:masters", "system:masters{}"])
async def test_a_group_beside_masters_is_refused_or_another_one(place: str) -> None:
    """A blank or a control character would be lost in a header: what is left is another group."""
    authenticator = Authenticator(CertificateAuthenticator(lambda: DAY), None)
    refused = set()
    for beside in map(chr, range(256)):
        peer = Peer("10.0.0.1", certificate((CN, "eve"), (ORG, place.format(beside))))
        try:
            caller = await authenticator.authenticate(peer, [])
        except Forbidden:
            refused.add(beside)
        else:
            assert caller.identity.groups[0] == place.format(beside)

    assert refused == {*map(chr, range(33)), "\x7f"}


def test_authenticated_is_not_added_twice() -> None:
    identity = authenticate(certificate((CN, "alice"), (ORG, "system:authenticated"), (ORG, "a")))

    assert identity.groups == ("system:authenticated", "a")


def test_of_several_common_names_the_last_one_counts() -> None:
    assert authenticate(certificate((CN, "first"), (ORG, "a"), (CN, "last"))).name == "last"


def test_within_one_rdn_the_last_in_der_order_counts() -> None:
    both = x509.RelativeDistinguishedName([name_attribute(CN, "zoe"), name_attribute(CN, "ada")])

    assert authenticate(signed(x509.Name([both]))).name == "zoe"


def test_an_empty_last_common_name_is_nobody() -> None:
    with pytest.raises(Unauthorized):
        authenticate(certificate((CN, "alice"), (CN, "")))


def test_an_attribute_is_the_uid() -> None:
    assert authenticate(certificate((CN, "alice"), (UID, "u-1"))).uid == "u-1"


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param([], id="an empty subject"),
        pytest.param([(ORG, "a")], id="no common name"),
        pytest.param([(CN, "")], id="an empty common name"),
        pytest.param([(CN, "alice"), (UID, "1"), (UID, "1")], id="two uids"),
        pytest.param([(CN, "alice"), (UID, "")], id="an empty uid"),
    ],
)
def test_a_subject_that_names_nobody_is_refused(attributes: list[Attribute]) -> None:
    with pytest.raises(Unauthorized):
        authenticate(certificate(*attributes))


@pytest.mark.parametrize("name", ["a b", " a ", "a\nb", "a\0b", "é", "system:node:n1", "x" * 300])
def test_odd_names_are_read_as_they_are(name: str) -> None:
    """What cannot be forwarded faithfully is refused later, for every kind of credential."""
    assert authenticate(certificate((CN, name))).name == name


UTF8_STRING, BIT_STRING, INTEGER, BMP_STRING = 12, 3, 2, 30


def retagged(tag: int, value: bytes = b"abcdef") -> bytes:
    """Return a certificate whose common name is of another ASN.1 type."""
    der = certificate((CN, "abcdef"))
    plain = bytes([UTF8_STRING, 6]) + b"abcdef"
    assert der.count(plain) == 2
    return der.replace(plain, bytes([tag, 6]) + value)


def test_a_name_in_sixteen_bits_is_read() -> None:
    assert authenticate(retagged(BMP_STRING, "abc".encode("utf-16-be"))).name == "abc"


@pytest.mark.parametrize(
    "der",
    [
        pytest.param(retagged(BIT_STRING), id="a name of bits"),
        pytest.param(retagged(INTEGER), id="a name that is a number"),
        pytest.param(retagged(UTF8_STRING, b"\xff\xfecdef"), id="a name that is not UTF-8"),
        pytest.param(retagged(UTF8_STRING, b"\xed\xa0\x80def"), id="half a surrogate pair"),
        pytest.param(
            certificate((CN, "a")).replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x05"),
            id="an unknown version",
        ),
        pytest.param(certificate((CN, "a"))[:-1], id="cut"),
        pytest.param(certificate((CN, "a")) + b"\0", id="with a tail"),
        pytest.param(b"", id="empty"),
        pytest.param(b"-----BEGIN CERTIFICATE-----", id="text"),
    ],
)
def test_what_cannot_be_read_is_nobody(der: bytes) -> None:
    with pytest.raises(Unauthorized):
        authenticate(der)


def test_a_certificate_is_read_once_while_it_is_in_use() -> None:
    authenticator = CertificateAuthenticator(lambda: DAY)
    der = certificate((CN, "alice"))

    first = authenticator.authenticate(der)

    assert authenticator.authenticate(bytes(der)) is first


def test_certificates_that_differ_are_different_callers() -> None:
    authenticator = CertificateAuthenticator(lambda: DAY)
    alice, bob = (certificate((CN, name)) for name in ("alice", "bob"))

    callers = [authenticator.authenticate(der) for der in (alice, bob, alice)]

    assert all(isinstance(caller, Caller) for caller in callers)
    assert [caller.identity.name for caller in callers] == ["alice", "bob", "alice"]


def test_a_certificate_counts_to_its_last_moment_and_not_beyond() -> None:
    """A connection may outlive the certificate it was opened with."""
    now = LAST_MOMENT
    authenticator = CertificateAuthenticator(lambda: now)
    der = certificate((CN, "alice"))
    assert authenticator.authenticate(der).identity.name == "alice"

    now = LAST_MOMENT + datetime.timedelta(seconds=1)

    with pytest.raises(Unauthorized):
        authenticator.authenticate(der)
