"""The audit policy file: `audit.k8s.io/v1` Policy, read strictly.

The API server takes a policy with unknown keys after a warning. We refuse it: a key that is spelled
wrongly would leave something unrecorded that somebody wants to see.
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
"""Used when no file is configured."""


def _none_is_empty(value: object) -> object:
    # `users:` with nothing after it is null in YAML, which Go takes for an empty list.
    return () if value is None else value


def _some_rules(value: object) -> object:
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


Texts = Annotated[tuple[str, ...], BeforeValidator(_none_is_empty), Field(strict=False)]
StageName = Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]
Stages = Annotated[tuple[StageName, ...], BeforeValidator(_none_is_empty), Field(strict=False)]
URLs = Annotated[
    tuple[Annotated[str, AfterValidator(_check_url)], ...],
    BeforeValidator(_none_is_empty),
    Field(strict=False),
]


class GroupResourcesSettings(StrictModel):
    """Resources of one API group."""

    group: Annotated[str, AfterValidator(_check_group)] = ""
    """The core group is empty; `*` is every group."""

    resources: Texts = ()
    """`pods`, `pods/log`, `pods/*`, `*/scale` or `*`. Empty: all of the group."""

    resource_names: Texts = ()
    """Names of single objects. Empty: all."""

    @model_validator(mode="after")
    def _names_need_resources(self) -> "GroupResourcesSettings":
        if self.resource_names and not self.resources:
            raise ValueError("using resourceNames requires at least one resource")
        return self


class AuditPolicyRuleSettings(StrictModel):
    """One rule. Every field that is set must match."""

    level: Literal["None", "Metadata", "Request", "RequestResponse"]
    """How much is recorded."""

    users: Texts = ()
    """Names of authenticated users."""

    user_groups: Texts = ()
    """Groups of the authenticated user, one of which is enough."""

    verbs: Texts = ()
    """Kubernetes verbs; of other paths, methods in lower case."""

    resources: Annotated[
        tuple[GroupResourcesSettings, ...],
        BeforeValidator(_none_is_empty),
        Field(strict=False),
    ] = ()
    """Resources by API group."""

    namespaces: Texts = ()
    """Namespaces; an empty name is what has none."""

    non_resource_urls: URLs = Field(default=(), alias="nonResourceURLs")
    """Other paths, with a `*` at the end at most."""

    omit_stages: Stages = ()
    """Stages that leave no event."""

    omit_managed_fields: bool | None = None
    """Absent: as the policy says."""

    @model_validator(mode="after")
    def _is_about_one_kind(self) -> "AuditPolicyRuleSettings":
        if self.non_resource_urls and (self.resources or self.namespaces):
            raise ValueError("rules cannot apply to both regular resources and non-resource URLs")
        return self


class AuditPolicySettings(StrictModel):
    """The whole file."""

    api_version: Literal["audit.k8s.io/v1"]
    """The format of the file."""

    kind: Literal["Policy"]
    """The kind of the file."""

    metadata: dict[str, object] | None = None
    """Not used, as natively."""

    rules: Annotated[
        tuple[AuditPolicyRuleSettings, ...], BeforeValidator(_some_rules), Field(strict=False)
    ]
    """The first that matches decides."""

    omit_stages: Stages = ()
    """Stages that leave no event, whatever the rule."""

    omit_managed_fields: bool = False
    """On: managedFields are left out of recorded bodies, unless a rule says otherwise."""


def load_audit_policy(file: Path | None) -> AuditPolicy:
    """Read a policy file, or the default without one; ConfigError tells all that is wrong."""
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
            GroupResources(each.group, each.resources, each.resource_names)
            for each in settings.resources
        ),
        namespaces=settings.namespaces,
        non_resource_urls=settings.non_resource_urls,
        omit_stages=_stages(settings.omit_stages),
        omit_managed_fields=settings.omit_managed_fields,
    )


def _stages(names: Iterable[StageName]) -> frozenset[Stage]:
    return frozenset(Stage(name) for name in names)
