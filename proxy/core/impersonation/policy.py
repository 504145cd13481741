"""Configured policies: forwarding of extras, validation of extra keys, legacy impersonation."""

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from proxy.core.errors import Forbidden
from proxy.core.gocompat.quote import quote_truncated
from proxy.core.userinfo import MAX_SUBDOMAIN_LENGTH, SUBDOMAIN, Extra, UserInfo, service_account


@dataclass(frozen=True, slots=True)
class ExtraPolicy:
    """Extra keys that are dropped, and keys whose users are rejected. Others are forwarded.

    It applies to forwarding only. Access reviews of a caller or a wanted user contain all extras.
    """

    dropped: frozenset[str] = frozenset()
    rejected: frozenset[str] = frozenset()

    def apply(self, user: UserInfo) -> UserInfo:
        """Return the user as it is forwarded, or raise Forbidden."""
        keys = {key for key, _ in user.extra}
        for key in sorted(keys & self.rejected):
            raise Forbidden(f"an identity with the extra {key} is not forwarded to this API server")
        if keys.isdisjoint(self.dropped):
            return user
        kept = tuple(pair for pair in user.extra if pair[0] not in self.dropped)
        return replace(user, extra=kept)


_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_NOT_A_PATH = 'must be a domain-prefixed path (such as "acme.io/foo")'
_TOO_LONG = f"must be no more than {MAX_SUBDOMAIN_LENGTH} characters"
_BAD_HOST = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    r" for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_BAD_PATH = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"


def validate_extra(extra: Extra) -> str | None:
    """Return why the constrained modes reject these extras, or None if they are valid."""
    for key, values in extra:
        error = _key_error(key) or _values_error(values)
        if error is not None:
            return error
    return None


def _key_error(key: str) -> str | None:
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    errors = _path_errors(key)
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return f"impersonating an invalid key in extra is not allowed: {text}"
    if key != key.lower():
        return f"impersonating a non-lowercase key in extra is not allowed: {quote_truncated(key)}"
    return None


def _values_error(values: tuple[str, ...]) -> str | None:
    if not values:
        return "impersonating empty values in extra is not allowed"
    if "" in values:
        return "impersonating the empty string value in extra is not allowed"
    return None


def _path_errors(key: str) -> list[str]:
    host, _, path = key.partition("/")
    if not host or not path:
        return [_invalid(key, _NOT_A_PATH)]
    errors = []
    if len(host.encode()) > MAX_SUBDOMAIN_LENGTH:
        errors.append(_invalid(host, _TOO_LONG))
    if SUBDOMAIN.fullmatch(host) is None:
        errors.append(_invalid(host, _BAD_HOST))
    if _PATH.fullmatch(path) is None:
        errors.append(_invalid(path, _BAD_PATH))
    return errors


def _invalid(value: str, detail: str) -> str:
    return f"extra.key: Invalid value: {quote_truncated(value)}: {detail}"


class LegacyAction(StrEnum):
    """The treatment of legacy impersonation, which does not constrain requests."""

    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class LegacyRule:
    """An exception for callers in any of its lists; service accounts are `namespace:name`."""

    action: LegacyAction
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    service_accounts: frozenset[str] = frozenset()

    def matches(self, caller: UserInfo) -> bool:
        """Return whether the rule applies to this caller."""
        if caller.name in self.users or not self.groups.isdisjoint(caller.groups):
            return True
        account = service_account(caller.name) if self.service_accounts else None
        return account is not None and ":".join(account) in self.service_accounts


@dataclass(frozen=True, slots=True)
class LegacyPolicy:
    """Rules in order, of which the first match applies, and a default for other callers."""

    default: LegacyAction = LegacyAction.ALLOW
    rules: tuple[LegacyRule, ...] = ()

    def action_for(self, caller: UserInfo) -> LegacyAction:
        """Return the action for legacy impersonation by this caller."""
        for rule in self.rules:
            if rule.matches(caller):
                return rule.action
        return self.default
