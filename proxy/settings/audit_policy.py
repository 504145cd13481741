"""The audit policy file: `audit.k8s.io/v1` Policy, parsed strictly.

kube-apiserver accepts a policy with unknown keys and logs a warning. The proxy rejects it: a
misspelled key would leave requests unrecorded that the operator wants to see.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from proxy.core.audit.event import Stage
from proxy.core.audit.policy import (
    AuditPolicy,
    GroupResources,
    Level,
    PolicyRule,
)
from proxy.core.userinfo import is_subdomain
from proxy.settings.loader import check_document, read_document
from proxy.settings.types import StrictModel

DEFAULT_POLICY = Path(__file__).with_name("audit_policy_default.yaml")
"""The policy that applies when no file is configured."""


def _null_as_empty(value: object) -> object:
    # `users:` without a value is null in YAML. Go decodes it as an empty list.
    return () if value is None else value


def _require_rules(value: object) -> object:
    if value is None or value == []:
        raise ValueError("a policy without rules would record nothing")
    return value


def _check_url(url: str) -> str:
    if url != "*" and not url.startswith("/"):
        raise ValueError("non-resource URL rules must begin with a '/' character")
    if "*" in url[:-1]:
        raise ValueError("non-resource URL wildcards '*' must be the final character of the rule")
    return url


def _check_group(group: str) -> str:
    if group not in ("", "*") and not is_subdomain(group):
        raise ValueError("must be the name of an API group, without a version")
    return group


Texts = Annotated[tuple[str, ...], BeforeValidator(_null_as_empty), Field(strict=False)]
StageName = Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]
Stages = Annotated[tuple[StageName, ...], BeforeValidator(_null_as_empty), Field(strict=False)]
URLs = Annotated[
    tuple[Annotated[str, AfterValidator(_check_url)], ...],
    BeforeValidator(_null_as_empty),
    Field(strict=False),
]


class GroupResourcesSettings(StrictModel):
    """Resources of one API group."""

    group: Annotated[str, AfterValidator(_check_group)] = ""
    """API group. Empty: the core group. `*`: every group."""

    resources: Texts = ()
    """`pods`, `pods/log`, `pods/*`, `*/scale` or `*`. Empty: all of the group."""

    resource_names: Texts = ()
    """Names of single objects. Empty: all."""

    @model_validator(mode="after")
    def _check_resource_names(self) -> "GroupResourcesSettings":
        if self.resource_names and not self.resources:
            raise ValueError("using resourceNames requires at least one resource")
        return self


class AuditPolicyRuleSettings(StrictModel):
    """One rule. Every field that is set must match."""

    level: Literal["None", "Metadata", "Request", "RequestResponse"]
    """Level of detail that is recorded."""

    users: Texts = ()
    """Names of authenticated users."""

    user_groups: Texts = ()
    """Groups of the authenticated user. One match is enough."""

    verbs: Texts = ()
    """Kubernetes verbs, or methods in lower case for non-resource paths."""

    resources: Annotated[
        tuple[GroupResourcesSettings, ...],
        BeforeValidator(_null_as_empty),
        Field(strict=False),
    ] = ()
    """Resources by API group."""

    namespaces: Texts = ()
    """Namespaces. An empty name matches requests without a namespace."""

    non_resource_urls: URLs = Field(default=(), alias="nonResourceURLs")
    """Non-resource paths. A `*` is allowed only at the end."""

    omit_stages: Stages = ()
    """Stages for which no event is recorded."""

    omit_managed_fields: bool | None = None
    """Absent: the value of the policy."""

    @model_validator(mode="after")
    def _check_one_kind(self) -> "AuditPolicyRuleSettings":
        if self.non_resource_urls and (self.resources or self.namespaces):
            raise ValueError("rules cannot apply to both regular resources and non-resource URLs")
        return self


class AuditPolicySettings(StrictModel):
    """The audit policy file."""

    api_version: Literal["audit.k8s.io/v1"]
    """The format of the file."""

    kind: Literal["Policy"]
    """The kind of the file."""

    metadata: dict[str, object] | None = None
    """Ignored, as kube-apiserver does."""

    rules: Annotated[
        tuple[AuditPolicyRuleSettings, ...], BeforeValidator(_require_rules), Field(strict=False)
    ]
    """The first rule that matches applies."""

    omit_stages: Stages = ()
    """Stages for which no event is recorded, in addition to those of the rule."""

    omit_managed_fields: bool = False
    """true: managedFields are omitted from recorded bodies, unless a rule overrides it."""


def load_audit_policy(file: Path | None) -> AuditPolicy:
    """Load a policy file, or the default policy; raise ConfigError with every problem."""
    file = file or DEFAULT_POLICY
    settings = check_document(AuditPolicySettings, read_document(file), file=file)
    return AuditPolicy(
        [_rule(rule) for rule in settings.rules],
        omit_stages=_stages(settings.omit_stages),
        omit_managed_fields=settings.omit_managed_fields,
    )


def _rule(settings: AuditPolicyRuleSettings) -> PolicyRule:
    return PolicyRule(
        Level(settings.level),
        users=settings.users,
        user_groups=settings.user_groups,
        verbs=settings.verbs,
        resources=tuple(
            GroupResources(item.group, item.resources, item.resource_names)
            for item in settings.resources
        ),
        namespaces=settings.namespaces,
        non_resource_urls=settings.non_resource_urls,
        omit_stages=_stages(settings.omit_stages),
        omit_managed_fields=settings.omit_managed_fields,
    )


def _stages(names: Iterable[StageName]) -> frozenset[Stage]:
    return frozenset(Stage(name) for name in names)
