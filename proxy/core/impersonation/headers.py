"""The `Impersonate-*` headers of a request: the identity that the caller wants to act as.

What the API server would silently ignore or take half of is refused here: the caller meant
something by it, and a second reader might take the other half.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from proxy.core.errors import BadRequest
from proxy.core.gocompat.quote import MARKER, cut_text, go_quote, shown_quote
from proxy.core.gocompat.url import path_unescape
from proxy.core.http.headers import Header, unsafe_key_reason, unsafe_text_reason
from proxy.core.impersonation.permit import is_reserved_key
from proxy.core.userinfo import Extra, UserInfo, make_extra

_PREFIX = b"impersonate"
_PREFIX_LENGTH = len(_PREFIX)
_EXTRA_PREFIX = b"impersonate-extra-"
_LONGEST_SHOWN_NAME = 64
_MOST_SHOWN = 64
_LONGEST_REMEMBERED_LINE = 256


@dataclass(frozen=True, slots=True)
class ImpersonationLimits:
    """How much identity one request may ask for; each item may cost a review."""

    groups: int = 1000
    extra_values: int = 1000
    value_bytes: int = 64 * 1024


DEFAULT_LIMITS = ImpersonationLimits()


@dataclass(slots=True)
class _Reading:
    """What the header lines said so far."""

    limits: ImpersonationLimits
    name: str | None = None
    uid: str | None = None
    groups: list[str] = field(default_factory=list)
    extra: dict[str, list[str]] = field(default_factory=dict)
    extra_count: int = 0
    keys: dict[bytes, str] = field(default_factory=dict)
    """Keys of extras by the header names they came in, which repeat themselves."""


def parse_impersonation_headers(
    headers: Sequence[Header],
    *,
    limits: ImpersonationLimits = DEFAULT_LIMITS,
    constrained: bool = True,
) -> UserInfo | None:
    """Return the identity the headers name as sent, with nothing implied; None without one.

    `constrained` only chooses which server's words a refusal uses.
    """
    # `Impersonate_User` and its kin share the prefix, so they are seen here and refused.
    lines = [line for line in headers if line[0][:_PREFIX_LENGTH].lower() == _PREFIX]
    if not lines:
        return None
    # Who impersonates mostly wants the same user again; what is remembered is short.
    if len(lines) == 1 and len(lines[0][0]) + len(lines[0][1]) <= _LONGEST_REMEMBERED_LINE:
        return _remembered_reading(tuple(lines), limits, constrained=constrained)
    return _read_lines(lines, limits, constrained=constrained)


def _read_lines(
    lines: Sequence[Header], limits: ImpersonationLimits, *, constrained: bool
) -> UserInfo | None:
    reading = _Reading(limits)
    for name, value in lines:
        _read_line(reading, name.lower(), value)
        _check_counts(reading)  # each time, so that no more is read than may be asked for
    if not reading.name:
        if not (reading.uid or reading.groups or reading.extra):
            return None
        raise BadRequest(_without_user(reading) if constrained else _without_user_former(reading))
    return UserInfo(
        reading.name, reading.uid or "", tuple(reading.groups), make_extra(reading.extra)
    )


_remembered_reading = lru_cache(maxsize=4096)(_read_lines)


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
    fault = unsafe_text_reason(value)
    if fault is not None:
        raise BadRequest(f"{_shown(name)} header: the value {fault}")
    return value


def _extra_key(name: bytes, limits: ImpersonationLimits) -> str:
    encoded = name[len(_EXTRA_PREFIX) :]
    if len(encoded) > limits.value_bytes:
        raise BadRequest(f"extra key: more than {limits.value_bytes} bytes")
    # The name is lower-cased before it is decoded, so %4d is an upper-case letter and M is not.
    key = path_unescape(encoded)
    if key is None:
        key = encoded.decode("utf-8", "surrogateescape")
    fault = unsafe_key_reason(key)
    if fault is not None:
        raise BadRequest(f"extra key: it {fault}")
    if is_reserved_key(key):
        raise BadRequest("extra key: it is reserved for the proxy's own word about the caller")
    return key


def _shown(name: bytes) -> str:
    return name[:_LONGEST_SHOWN_NAME].decode("latin-1")


def _without_user(reading: _Reading) -> str:
    groups = _strings(reading.groups) if reading.groups else "[]string(nil)"
    extra = "map[string][]string(nil)"
    if reading.extra:
        entries = (
            f"{shown_quote(key)}:{_strings(values)}" for key, values in _shown_extra(reading)
        )
        extra = f"map[string][]string{{{', '.join(entries)}}}"
    return (
        f'requested &user.DefaultInfo{{Name:"", UID:{shown_quote(reading.uid or "")}, '
        f"Groups:{groups}, Extra:{extra}}} without impersonating a user name"
    )


def _strings(values: Sequence[str]) -> str:
    mark = f", {MARKER}" if len(values) > _MOST_SHOWN else ""
    return f"[]string{{{', '.join(map(shown_quote, values[:_MOST_SHOWN]))}{mark}}}"


def _shown_extra(reading: _Reading) -> Extra:
    return make_extra(reading.extra)[:_MOST_SHOWN]


def _without_user_former(reading: _Reading) -> str:
    """Word it as the filter did that knew no modes: object references, in its order."""
    version = "authentication.k8s.io/v1"
    references = [f"{{Group  {cut_text(group)}    }}" for group in reading.groups[:_MOST_SHOWN]]
    for key, values in _shown_extra(reading):
        end = f"{version}  {cut_text(key)}}}"
        references += [f"{{UserExtra  {cut_text(one)}  {end}" for one in values[:_MOST_SHOWN]]
    if reading.uid:
        references.append(f"{{UID  {cut_text(reading.uid)}  {version}  }}")
    return f"requested [{' '.join(references)}] without impersonating a user"
