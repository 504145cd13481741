"""Extensions of a certificate, as Go's parser processes them.

Extensions known to Go are parsed, and a malformed one makes the certificate invalid. Unknown ones
are ignored, unless they are critical: then the certificate is parsed, but never verifies.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from proxy.authentication.x509.der import (
    BOOLEAN,
    CONTEXT,
    CONTEXT_CONSTRUCTED,
    INTEGER,
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    Budget,
    DerError,
    DerReader,
    check_policy_identifier,
)
from proxy.authentication.x509.general_names import (
    GeneralNames,
    Subtrees,
    read_general_names,
    read_subtrees,
)
from proxy.authentication.x509.sorted_subtrees import SortedSubtrees

_SUBJECT_ALTERNATIVE_NAME = b"\x55\x1d\x11"
_CLIENT_AUTH, _ANY_USAGE = bytes.fromhex("2b06010505070302"), bytes.fromhex("551d2500")
_CERTIFICATE_SIGN = 5
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class RawExtension:
    """An extension that is not parsed yet."""

    value: bytes
    is_critical: bool


@dataclass(frozen=True)
class NameConstraints:
    """The names that a CA may sign: those permitted and not excluded."""

    permitted: Subtrees
    excluded: Subtrees
    size: int
    """The size of all of them in bytes."""

    @property
    def count(self) -> int:
        """Return the number of constraints."""
        return self.permitted.count + self.excluded.count

    @cached_property
    def sorted(self) -> tuple[SortedSubtrees, SortedSubtrees]:
        """Return the permitted and the excluded subtrees, sorted on first use.

        They are not sorted while parsing, because the certificate is not verified at that point.
        """
        return (
            SortedSubtrees(self.permitted, without_any=True),
            SortedSubtrees(self.excluded, without_any=False),
        )


@dataclass(frozen=True, slots=True)
class Extensions:
    """The values of the extensions, or the defaults without them."""

    has_basic_constraints: bool = False
    is_ca: bool = False
    max_path_length: int | None = None
    may_sign: bool = True
    """True without a key usage, or with one that includes certificate signing."""
    is_for_clients: bool = True
    """True without extended key usages, or with client authentication or any usage."""
    alternative_names: GeneralNames | None = None
    alternative_names_value: bytes | None = None
    name_constraints: NameConstraints | None = None
    has_policy_rules: bool = False
    """True if it requires explicit policies, or maps policies."""
    has_unknown_critical: bool = False


@dataclass(slots=True)
class _Draft:
    """The extensions parsed so far."""

    budget: Budget
    extensions: Extensions = field(default_factory=Extensions)


def read_extensions(raw: dict[bytes, RawExtension], budget: Budget) -> Extensions:
    """Return the parsed extensions; raise DerError if Go rejects the certificate."""
    draft = _Draft(budget)
    unknown = False
    for oid, extension in raw.items():
        read = _READERS.get(oid)
        is_handled = False if read is None else read(extension, draft)
        unknown = unknown or (extension.is_critical and not is_handled)
    names = raw.get(_SUBJECT_ALTERNATIVE_NAME)
    return replace(
        draft.extensions,
        has_unknown_critical=unknown,
        alternative_names_value=None if names is None else names.value,
    )


def _key_usage(extension: RawExtension, draft: _Draft) -> bool:
    bits, _ = DerReader(extension.value).read_bit_string()
    flags = bits[:2].ljust(2, b"\0")
    # There are nine flags. If none is set, the extension counts as absent.
    is_empty = not flags[0] and not flags[1] & 0x80
    may_sign = is_empty or bool(flags[0] & (0x80 >> _CERTIFICATE_SIGN))
    draft.extensions = replace(draft.extensions, may_sign=may_sign)
    return True


def _basic_constraints(extension: RawExtension, draft: _Draft) -> bool:
    contents = DerReader(extension.value).read(SEQUENCE)
    is_ca = contents.read_boolean() if contents.next_tag == BOOLEAN else False
    length = contents.read_integer() if contents.next_tag == INTEGER else None
    if length is not None and (length < 0 or length not in _INT64):
        raise DerError("invalid path length")
    draft.extensions = replace(
        draft.extensions, has_basic_constraints=True, is_ca=is_ca, max_path_length=length
    )
    return True


def _alternative_names(extension: RawExtension, draft: _Draft) -> bool:
    names = read_general_names(DerReader(extension.value), draft.budget)
    draft.extensions = replace(draft.extensions, alternative_names=names)
    return not names.is_empty


def _name_constraints(extension: RawExtension, draft: _Draft) -> bool:
    outer = DerReader(extension.value)
    contents = outer.read(SEQUENCE)
    permitted, excluded = (contents.read_optional(CONTEXT_CONSTRUCTED + tag) for tag in (0, 1))
    if not outer.is_empty or not contents.is_empty:
        raise DerError("trailing data after the name constraints")
    if (permitted is None or permitted.is_empty) and (excluded is None or excluded.is_empty):
        raise DerError("empty name constraints")
    found = NameConstraints(
        read_subtrees(permitted, draft.budget),
        read_subtrees(excluded, draft.budget),
        len(extension.value),
    )
    draft.extensions = replace(draft.extensions, name_constraints=found)
    return not (found.permitted.others or found.excluded.others)


def _distribution_points(extension: RawExtension, draft: _Draft) -> bool:
    points = DerReader(extension.value).read(SEQUENCE)
    while not points.is_empty:
        draft.budget.take()
        name = points.read(SEQUENCE).read_optional(CONTEXT_CONSTRUCTED)
        if name is None:
            continue
        uris = name.read(CONTEXT_CONSTRUCTED)
        while uris.next_tag == CONTEXT + 6:
            draft.budget.take()
            uris.read(CONTEXT + 6)
    return True


def _authority_key_identifier(extension: RawExtension, _: _Draft) -> bool:
    if extension.is_critical:
        raise DerError("critical authority key identifier")
    DerReader(extension.value).read(SEQUENCE).read_optional(CONTEXT)
    return True


def _subject_key_identifier(extension: RawExtension, _: _Draft) -> bool:
    if extension.is_critical:
        raise DerError("critical subject key identifier")
    DerReader(extension.value).read(OCTET_STRING)
    return True


def _policy_constraints(extension: RawExtension, draft: _Draft) -> bool:
    contents = DerReader(extension.value).read(SEQUENCE)
    for number in (0, 1):
        if contents.next_tag == CONTEXT + number:
            if contents.read_integer(CONTEXT + number) not in _INT64:
                raise DerError("policy constraint too large")
            draft.extensions = replace(draft.extensions, has_policy_rules=True)
    return True


def _extended_key_usage(extension: RawExtension, draft: _Draft) -> bool:
    usages = DerReader(extension.value).read(SEQUENCE)
    found: set[bytes] = set()
    while not usages.is_empty:
        draft.budget.take()
        found.add(usages.read_object_identifier())
    is_for_clients = not found or not found.isdisjoint((_CLIENT_AUTH, _ANY_USAGE))
    draft.extensions = replace(draft.extensions, is_for_clients=is_for_clients)
    return True


def _policies(extension: RawExtension, draft: _Draft) -> bool:
    policies = DerReader(extension.value).read(SEQUENCE)
    found: set[bytes] = set()
    while not policies.is_empty:
        draft.budget.take()
        policy = policies.read(SEQUENCE).read_bytes(OBJECT_IDENTIFIER)
        check_policy_identifier(policy)
        if policy in found:
            raise DerError("duplicate policy")
        found.add(policy)
    return True


def _policy_mappings(extension: RawExtension, draft: _Draft) -> bool:
    mappings = DerReader(extension.value).read(SEQUENCE)
    while not mappings.is_empty:
        draft.budget.take()
        mapping = mappings.read(SEQUENCE)
        mapping.read(OBJECT_IDENTIFIER)
        mapping.read(OBJECT_IDENTIFIER)
    draft.extensions = replace(draft.extensions, has_policy_rules=True)
    return True


def _inhibit_any_policy(extension: RawExtension, _: _Draft) -> bool:
    if DerReader(extension.value).read_integer() not in _INT64:
        raise DerError("policy constraint too large")
    return True


def _authority_information(extension: RawExtension, draft: _Draft) -> bool:
    if extension.is_critical:
        raise DerError("critical authority information access")
    items = DerReader(extension.value).read(SEQUENCE)
    while not items.is_empty:
        draft.budget.take()
        item = items.read(SEQUENCE)
        item.read_object_identifier()
        item.read_optional(CONTEXT + 6)
    return True


_READERS: dict[bytes, Callable[[RawExtension, _Draft], bool]] = {
    b"\x55\x1d\x0e": _subject_key_identifier,
    b"\x55\x1d\x0f": _key_usage,
    _SUBJECT_ALTERNATIVE_NAME: _alternative_names,
    b"\x55\x1d\x13": _basic_constraints,
    b"\x55\x1d\x1e": _name_constraints,
    b"\x55\x1d\x1f": _distribution_points,
    b"\x55\x1d\x20": _policies,
    b"\x55\x1d\x21": _policy_mappings,
    b"\x55\x1d\x23": _authority_key_identifier,
    b"\x55\x1d\x24": _policy_constraints,
    b"\x55\x1d\x25": _extended_key_usage,
    b"\x55\x1d\x36": _inhibit_any_policy,
    bytes.fromhex("2b06010505070101"): _authority_information,
}
