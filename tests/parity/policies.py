"""How the recording webhook decides: by rules about the question alone, the same every time."""

from dataclasses import dataclass
from typing import Literal
from zlib import crc32

Decision = Literal["allow", "deny", "no-opinion", "both", "error"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One reply. `both` allows and denies at once, which natively is an error with a reason."""

    decision: Decision
    text: str = ""
    """The reason, or the words of the error."""


YES = Verdict("allow")
NO = Verdict("no-opinion")


@dataclass(frozen=True, slots=True)
class Question:
    """What a review asks, with placeholders instead of fresh names."""

    user: str
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_about_impersonation(self) -> bool:
        """Tell whether it asks for a right to act as somebody, not for a deed."""
        return self.verb.startswith("impersonate")

    def pick(self, verdicts: tuple[Verdict, ...]) -> Verdict:
        """Return one of several verdicts, always the same one for the same question."""
        text = "\0".join(
            (
                *(self.user, self.verb, self.group, self.resource),
                *(self.subresource, self.namespace, self.name, self.path),
            )
        )
        return verdicts[crc32(text.encode("utf-8", "surrogateescape")) % len(verdicts)]


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Verdicts for the questions it fits; an empty condition fits every question."""

    verdicts: tuple[Verdict, ...]
    verb_prefix: str = ""
    resource: str = ""
    name: str = ""

    def fits(self, question: Question) -> bool:
        """Tell whether it decides this question."""
        return (
            question.verb.startswith(self.verb_prefix)
            and self.resource in {"", question.resource}
            and self.name in {"", question.name}
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """The rights of one caller to act as others. The first rule that fits decides."""

    rules: tuple[PolicyRule, ...] = ()

    def decide(self, question: Question) -> Verdict:
        """Return the reply; no rule, no opinion."""
        for rule in self.rules:
            if rule.fits(question):
                return question.pick(rule.verdicts)
        return NO


NO_POLICY = Policy()

# What anybody may do once they are somebody: mostly yes, now and then no, in all its forms.
_DEEDS = (
    *(YES,) * 5,
    Verdict("allow", "because"),
    NO,
    Verdict("no-opinion", "no <opinion> & none"),
    Verdict("deny", "out of bounds"),
)


def decide_deed(question: Question) -> Verdict:
    """Return the reply to a question that is not about impersonation."""
    return question.pick(_DEEDS)
