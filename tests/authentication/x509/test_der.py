"""The DER reader: accepted and rejected encodings of each element type."""

from collections.abc import Callable

import pytest

from proxy.authentication.x509.der import (
    BIT_STRING,
    BOOLEAN,
    INTEGER,
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    SET,
    Budget,
    DerError,
    DerReader,
    check_object_identifier,
    check_policy_identifier,
    parse_integer,
)
from tests.support.forging import tlv


def test_elements_are_read_in_their_order_up_to_the_end() -> None:
    reader = DerReader(tlv(INTEGER, b"\x05") + tlv(OCTET_STRING, b"ab") + tlv(SET))

    assert (reader.next_tag, reader.is_empty) == (INTEGER, False)
    assert reader.read_integer() == 5
    assert reader.rest == tlv(OCTET_STRING, b"ab") + tlv(SET)
    assert reader.read_value() == (OCTET_STRING, b"ab")
    tag, contents = reader.read_any()
    assert (tag, contents.is_empty) == (SET, True)
    assert (reader.next_tag, reader.is_empty, reader.rest) == (-1, True, b"")


def test_element_is_returned_with_its_header() -> None:
    first, second = tlv(SEQUENCE, tlv(INTEGER, b"\x01")), tlv(SET)
    reader = DerReader(first + second)

    assert reader.read_element(SEQUENCE) == first
    assert reader.read_any_element() == second


def test_optional_element_is_read_only_if_its_tag_is_next() -> None:
    reader = DerReader(tlv(OCTET_STRING, b"a"))

    assert reader.read_optional(SET) is None
    assert reader.rest == tlv(OCTET_STRING, b"a")
    found = reader.read_optional(OCTET_STRING)
    assert found is not None
    assert found.rest == b"a"
    assert reader.read_optional(OCTET_STRING) is None


READS: dict[str, Callable[[DerReader], object]] = {
    "contents": lambda reader: reader.read(SEQUENCE),
    "bytes": lambda reader: reader.read_bytes(SEQUENCE),
    "element": lambda reader: reader.read_element(SEQUENCE),
    "BOOLEAN": DerReader.read_boolean,
    "INTEGER": DerReader.read_integer,
    "object identifier": DerReader.read_object_identifier,
    "BIT STRING": DerReader.read_bit_string,
}


@pytest.mark.parametrize("read", READS)
def test_element_of_another_type_is_an_error(read: str) -> None:
    with pytest.raises(DerError, match="unexpected element type"):
        READS[read](DerReader(tlv(OCTET_STRING, b"\x00")))


def test_contents_of_an_element_end_before_the_next_element() -> None:
    # The inner length reaches into the bytes after the outer element.
    reader = DerReader(bytes([SEQUENCE, 2, OCTET_STRING, 1]) + b"after")

    contents = reader.read(SEQUENCE)

    with pytest.raises(DerError):
        contents.read_value()


@pytest.mark.parametrize("size", [0, 1, 127, 128, 255, 256, 65535, 65536])
def test_length_in_the_shortest_form_is_read(size: int) -> None:
    data = bytes(size)

    assert DerReader(tlv(OCTET_STRING, data)).read_bytes(OCTET_STRING) == data


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\x04",
        b"\x04\x01",
        b"\x04\x81",
        b"\x04\x82\x01",
        b"\x04\x81\x81" + bytes(128),
        b"\x04\x80\x00\x00",
        b"\x04\x81\x7f" + bytes(127),
        b"\x04\x81\x00",
        b"\x04\x82\x00\x80" + bytes(128),
        b"\x04\x85\x01\x00\x00\x00\x00",
        b"\x1f\x04\x00",
        b"\xbf\x1f\x00",
    ],
    ids=[
        "nothing",
        "no length",
        "no contents",
        "no long length",
        "half a long length",
        "contents one byte short",
        "indefinite length",
        "long form of a short length",
        "long form of zero",
        "leading zero in the length",
        "five length bytes",
        "tag of two bytes",
        "context-specific tag of two bytes",
    ],
)
def test_header_that_is_not_der_is_an_error(header: bytes) -> None:
    with pytest.raises(DerError):
        DerReader(header).read_any()


