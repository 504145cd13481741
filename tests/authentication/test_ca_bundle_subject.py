"""Whom a verified certificate stands for, read as the API server reads it."""

import hashlib

import pytest
from cryptography import x509

from proxy.authentication.ca_bundle import caller_from_certificate
from proxy.authentication.x509.certificate import CertificateParseError, read_certificate
from proxy.core.errors import Forbidden, Unauthorized
from proxy.core.userinfo import UserInfo
from tests.support.chains import CN, ORG, UID, Attribute, Issuer, name_attribute

ROOT = Issuer()


def certificate(*attributes: Attribute) -> bytes:
    return ROOT.issue(*attributes).chain[0]


def identity_of(der: bytes) -> UserInfo:
    caller = caller_from_certificate(read_certificate(der))
    assert caller is not None
    return caller.user


def test_the_common_name_is_the_user_and_each_organization_a_group() -> None:
    der = certificate((CN, "alice"), (ORG, "b"), (ORG, "a"), (ORG, "b"))

    assert identity_of(der) == UserInfo(
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
def test_a_group_beside_masters_is_refused_or_another_one(place: str) -> None:
    """A blank or a control character would be lost in a header: what is left is another group."""
    refused = set()
    for beside in map(chr, range(256)):
        der = certificate((CN, "eve"), (ORG, place.format(beside)))
        try:
            user = identity_of(der)
        except Forbidden:
            refused.add(beside)
        else:
            assert user.groups[0] == place.format(beside)

    assert refused == {*map(chr, range(33)), "\x7f"}


def test_authenticated_is_not_added_twice() -> None:
    der = certificate((CN, "alice"), (ORG, "system:authenticated"), (ORG, "a"))

    assert identity_of(der).groups == ("system:authenticated", "a")


def test_who_is_called_anonymous_cannot_be_forwarded() -> None:
    """Natively it is in no group at all; upstream would add one to whoever we impersonate so."""
    with pytest.raises(Forbidden, match="system:unauthenticated"):
        caller_from_certificate(read_certificate(certificate((CN, "system:anonymous"))))
    both = certificate((CN, "system:anonymous"), (ORG, "system:unauthenticated"))
    assert identity_of(both).groups == ("system:unauthenticated",)


def test_of_several_common_names_the_last_one_counts() -> None:
    assert identity_of(certificate((CN, "first"), (ORG, "a"), (CN, "last"))).name == "last"


def test_within_one_rdn_the_last_in_der_order_counts() -> None:
    both = x509.RelativeDistinguishedName([name_attribute(CN, "zoe"), name_attribute(CN, "ada")])

    assert identity_of(ROOT.issue(subject=x509.Name([both])).chain[0]).name == "zoe"


def test_an_attribute_is_the_uid() -> None:
    assert identity_of(certificate((CN, "alice"), (UID, "u-1"))).uid == "u-1"


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param([], id="an empty subject"),
        pytest.param([(ORG, "a")], id="no common name"),
        pytest.param([(CN, "")], id="an empty common name"),
        pytest.param([(CN, "alice"), (CN, "")], id="an empty last one"),
        pytest.param([(UID, "1"), (UID, "1")], id="two uids and no name"),
    ],
)
def test_a_subject_without_a_name_is_nobody(attributes: list[Attribute]) -> None:
    """Which is no failure: natively nobody may still be anonymous."""
    assert caller_from_certificate(read_certificate(certificate(*attributes))) is None


@pytest.mark.parametrize("uids", [["1", "1"], [""]], ids=["two", "empty"])
def test_a_uid_that_is_not_one_text_spoils_the_certificate(uids: list[str]) -> None:
    read = read_certificate(certificate((CN, "alice"), *((UID, uid) for uid in uids)))

    with pytest.raises(Unauthorized):
        caller_from_certificate(read)


@pytest.mark.parametrize("name", ["a b", "é", "system:node:n1", "x" * 300])
def test_odd_names_are_read_as_they_are(name: str) -> None:
    assert identity_of(certificate((CN, name))).name == name


@pytest.mark.parametrize("name", [" a", "a ", "a\nb", "a\0b"])
def test_names_that_would_change_on_their_way_are_refused(name: str) -> None:
    with pytest.raises(Forbidden):
        caller_from_certificate(read_certificate(certificate((CN, name))))


UTF8_STRING, BIT_STRING, INTEGER, BMP_STRING = 12, 3, 2, 30


def retagged(tag: int, value: bytes = b"abcdef") -> bytes:
    """Return a certificate whose common name is of another ASN.1 type."""
    der = certificate((CN, "abcdef"))
    plain = bytes([UTF8_STRING, 6]) + b"abcdef"
    assert der.count(plain) == 1
    return der.replace(plain, bytes([tag, 6]) + value)


def test_a_name_in_sixteen_bits_is_read() -> None:
    assert identity_of(retagged(BMP_STRING, "abc".encode("utf-16-be"))).name == "abc"


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
def test_what_cannot_be_read_proves_nothing(der: bytes) -> None:
    with pytest.raises(CertificateParseError):
        read_certificate(der)
