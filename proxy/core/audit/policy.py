"""Audit policy (`audit.k8s.io/v1` Policy), evaluated as kube-apiserver does.

Rules match the authenticated caller and the request, never the impersonated user.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from proxy.core.audit.event import Stage
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import UserInfo

_MAX_ENTRIES = 8192
_MAX_CACHED_LENGTH = 256
_MAX_CACHED_GROUPS = 64


class Level(StrEnum):
    """Audit level of a request."""

    NONE = "None"
    METADATA = "Metadata"
    REQUEST = "Request"
    REQUEST_RESPONSE = "RequestResponse"


@dataclass(frozen=True, slots=True)
class RequestAuditConfig:
    """What is recorded of one request. The flags are derived from level and stages."""

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
        # The flags are read for every request, so they are computed once.
        is_none = self.level is Level.NONE
        has_bodies = self.level is Level.REQUEST_RESPONSE
        flags: dict[str, bool | str] = {
            "level_text": self.level.value,
            "is_none": is_none,
            "has_request_body": has_bodies or self.level is Level.REQUEST,
            "has_response_body": has_bodies,
            "writes_received": not is_none and self.writes(Stage.REQUEST_RECEIVED),
            "writes_started": not is_none and self.writes(Stage.RESPONSE_STARTED),
            "writes_complete": not is_none and self.writes(Stage.RESPONSE_COMPLETE),
            "writes_panic": not is_none and self.writes(Stage.PANIC),
        }
        for name, flag in flags.items():
            object.__setattr__(self, name, flag)

    def writes(self, stage: Stage) -> bool:
        """Return whether an event of this stage is written."""
        return stage not in self.omitted_stages


@dataclass(frozen=True, slots=True)
class GroupResources:
    """Resources of one API group, or of every group with `*`. No resources means all of them."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()

    def matches(self, request_info: RequestInfo) -> bool:
        """Return whether the request's resource is among these."""
        if self.group not in (request_info.group, "*"):
            return False
        if not self.resources:
            return True
        if self.resource_names and request_info.name not in self.resource_names:
            return False
        return any(_matches_pattern(pattern, request_info) for pattern in self.resources)


def _matches_pattern(pattern: str, request_info: RequestInfo) -> bool:
    resource, subresource = request_info.resource, request_info.subresource
    if pattern in ("*", f"{resource}/{subresource}" if subresource else resource):
        return True
    if subresource and pattern.startswith("*/") and pattern[2:] == subresource:
        return True
    # As in kube-apiserver, this also matches the resource itself.
    return pattern.endswith("/*") and pattern[:-2] == resource


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A rule that gives requests a level. Every field that is set must match."""

    level: Level
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()
    omit_stages: frozenset[Stage] = frozenset()
    omit_managed_fields: bool | None = None
    """None means the default of the policy."""

    def matches(self, caller: UserInfo | None, request_info: RequestInfo) -> bool:
        """Return whether the rule matches. Without a caller, rules with users or groups do not."""
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
        return not self.resources or any(group.matches(request_info) for group in self.resources)

    def _matches_path(self, request_info: RequestInfo) -> bool:
        if request_info.is_resource:
            return False
        return any(_matches_path_spec(spec, request_info.path) for spec in self.non_resource_urls)


def _matches_path_spec(spec: str, path: str) -> bool:
    if spec in ("*", path):
        return True
    return spec.endswith("*") and path.startswith(spec.rstrip("*"))


class AuditPolicy:
    """Ordered rules. The first match decides, and without a match nothing is recorded."""

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
        self._default = RequestAuditConfig(Level.NONE, omit_stages, omit_managed_fields)
        # If the first rule matches every request, neither caller nor request need be inspected.
        is_same_for_all = bool(rules) and rules[0] == PolicyRule(
            rules[0].level,
            omit_stages=rules[0].omit_stages,
            omit_managed_fields=rules[0].omit_managed_fields,
        )
        self._constant = self._rules[0][1] if is_same_for_all else None
        self._has_user_rules = any(rule.users for rule in rules)
        self._has_group_rules = any(rule.user_groups for rule in rules)
        self._cache: dict[tuple[object, ...], RequestAuditConfig] = {}

    def evaluate(self, caller: UserInfo | None, request_info: RequestInfo) -> RequestAuditConfig:
        """Return what is recorded of a request. The caller is None if authentication failed."""
        if self._constant is not None:
            return self._constant
        # The path determines the resource completely, except for the verb and a name given by a
        # selector. Of the caller, the key has only what some rule inspects.
        name = caller.name if caller is not None and self._has_user_rules else None
        groups = caller.groups if caller is not None and self._has_group_rules else None
        key = (name, groups, request_info.verb, request_info.path, request_info.name)
        known = self._cache.get(key)
        if known is not None:
            return known
        audit_config = self._first_match(caller, request_info)
        is_short = (
            len(request_info.path) + len(request_info.name) + len(name or "") <= _MAX_CACHED_LENGTH
        )
        if is_short and len(groups or ()) <= _MAX_CACHED_GROUPS:
            if len(self._cache) >= _MAX_ENTRIES:
                self._cache.clear()
            self._cache[key] = audit_config
        return audit_config

    def _first_match(
        self, caller: UserInfo | None, request_info: RequestInfo
    ) -> RequestAuditConfig:
        for rule, audit_config in self._rules:
            if rule.matches(caller, request_info):
                return audit_config
        return self._default
