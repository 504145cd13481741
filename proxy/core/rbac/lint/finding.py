"""Inputs and findings of the RBAC linter."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.model import Manifest, Rule, string_at

STAR = "*"
AUTHENTICATION = "authentication.k8s.io"
LEGACY_VERB = "impersonate"
CONSTRAINED = tuple(mode for mode in ImpersonationMode if mode is not ImpersonationMode.LEGACY)
IDENTITY_VERBS = {mode.identity_verb: mode for mode in CONSTRAINED}
_ACTION_PREFIX = "impersonate-on:"


class Severity(StrEnum):
    """Severity of a finding: an error never works, a warning allows more or less than it seems."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """An object and its origin: a file and the number of the document in it."""

    file: str
    document: int
    content: Manifest
    path: str = "$"

    @property
    def kind(self) -> str:
        """Kind of the object."""
        return string_at(self.content, "kind")

    @property
    def name(self) -> str:
        """Name of the object."""
        return string_at(self.content.get("metadata"), "name")

    @property
    def namespace(self) -> str:
        """Namespace of the object, empty if cluster-scoped."""
        return string_at(self.content.get("metadata"), "namespace")


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake: its location, its reason and its remedy."""

    code: str
    severity: Severity
    source: ManifestSource
    path: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class RuleLocation:
    """A rule of a role, and its location."""

    source: ManifestSource
    path: str
    rule: Rule

    @property
    def is_namespaced(self) -> bool:
        """Return whether the rule applies to one namespace only."""
        return self.source.kind == "Role"

    def error(self, code: str, where: str, why: str, remedy: str) -> Finding:
        """Return a finding of severity error: the rule never works."""
        return Finding(code, Severity.ERROR, self.source, f"{self.path}{where}", why, remedy)

    def warning(self, code: str, where: str, why: str, remedy: str) -> Finding:
        """Return a finding of severity warning: the rule allows more or less than it seems."""
        return Finding(code, Severity.WARNING, self.source, f"{self.path}{where}", why, remedy)

    def note(self, code: str, where: str, why: str, remedy: str) -> Finding:
        """Return a finding of severity note: the rule may be intended."""
        return Finding(code, Severity.NOTE, self.source, f"{self.path}{where}", why, remedy)


def identity_modes(rule: Rule) -> list[ImpersonationMode]:
    """Return the modes of the identity verbs of a rule."""
    return [IDENTITY_VERBS[verb] for verb in rule.verbs if verb in IDENTITY_VERBS]


def action_verbs(rule: Rule) -> list[tuple[ImpersonationMode, str]]:
    """Return the modes and request verbs of the action verbs of a rule."""
    return [found for verb in rule.verbs if (found := action_verb(verb)) is not None]


def action_verb(verb: str) -> tuple[ImpersonationMode, str] | None:
    """Return the mode and the request verb of an action verb, or None for another verb."""
    for mode in CONSTRAINED:
        prefix = f"{_ACTION_PREFIX}{mode.value}:"
        if verb.startswith(prefix):
            return mode, verb.removeprefix(prefix)
    return None


def comma_separated(items: Iterable[str]) -> str:
    """Return items as a comma-separated list."""
    return ", ".join(items)
