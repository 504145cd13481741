"""Extensions: their values, their defaults, and what makes a certificate invalid."""

import pytest

from proxy.authentication.x509.der import Budget, DerError
from proxy.authentication.x509.extensions import Extensions, RawExtension, read_extensions
from tests.support.forging import (
    ANY_USAGE,
    CLIENT_AUTH,
    SERVER_AUTH,
    boolean,
    integer,
    oid,
    seq,
    tlv,
)

SUBJECT_KEY, KEY_USAGE, ALTERNATIVE_NAMES = "2.5.29.14", "2.5.29.15", "2.5.29.17"
BASIC_CONSTRAINTS, NAME_CONSTRAINTS, DISTRIBUTION = "2.5.29.19", "2.5.29.30", "2.5.29.31"
POLICIES, MAPPINGS, AUTHORITY_KEY = "2.5.29.32", "2.5.29.33", "2.5.29.35"
POLICY_CONSTRAINTS, USAGES, INHIBIT_ANY = "2.5.29.36", "2.5.29.37", "2.5.29.54"
AUTHORITY_INFORMATION, UNKNOWN = "1.3.6.1.5.5.7.1.1", "1.2.3.4"

DNS, DIRECTORY = tlv(0x82, b"a.example"), tlv(0xA4, seq())
POLICY = oid("1.2.3")
TOO_LARGE = 1 << 63


def extensions_of(
    kind: str, value: bytes, *, critical: bool = False, items: int = 100
) -> Extensions:
    raw = {oid(kind)[2:]: RawExtension(value, is_critical=critical)}
    return read_extensions(raw, Budget(items))


def constraints(*subtrees: bytes) -> bytes:
    return seq(*(tlv(0xA0 + number, tree) for number, tree in enumerate(subtrees) if tree))


VALID = {
    SUBJECT_KEY: tlv(4, b"id"),
    KEY_USAGE: tlv(3, b"\x00\x04"),
    ALTERNATIVE_NAMES: seq(DNS),
    BASIC_CONSTRAINTS: seq(boolean()),
    NAME_CONSTRAINTS: constraints(seq(DNS)),
    DISTRIBUTION: seq(seq(tlv(0xA0, tlv(0xA0, tlv(0x86, b"http://a/"))))),
    POLICIES: seq(seq(POLICY)),
    MAPPINGS: seq(seq(POLICY, POLICY)),
    AUTHORITY_KEY: seq(tlv(0x80, b"id")),
    POLICY_CONSTRAINTS: seq(tlv(0x80, b"\x00")),
    USAGES: seq(oid(CLIENT_AUTH)),
    INHIBIT_ANY: integer(0),
    AUTHORITY_INFORMATION: seq(seq(POLICY, tlv(0x86, b"http://a/"))),
}
NEVER_CRITICAL = (SUBJECT_KEY, AUTHORITY_KEY, AUTHORITY_INFORMATION)


def test_certificate_without_extensions_has_the_defaults() -> None:
    found = read_extensions({}, Budget(0))

    assert found == Extensions()
    assert (found.may_sign, found.is_for_clients, found.is_ca) == (True, True, False)


def test_several_extensions_are_all_read() -> None:
    kinds = (BASIC_CONSTRAINTS, KEY_USAGE, USAGES, ALTERNATIVE_NAMES)
    raw = {oid(kind)[2:]: RawExtension(VALID[kind], is_critical=True) for kind in kinds}

    found = read_extensions(raw, Budget(10))

    assert (found.is_ca, found.may_sign, found.is_for_clients) == (True, True, True)
    assert found.alternative_names is not None
    assert found.alternative_names.dns == ("a.example",)
    assert found.alternative_names_value == VALID[ALTERNATIVE_NAMES]
    assert not found.has_unknown_critical


@pytest.mark.parametrize("kind", [kind for kind in VALID if kind not in NEVER_CRITICAL])
def test_known_critical_extension_is_handled(kind: str) -> None:
    assert not extensions_of(kind, VALID[kind], critical=True).has_unknown_critical


@pytest.mark.parametrize("kind", NEVER_CRITICAL)
def test_extension_that_must_not_be_critical_is_an_error_if_it_is(kind: str) -> None:
    assert extensions_of(kind, VALID[kind]) == Extensions()
    with pytest.raises(DerError):
        extensions_of(kind, VALID[kind], critical=True)


@pytest.mark.parametrize("kind", VALID)
def test_malformed_known_extension_is_an_error(kind: str) -> None:
    with pytest.raises(DerError):
        extensions_of(kind, b"\x05\x00")


def test_unknown_extension_matters_only_if_it_is_critical() -> None:
    assert extensions_of(UNKNOWN, b"not DER") == Extensions()
    assert extensions_of(UNKNOWN, b"not DER", critical=True).has_unknown_critical


def test_known_extension_after_an_unknown_critical_one_does_not_hide_it() -> None:
    raw = {
        oid(UNKNOWN)[2:]: RawExtension(b"", is_critical=True),
        oid(KEY_USAGE)[2:]: RawExtension(VALID[KEY_USAGE], is_critical=True),
    }

    assert read_extensions(raw, Budget(0)).has_unknown_critical


@pytest.mark.parametrize(
    ("bits", "may_sign"),
    [
        (b"\x02\x04", True),
        (b"\x00\xff\x80", True),
        (b"\x07\x80", False),
        (b"\x07\x00\x80", False),
        (b"\x00", True),
        (b"\x00\x00", True),
        (b"\x00\x00\x40", True),
    ],
    ids=[
        "signing alone",
        "every flag",
        "another flag",
        "only the ninth flag",
        "empty",
        "no flag",
        "a tenth flag",
    ],
)
def test_key_usage_without_certificate_signing_may_not_sign(bits: bytes, may_sign: object) -> None:
    assert extensions_of(KEY_USAGE, tlv(3, bits)).may_sign is may_sign


