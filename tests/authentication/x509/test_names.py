"""Distinguished names: the string types that Go parses, and the limit on attributes."""

import pytest

from proxy.authentication.x509.der import (
    BMP_STRING,
    IA5_STRING,
    NUMERIC_STRING,
    OCTET_STRING,
    PRINTABLE_STRING,
    T61_STRING,
    UTF8_STRING,
    Budget,
    DerError,
)
from proxy.authentication.x509.names import COMMON_NAME, ORGANIZATION, decode_text, read_name
from tests.support.forging import CN, ORG, name, oid, seq, tlv, utf8

UNIVERSAL_STRING = 0x1C


@pytest.mark.parametrize(
    ("tag", "value", "text"),
    [
        (UTF8_STRING, "zoë".encode(), "zoë"),
        (UTF8_STRING, b"", ""),
        (UTF8_STRING, b"a\x00b", "a\x00b"),
        (PRINTABLE_STRING, b"Az09 '()+,-./:=?", "Az09 '()+,-./:=?"),
        (PRINTABLE_STRING, b"*.a&b", "*.a&b"),
        (IA5_STRING, b"a@b_c", "a@b_c"),
        (NUMERIC_STRING, b"01 9", "01 9"),
        (T61_STRING, b"zo\xeb", "zoë"),
        (BMP_STRING, b"\x00a\x20\xac", "a€"),
        (BMP_STRING, b"\x00a\x00\x00", "a"),
        (BMP_STRING, b"\xff\xfd", "\ufffd"),
    ],
)
def test_text_of_a_string_type_that_go_parses_is_decoded(tag: int, value: bytes, text: str) -> None:
    assert decode_text(tag, value) == text


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        (UTF8_STRING, b"zo\xeb"),
        (UTF8_STRING, b"\xed\xa0\x80"),
        (PRINTABLE_STRING, b"a@b"),
        (PRINTABLE_STRING, b"a_b"),
        (PRINTABLE_STRING, b"a\x00"),
        (IA5_STRING, b"\x80"),
        (NUMERIC_STRING, b"1a"),
        (BMP_STRING, b"\x00a\x00"),
        (BMP_STRING, b"\xd8\x00\x00a"),
        (BMP_STRING, b"\xfd\xd0"),
        (BMP_STRING, b"\xfd\xef"),
        (BMP_STRING, b"\xff\xfe"),
        (BMP_STRING, b"\xff\xff"),
        (UNIVERSAL_STRING, b"\x00\x00\x00a"),
        (OCTET_STRING, b"a"),
    ],
)
def test_text_that_go_does_not_parse_is_an_error(tag: int, value: bytes) -> None:
    with pytest.raises(DerError):
        decode_text(tag, value)


def test_attributes_keep_their_order_and_repetitions() -> None:
    found = read_name(
        name((ORG, utf8("b")), (CN, utf8("alice")), (ORG, utf8("a")), (ORG, utf8("b"))), Budget(4)
    )

    assert found == (
        (ORGANIZATION, "b"),
        (COMMON_NAME, "alice"),
        (ORGANIZATION, "a"),
        (ORGANIZATION, "b"),
    )


def test_attributes_of_one_set_are_all_read() -> None:
    both = seq(tlv(0x31, seq(oid(CN), utf8("alice")), seq(oid(ORG), utf8("a"))))

    assert read_name(both, Budget(2)) == ((COMMON_NAME, "alice"), (ORGANIZATION, "a"))


def test_empty_name_has_no_attributes() -> None:
    assert read_name(seq(), Budget(0)) == ()


@pytest.mark.parametrize(
    "element",
    [
        tlv(0x31),
        seq(seq(oid(CN), utf8("alice"))),
        seq(tlv(0x31, tlv(0x31, oid(CN), utf8("alice")))),
        seq(tlv(0x31, seq(utf8("alice")))),
        seq(tlv(0x31, seq(oid(CN)))),
        seq(tlv(0x31, seq(tlv(6, b"\x55\x80\x01"), utf8("alice")))),
        name((CN, tlv(UNIVERSAL_STRING, b"\x00\x00\x00a"))),
    ],
    ids=[
        "not a sequence",
        "attribute outside a set",
        "attribute that is a set",
        "no object identifier",
        "no value",
        "malformed object identifier",
        "unknown string type",
    ],
)
def test_malformed_name_is_an_error(element: bytes) -> None:
    with pytest.raises(DerError):
        read_name(element, Budget(100))


@pytest.mark.parametrize(
    "element",
    [
        name((CN, utf8("a")), (CN, utf8("b")), (CN, utf8("c"))),
        seq(tlv(0x31, *(seq(oid(CN), utf8(text)) for text in "abc"))),
        seq(tlv(0x31), tlv(0x31), tlv(0x31)),
    ],
    ids=["sets", "one set", "empty sets"],
)
def test_name_takes_its_items_from_the_budget(element: bytes) -> None:
    read_name(element, Budget(3))

    with pytest.raises(DerError):
        read_name(element, Budget(2))