@pytest.mark.parametrize(("contents", "value"), [(b"\xff", True), (b"\x00", False)])
def test_boolean_has_two_encodings(contents: bytes, value: object) -> None:
    assert DerReader(tlv(BOOLEAN, contents)).read_boolean() is value


@pytest.mark.parametrize("contents", [b"", b"\x01", b"\xfe", b"\xff\xff", b"\x00\x00"])
def test_boolean_in_another_encoding_is_an_error(contents: bytes) -> None:
    with pytest.raises(DerError):
        DerReader(tlv(BOOLEAN, contents)).read_boolean()


@pytest.mark.parametrize(
    ("contents", "value"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x00\x80", 128),
        (b"\xff", -1),
        (b"\x80", -128),
        (b"\xff\x7f", -129),
        (b"\x01" + bytes(20), 1 << 160),
    ],
)
def test_integer_in_the_fewest_bytes_is_parsed(contents: bytes, value: int) -> None:
    assert parse_integer(contents) == value


@pytest.mark.parametrize("contents", [b"", b"\x00\x7f", b"\x00\x00", b"\xff\x80", b"\xff\xff"])
def test_integer_in_more_bytes_than_needed_is_an_error(contents: bytes) -> None:
    with pytest.raises(DerError):
        parse_integer(contents)


@pytest.mark.parametrize(
    "contents",
    [b"\x2a", b"\x55\x04\x03", b"\x2a\x86\x48", b"\x2a\x87\xff\xff\xff\x7f"],
    ids=["one component", "short components", "two-byte component", "31 bits"],
)
def test_object_identifier_with_components_up_to_31_bits_is_accepted(contents: bytes) -> None:
    assert DerReader(tlv(OBJECT_IDENTIFIER, contents)).read_object_identifier() == contents


@pytest.mark.parametrize(
    "contents",
    [b"", b"\x2a\x86", b"\x2a\x80\x01", b"\x2a\x88\x80\x80\x80\x00"],
    ids=["empty", "unfinished component", "padded component", "32 bits"],
)
def test_object_identifier_that_go_does_not_parse_is_an_error(contents: bytes) -> None:
    with pytest.raises(DerError):
        check_object_identifier(contents)


def test_policy_identifier_may_have_components_of_any_size() -> None:
    large = b"\x2a" + b"\xff" * 20 + b"\x7f"

    check_policy_identifier(large)
    with pytest.raises(DerError):
        check_object_identifier(large)


@pytest.mark.parametrize("contents", [b"", b"\x2a\x86", b"\x2a\x80\x01"])
def test_malformed_policy_identifier_is_an_error(contents: bytes) -> None:
    with pytest.raises(DerError):
        check_policy_identifier(contents)


@pytest.mark.parametrize(
    ("contents", "bits", "padding", "aligned"),
    [
        (b"\x00", b"", 0, b""),
        (b"\x00\xab\xcd", b"\xab\xcd", 0, b"\xab\xcd"),
        (b"\x04\xab\xc0", b"\xab\xc0", 4, b"\x0a\xbc"),
        (b"\x07\x80", b"\x80", 7, b"\x01"),
    ],
)
def test_bit_string_is_read_with_its_padding_and_shifted_without_it(
    contents: bytes, bits: bytes, padding: int, aligned: bytes
) -> None:
    element = tlv(BIT_STRING, contents)

    assert DerReader(element).read_bit_string() == (bits, padding)
    assert DerReader(element).read_aligned_bits() == (aligned, padding == 0)


@pytest.mark.parametrize(
    "contents",
    [b"", b"\x01", b"\x08\x00", b"\x01\x01", b"\x07\xc0"],
    ids=["empty", "padding of nothing", "whole byte", "padding bit set", "upper padding bit set"],
)
def test_bit_string_with_invalid_padding_is_an_error(contents: bytes) -> None:
    with pytest.raises(DerError):
        DerReader(tlv(BIT_STRING, contents)).read_bit_string()


def test_budget_is_an_error_once_more_items_are_taken_than_it_has() -> None:
    budget = Budget(2)
    budget.take()
    budget.take()

    for _ in range(2):
        with pytest.raises(DerError):
            budget.take()
