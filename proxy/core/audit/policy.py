"""How much of a request is recorded: `audit.k8s.io/v1` Policy, judged as the API server does.

Rules look at the authenticated caller and at the action, never at whom the caller becomes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from proxy.core.audit.event import Stage
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import UserInfo

_MOST_REMEMBERED = 8192
_LONGEST_REMEMBERED_PATH = 256
_MOST_REMEMBERED_GROUPS = 64


class Level(StrEnum):
    """How much is recorded of a request."""

    NONE = "None"
    METADATA = "Metadata"
    REQUEST = "Request"
    REQUEST_RESPONSE = "RequestResponse"


@dataclass(frozen=True, slots=True)
class RequestAuditConfig:
    """What is recorded of one request. The flags follow from level and stages."""

    level: Level
    omitted_stages: frozenset[Stage] = frozenset()
    omits_managed_fields: bool = False
    level_text: str = field(init=False)
    is_none: bool = field(init=False)
    has_request_body: bool = field(init=False)
    has_response_body: bool = field(init=False)
    writes_received: bool = field(init=False)
    writes_started: bool = field(init=False)
    writes_complete: bool = field(init=False)
    writes_panic: bool = field(init=False)

    def __post_init__(self) -> None:
        # Looked at for every request, so they are found out once.
        is_silent = self.level is Level.NONE
        whole = self.level is Level.REQUEST_RESPONSE
        flags: dict[str, bool | str] = {
            "level_text": self.level.value,
            "is_silent": is_silent,
            "has_request_body": whole or self.level is Level.REQUEST,
            "has_response_body": whole,
            "writes_received": not is_silent and self.writes(Stage.REQUEST_RECEIVED),
            "writes_started": not is_silent and self.writes(Stage.RESPONSE_STARTED),
            "writes_complete": not is_silent and self.writes(Stage.RESPONSE_COMPLETE),
            "writes_panic": not is_silent and self.writes(Stage.PANIC),
        }
        for name, flag in flags.items():
            object.__setattr__(self, name, flag)

    def writes(self, stage: Stage) -> bool:
        """Tell whether an event of this stage is wanted."""
        return stage not in self.omitted_stages


@dataclass(frozen=True, slots=True)
class GroupResources:
    """Resources of one API group, or of every one with `*`; no resources means all of them."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()

    def matches(self, request_info: RequestInfo) -> bool:
        """Tell whether the action's object is among these."""
        if self.group not in (request_info.group, "*"):
            return False
        if not self.resources:
            return True
        if self.resource_names and request_info.name not in self.resource_names:
            return False
        return any(_is_resource(pattern, request_info) for pattern in self.resources)


def _is_resource(pattern: str, request_info: RequestInfo) -> bool:
    resource, subresource = request_info.resource, request_info.subresource
    if pattern in ("*", f"{resource}/{subresource}" if subresource else resource):
        return True
    if subresource and pattern.startswith("*/") and pattern[2:] == subresource:
        return True
    # As natively, this also matches the resource itself.
    return pattern.endswith("/*") and pattern[:-2] == resource


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Which requests are recorded at a level. Every field that is set must match."""

    level: Level
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()
    omit_stages: frozenset[Stage] = frozenset()
    omit_managed_fields: bool | None = None
    """None leaves it to the policy."""

    def matches(self, caller: UserInfo | None, request_info: RequestInfo) -> bool:
        """Tell whether the rule is about this request; nobody is in no list of callers."""
        if self.users and (caller is None or caller.name not in self.users):
            return False
        if self.user_groups and (
            caller is None or not any(group in self.user_groups for group in caller.groups)
        ):
            return False
        if self.verbs and request_info.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return self._matches_resource(request_info)
        return not self.non_resource_urls or self._matches_path(request_info)

    def _matches_resource(self, request_info: RequestInfo) -> bool:
        if not request_info.is_resource:
            return False
        if self.namespaces and request_info.namespace not in self.namespaces:
            return False
        return not self.resources or any(each.matches(request_info) for each in self.resources)

    def _matches_path(self, request_info: RequestInfo) -> bool:
        if request_info.is_resource:
            return False
        return any(_is_path(spec, request_info.path) for spec in self.non_resource_urls)


def _is_path(spec: str, path: str) -> bool:
    if spec in ("*", path):
        return True
    return spec.endswith("*") and path.startswith(spec.rstrip("*"))


class AuditPolicy:
    """Rules in their order: the first that matches decides, and without one nothing is recorded."""

    def __init__(
        self,
        rules: Sequence[PolicyRule],
        *,
        omit_stages: frozenset[Stage] = frozenset(),
        omit_managed_fields: bool = False,
    ) -> None:
        self._rules = [
            (
                rule,
                RequestAuditConfig(
                    rule.level,
                    omit_stages | rule.omit_stages,
                    omit_managed_fields
                    if rule.omit_managed_fields is None
                    else rule.omit_managed_fields,
                ),
            )
            for rule in rules
        ]
        self._otherwise = RequestAuditConfig(Level.NONE, omit_stages, omit_managed_fields)
        # A policy that treats all alike need not look at anybody.
        is_same_for_all = bool(rules) and rules[0] == PolicyRule(
            rules[0].level,
            omit_stages=rules[0].omit_stages,
            omit_managed_fields=rules[0].omit_managed_fields,
        )
        self._always = self._rules[0][1] if is_same_for_all else None
        self._looks_at_users = any(rule.users for rule in rules)
        self._looks_at_groups = any(rule.user_groups for rule in rules)
        self._remembered: dict[tuple[object, ...], RequestAuditConfig] = {}

    def evaluate(self, caller: UserInfo | None, request_info: RequestInfo) -> RequestAuditConfig:
        """Return what is recorded of a request; the caller is None when nobody logged in."""
        if self._always is not None:
            return self._always
        # The path says all about an object but its verb, and the name that a selector gives. Of the
        # caller nothing is remembered that no rule asks for.
        name = caller.name if caller is not None and self._looks_at_users else None
        groups = caller.groups if caller is not None and self._looks_at_groups else None
        key = (name, groups, request_info.verb, request_info.path, request_info.name)
        known = self._remembered.get(key)
        if known is not None:
            return known
        audit_config = self._judge(caller, request_info)
        is_short = (
            len(request_info.path) + len(request_info.name) + len(name or "")
            <= _LONGEST_REMEMBERED_PATH
        )
        if is_short and len(groups or ()) <= _MOST_REMEMBERED_GROUPS:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = audit_config
        return audit_config

    def _judge(self, caller: UserInfo | None, request_info: RequestInfo) -> RequestAuditConfig:
        for rule, audit_config in self._rules:
            if rule.matches(caller, request_info):
                return audit_config
        return self._otherwise
