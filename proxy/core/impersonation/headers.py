"""The `Impersonate-*` headers of a request, parsed into the wanted user.

Headers that kube-apiserver would ignore silently or apply in part are rejected here. The caller
meant something by them, and another parser might apply the other part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.core.errors import BadRequest
from proxy.core.gocompat.quote import TRUNCATION_MARKER, go_quote, quote_truncated, truncate_text
from proxy.core.gocompat.url import path_unescape
from proxy.core.http.headers import (
    DerivedValue,
    Header,
    HeaderList,
    unsafe_key_reason,
    unsafe_text_reason,
)
from proxy.core.impersonation.permit import is_reserved_key
from proxy.core.userinfo import Extra, UserInfo, make_extra

_PREFIX = b"impersonate"
_PREFIX_LENGTH = len(_PREFIX)
_EXTRA_PREFIX = b"impersonate-extra-"
_MAX_SHOWN_NAME_LENGTH = 64
_MAX_SHOWN_ITEMS = 64


@dataclass(frozen=True, slots=True)
class ImpersonationLimits:
    """Limits on the wanted user of one request; each item may cost a review."""

    groups: int = 1000
    extra_values: int = 1000
    value_bytes: int = 64 * 1024


DEFAULT_LIMITS = ImpersonationLimits()


@dataclass(slots=True)
class _Reading:
    """The wanted user as parsed so far."""

    limits: ImpersonationLimits
    name: str | None = None
    uid: str | None = None
    groups: list[str] = field(default_factory=list)
    extra: dict[str, list[str]] = field(default_factory=dict)
    extra_count: int = 0
    keys: dict[bytes, str] = field(default_factory=dict)
    """Decoded extra keys by header name, because header names repeat."""


class ImpersonationHeaderParser:
    """Parses the wanted users of requests; once for header lines that a connection repeats."""

    def __init__(self, limits: ImpersonationLimits = DEFAULT_LIMITS, *, constrained: bool) -> None:
        self._limits = limits
        self._constrained = constrained

    def parse(self, headers: HeaderList) -> UserInfo | None:
        """Return the wanted user as sent, None if there is none; raise BadRequest if invalid."""
        known = headers.wanted_user
        if known is None or known.rules is not self:
            wanted_user = parse_impersonation_headers(
                headers, limits=self._limits, constrained=self._constrained
            )
            known = headers.wanted_user = DerivedValue(self, wanted_user)
        return known.value


def parse_impersonation_headers(
    headers: Sequence[Header],
    *,
    limits: ImpersonationLimits = DEFAULT_LIMITS,
    constrained: bool = True,
) -> UserInfo | None:
    """Parse the wanted user as sent, without implied groups; None if there is none.

    `constrained` only selects the kube-apiserver version whose error text is used.
    """
    # `Impersonate_User` and similar names share the prefix, so they are found here and rejected.
    lines = [line for line in headers if line[0][:_PREFIX_LENGTH].lower() == _PREFIX]
    if not lines:
        return None
    reading = _Reading(limits)
    for name, value in lines:
        _read_line(reading, name.lower(), value)
        _check_counts(reading)  # after each line, so that no more than the limit is parsed
    if not reading.name:
        if not (reading.uid or reading.groups or reading.extra):
            return None
        raise BadRequest(_without_user(reading) if constrained else _without_user_former(reading))
    return UserInfo(
        reading.name, reading.uid or "", tuple(reading.groups), make_extra(reading.extra)
    )


def _read_line(reading: _Reading, name: bytes, raw: bytes) -> None:
    if name == b"impersonate-user":
        if reading.name is not None:
            raise BadRequest("more than one Impersonate-User header")
        reading.name = _text(name, raw, reading.limits)
    elif name == b"impersonate-uid":
        if reading.uid is not None:
            raise BadRequest("more than one Impersonate-Uid header")
        reading.uid = _text(name, raw, reading.limits)
    elif name == b"impersonate-group":
        reading.groups.append(_text(name, raw, reading.limits))
    elif name.startswith(_EXTRA_PREFIX):
        key = reading.keys.get(name)
        if key is None:
            key = reading.keys[name] = _extra_key(name, reading.limits)
        reading.extra.setdefault(key, []).append(_text(name, raw, reading.limits))
        reading.extra_count += 1
    else:
        raise BadRequest(f"unknown impersonation header {go_quote(_shown(name))}")


def _check_counts(reading: _Reading) -> None:
    limits = reading.limits
    if len(reading.groups) > limits.groups:
        raise BadRequest(f"more than {limits.groups} Impersonate-Group headers")
    if reading.extra_count > limits.extra_values:
        raise BadRequest(f"more than {limits.extra_values} Impersonate-Extra- headers")


def _text(name: bytes, raw: bytes, limits: ImpersonationLimits) -> str:
    if len(raw) > limits.value_bytes:
        raise BadRequest(f"{_shown(name)} header: more than {limits.value_bytes} bytes")
    value = raw.decode("utf-8", "surrogateescape")
    error = unsafe_text_reason(value)
    if error is not None:
        raise BadRequest(f"{_shown(name)} header: the value {error}")
    return value


def _extra_key(name: bytes, limits: ImpersonationLimits) -> str:
    encoded = name[len(_EXTRA_PREFIX) :]
    if len(encoded) > limits.value_bytes:
        raise BadRequest(f"extra key: more than {limits.value_bytes} bytes")
    # The name is lower-cased before it is decoded, so %4d is an upper-case letter and M is not.
    key = path_unescape(encoded)
    if key is None:
        key = encoded.decode("utf-8", "surrogateescape")
    error = unsafe_key_reason(key)
    if error is not None:
        raise BadRequest(f"extra key: it {error}")
    if is_reserved_key(key):
        raise BadRequest("extra key: it is reserved for the proxy, which names the caller in it")
    return key


def _shown(name: bytes) -> str:
    return name[:_MAX_SHOWN_NAME_LENGTH].decode("latin-1")


def _without_user(reading: _Reading) -> str:
    groups = _strings(reading.groups) if reading.groups else "[]string(nil)"
    extra = "map[string][]string(nil)"
    if reading.extra:
        entries = (
            f"{quote_truncated(key)}:{_strings(values)}" for key, values in _shown_extra(reading)
        )
        extra = f"map[string][]string{{{', '.join(entries)}}}"
    return (
        f'requested &user.DefaultInfo{{Name:"", UID:{quote_truncated(reading.uid or "")}, '
        f"Groups:{groups}, Extra:{extra}}} without impersonating a user name"
    )


def _strings(values: Sequence[str]) -> str:
    mark = f", {TRUNCATION_MARKER}" if len(values) > _MAX_SHOWN_ITEMS else ""
    return f"[]string{{{', '.join(map(quote_truncated, values[:_MAX_SHOWN_ITEMS]))}{mark}}}"


def _shown_extra(reading: _Reading) -> Extra:
    return make_extra(reading.extra)[:_MAX_SHOWN_ITEMS]


def _without_user_former(reading: _Reading) -> str:
    """Return the text of the pre-1.35 impersonation filter: object references, in its order."""
    version = "authentication.k8s.io/v1"
    references = [
        f"{{Group  {truncate_text(group)}    }}" for group in reading.groups[:_MAX_SHOWN_ITEMS]
    ]
    for key, values in _shown_extra(reading):
        end = f"{version}  {truncate_text(key)}}}"
        references += [
            f"{{UserExtra  {truncate_text(value)}  {end}" for value in values[:_MAX_SHOWN_ITEMS]
        ]
    if reading.uid:
        references.append(f"{{UID  {truncate_text(reading.uid)}  {version}  }}")
    return f"requested [{' '.join(references)}] without impersonating a user"
