"""What lint looks at, and what it says about it."""

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
_ON = "impersonate-on:"


class Severity(StrEnum):
    """How bad it is: errors never do what they say, warnings do more or less than it seems."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """An object, and where it comes from: a file and the number of the document in it."""

    file: str
    document: int
    content: Manifest
    path: str = "$"

    @property
    def kind(self) -> str:
        """What it is."""
        return string_at(self.content, "kind")

    @property
    def name(self) -> str:
        """What it is called."""
        return string_at(self.content.get("metadata"), "name")

    @property
    def namespace(self) -> str:
        """Where it is, if not everywhere."""
        return string_at(self.content.get("metadata"), "namespace")


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake: where it is, why it is one, and what to do."""

    code: str
    severity: Severity
    source: ManifestSource
    path: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class RuleLocation:
    """A rule of a role, and where it stands."""

    source: ManifestSource
    path: str
    rule: Rule

    @property
    def is_namespaced(self) -> bool:
        """Tell whether the rule can only hold in one namespace."""
        return self.source.kind == "Role"

    def error(self, code: str, where: str, why: str, remedy: str) -> Finding:
        """Return a finding about something that never works."""
        return Finding(code, Severity.ERROR, self.source, f"{self.path}{where}", why, remedy)

    def warning(self, code: str, where: str, why: str, remedy: str) -> Finding:
        """Return a finding about something that is more or less than it seems."""
        return Finding(code, Severity.WARNING, self.source, f"{self.path}{where}", why, remedy)

    def comment(self, code: str, where: str, why: str, remedy: str) -> Finding:
        """Return a finding that may be meant so."""
        return Finding(code, Severity.NOTE, self.source, f"{self.path}{where}", why, remedy)


def identity_modes(rule: Rule) -> list[ImpersonationMode]:
    """Return the modes whose identities a rule is about."""
    return [IDENTITY_VERBS[verb] for verb in rule.verbs if verb in IDENTITY_VERBS]


def action_verbs(rule: Rule) -> list[tuple[ImpersonationMode, str]]:
    """Return the modes and request verbs whose actions a rule is about."""
    return [found for verb in rule.verbs if (found := action_verb(verb)) is not None]


def action_verb(verb: str) -> tuple[ImpersonationMode, str] | None:
    """Return the mode and the request verb of a verb on actions, if it is one."""
    for mode in CONSTRAINED:
        prefix = f"{_ON}{mode.value}:"
        if verb.startswith(prefix):
            return mode, verb.removeprefix(prefix)
    return None


def listed(items: Iterable[str]) -> str:
    """Return items as people list them."""
    return ", ".join(items)