@pytest.mark.parametrize(
    ("value", "is_ca", "length"),
    [
        (seq(), False, None),
        (seq(boolean(b"\x00")), False, None),
        (seq(boolean()), True, None),
        (seq(boolean(), integer(0)), True, 0),
        (seq(boolean(), integer(TOO_LARGE - 1)), True, TOO_LARGE - 1),
        (seq(integer(3)), False, 3),
    ],
)
def test_basic_constraints_are_read(value: bytes, is_ca: object, length: int | None) -> None:
    found = extensions_of(BASIC_CONSTRAINTS, value)

    assert found.has_basic_constraints
    assert (found.is_ca, found.max_path_length) == (is_ca, length)


@pytest.mark.parametrize("length", [-1, TOO_LARGE])
def test_path_length_out_of_range_is_an_error(length: int) -> None:
    with pytest.raises(DerError):
        extensions_of(BASIC_CONSTRAINTS, seq(boolean(), integer(length)))


@pytest.mark.parametrize(
    ("usages", "is_for_clients"),
    [
        ((CLIENT_AUTH,), True),
        ((SERVER_AUTH, CLIENT_AUTH), True),
        ((ANY_USAGE,), True),
        ((), True),
        ((SERVER_AUTH,), False),
        ((UNKNOWN,), False),
    ],
)
def test_extended_key_usage_without_client_authentication_is_not_for_clients(
    usages: tuple[str, ...], is_for_clients: object
) -> None:
    assert extensions_of(USAGES, seq(*map(oid, usages))).is_for_clients is is_for_clients


def test_critical_alternative_names_of_other_kinds_are_not_handled() -> None:
    assert extensions_of(ALTERNATIVE_NAMES, seq(DIRECTORY), critical=True).has_unknown_critical
    assert not extensions_of(
        ALTERNATIVE_NAMES, seq(DIRECTORY, DNS), critical=True
    ).has_unknown_critical


def test_name_constraints_have_permitted_and_excluded_subtrees() -> None:
    other = tlv(0x82, b"b.example")
    value = constraints(seq(DNS), seq(other) + seq(tlv(0x81, b"c.example")))

    found = extensions_of(NAME_CONSTRAINTS, value).name_constraints

    assert found is not None
    assert (found.permitted.dns, found.excluded.dns) == (("a.example",), ("b.example",))
    assert found.excluded.emails == ("c.example",)
    assert (found.count, found.size) == (3, len(value))
    assert found.sorted is found.sorted


def test_critical_name_constraints_of_other_kinds_are_not_handled() -> None:
    for value in (constraints(seq(DIRECTORY)), constraints(b"", seq(DNS) + seq(DIRECTORY))):
        assert extensions_of(NAME_CONSTRAINTS, value, critical=True).has_unknown_critical
        assert not extensions_of(NAME_CONSTRAINTS, value).has_unknown_critical


@pytest.mark.parametrize(
    "value",
    [
        seq(),
        seq(tlv(0xA0), tlv(0xA1)),
        VALID[NAME_CONSTRAINTS] + b"\x05\x00",
        seq(tlv(0xA0, seq(DNS)), b"\x05\x00"),
        seq(tlv(0xA1, seq(DNS)), tlv(0xA0, seq(DNS))),
    ],
    ids=["empty", "empty subtrees", "data after", "data inside", "wrong order"],
)
def test_invalid_name_constraints_are_an_error(value: bytes) -> None:
    with pytest.raises(DerError):
        extensions_of(NAME_CONSTRAINTS, value)


@pytest.mark.parametrize(
    ("kind", "value", "has_rules"),
    [
        (POLICY_CONSTRAINTS, seq(), False),
        (POLICY_CONSTRAINTS, seq(tlv(0x80, b"\x00")), True),
        (POLICY_CONSTRAINTS, seq(tlv(0x81, b"\x01")), True),
        (MAPPINGS, seq(), True),
        (MAPPINGS, VALID[MAPPINGS], True),
        (POLICIES, VALID[POLICIES], False),
        (INHIBIT_ANY, VALID[INHIBIT_ANY], False),
    ],
)
def test_only_required_and_mapped_policies_are_policy_rules(
    kind: str, value: bytes, has_rules: object
) -> None:
    assert extensions_of(kind, value).has_policy_rules is has_rules


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (POLICIES, seq(seq(POLICY), seq(oid("1.2.4")), seq(POLICY))),
        (POLICIES, seq(seq(tlv(6, b"\x2a\x80\x01")))),
        (MAPPINGS, seq(seq(POLICY))),
        (POLICY_CONSTRAINTS, seq(tlv(0x81, integer(TOO_LARGE)[2:]))),
        (INHIBIT_ANY, integer(TOO_LARGE)),
    ],
    ids=["duplicate", "malformed", "half a mapping", "large constraint", "large inhibition"],
)
def test_invalid_policies_are_an_error(kind: str, value: bytes) -> None:
    with pytest.raises(DerError):
        extensions_of(kind, value)


@pytest.mark.parametrize(
    ("kind", "cost"),
    [
        (ALTERNATIVE_NAMES, 1),
        (NAME_CONSTRAINTS, 1),
        (DISTRIBUTION, 2),
        (POLICIES, 1),
        (MAPPINGS, 1),
        (USAGES, 1),
        (AUTHORITY_INFORMATION, 1),
    ],
)
def test_lists_take_their_items_from_the_budget(kind: str, cost: int) -> None:
    extensions_of(kind, VALID[kind], items=cost)

    with pytest.raises(DerError):
        extensions_of(kind, VALID[kind], items=cost - 1)
