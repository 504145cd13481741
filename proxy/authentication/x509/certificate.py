"""A certificate, parsed by the rules of Go's crypto/x509.

A certificate that Go does not parse raises CertificateParseError, because Go aborts the handshake
of a client that presents one. Nothing is verified in this module.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from proxy.authentication.x509.der import (
    BOOLEAN,
    CONTEXT,
    CONTEXT_CONSTRUCTED,
    GENERALIZED_TIME,
    OCTET_STRING,
    SEQUENCE,
    UTC_TIME,
    Budget,
    DerError,
    DerReader,
)
from proxy.authentication.x509.extensions import Extensions, RawExtension, read_extensions
from proxy.authentication.x509.keys import (
    UNKNOWN_ALGORITHM,
    PublicKey,
    SignatureAlgorithm,
    read_algorithm,
    read_public_key,
    read_signature_algorithm,
)
from proxy.authentication.x509.names import Attribute, read_name

_VERSION_3 = 3
_CENTURY_PIVOT = 50
_UNBOUNDED_ITEMS = 1 << 30
_MONTH_TO_MINUTE = r"(?P<month>[0-9]{2})(?P<day>[0-9]{2})(?P<hour>[0-9]{2})(?P<minute>[0-9]{2})"
_SECOND = r"(?P<second>[0-9]{2})"
_ZONE = r"(?P<offset>Z|[+-](?:[01][0-9]|2[0-4])[0-5][0-9])"
_TIME_FORMS = {
    UTC_TIME: re.compile(rf"(?P<year>[0-9]{{2}}){_MONTH_TO_MINUTE}{_SECOND}?{_ZONE}"),
    GENERALIZED_TIME: re.compile(rf"(?P<year>[0-9]{{4}}){_MONTH_TO_MINUTE}{_SECOND}{_ZONE}"),
}
_NO_FORM = re.compile("(?!)")
_MIN_TIME, _MAX_TIME = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class CertificateParseError(ValueError):
    """Raised for a certificate that Go does not parse."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of a certificate that its verification needs."""

    der: bytes
    version: int
    issuer: bytes
    """The whole element: names are compared byte by byte."""
    subject: bytes
    attributes: tuple[Attribute, ...]
    """Of the subject, in their order."""
    not_before: datetime
    not_after: datetime
    key: PublicKey
    key_info: bytes
    signed: bytes
    """The signed part (TBSCertificate), as a whole element."""
    signature: bytes
    signature_algorithm: SignatureAlgorithm
    extensions: Extensions

    def values(self, attribute: bytes) -> list[str]:
        """Return the values that the subject has under an object identifier."""
        return [value for kind, value in self.attributes if kind == attribute]


def read_certificate(der: bytes, budget: Budget | None = None) -> Certificate:
    """Parse a certificate or raise CertificateParseError.

    The budget covers the items of all certificates that are read with it.
    """
    try:
        return _read(der, budget or Budget(_UNBOUNDED_ITEMS))
    except DerError as error:
        raise CertificateParseError(str(error)) from error


def _read(der: bytes, budget: Budget) -> Certificate:
    whole = DerReader(der)
    parts = whole.read(SEQUENCE)
    if not whole.is_empty:
        raise DerError("trailing data after the certificate")
    to_be_signed = parts.read_element(SEQUENCE)
    signed = DerReader(to_be_signed).read(SEQUENCE)
    version = _version(signed.read_optional(CONTEXT_CONSTRUCTED))
    if signed.read_integer() < 0:
        raise DerError("negative serial number")
    algorithm = signed.read_bytes(SEQUENCE)
    if parts.read_bytes(SEQUENCE) != algorithm:
        raise DerError("different signature algorithms")
    signature_algorithm = read_signature_algorithm(*read_algorithm(DerReader(algorithm)))
    issuer = signed.read_element(SEQUENCE)
    read_name(issuer, budget)
    validity = signed.read(SEQUENCE)
    not_before, not_after = _read_time(validity), _read_time(validity)
    subject = signed.read_element(SEQUENCE)
    key_info = signed.read_element(SEQUENCE)
    signature, is_whole = parts.read_aligned_bits()
    if not is_whole:
        # Stricter than Go. It affects only certificates that need a verified signature: anchors are
        # trusted without one.
        signature_algorithm = UNKNOWN_ALGORITHM
    return Certificate(
        der=der,
        version=version,
        issuer=issuer,
        subject=subject,
        attributes=read_name(subject, budget),
        not_before=not_before,
        not_after=not_after,
        key=read_public_key(key_info),
        key_info=key_info,
        signed=to_be_signed,
        signature=signature,
        signature_algorithm=signature_algorithm,
        extensions=_extensions(signed, version, budget),
    )


def _version(explicit: DerReader | None) -> int:
    """Return the version counted from 1; DER encodes version 1 as 0 or omits it."""
    if explicit is None:
        return 1
    number = explicit.read_integer()
    if not 0 <= number < _VERSION_3 or not explicit.is_empty:
        raise DerError("unknown version")
    return number + 1


def _read_time(validity: DerReader) -> datetime:
    """Return a time in one of the forms that Go parses.

    RFC 5280 has one form for each type. OpenSSL rejects the others, so no verified path has them.
    """
    tag, value = validity.read_value()
    parts = _TIME_FORMS.get(tag, _NO_FORM).fullmatch(value.decode("latin-1"))
    if parts is None:
        raise DerError("invalid time")
    year = int(parts["year"])
    if tag == UTC_TIME:
        year += 2000 if year < _CENTURY_PIVOT else 1900
    month, day, hour, minute, second = (
        int(parts[part] or 0) for part in ("month", "day", "hour", "minute", "second")
    )
    try:
        # Python has no year 0. Year 4 stands in for it: a leap year too, and equally in the past.
        time = datetime(year or 4, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise DerError("invalid time") from error
    try:
        return (time if year else _MIN_TIME) - _offset(parts["offset"])
    except OverflowError:
        return _MIN_TIME if year <= 1 else _MAX_TIME


def _offset(text: str) -> timedelta:
    """Return the offset of a zone from UTC; a zero offset must be written as Z, as in Go."""
    if text == "Z":
        return timedelta()
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[3:]))
    if not offset:
        raise DerError("invalid time")
    return offset if text[0] == "+" else -offset


def _extensions(signed: DerReader, version: int, budget: Budget) -> Extensions:
    """Return the extensions, which only version 3 certificates have."""
    if version > 1:
        signed.read_optional(CONTEXT + 1)
        signed.read_optional(CONTEXT + 2)
    found = signed.read_optional(CONTEXT_CONSTRUCTED + 3) if version == _VERSION_3 else None
    if found is None:
        return Extensions()
    items = found.read(SEQUENCE)
    extensions: dict[bytes, RawExtension] = {}
    while not items.is_empty:
        # Parsing an extension costs as much as two names. Certificates have about ten.
        budget.take()
        budget.take()
        item = items.read(SEQUENCE)
        oid = item.read_object_identifier()
        is_critical = item.read_boolean() if item.next_tag == BOOLEAN else False
        if oid in extensions:
            raise DerError("duplicate extension")
        extensions[oid] = RawExtension(item.read_bytes(OCTET_STRING), is_critical=is_critical)
    return read_extensions(extensions, budget)
