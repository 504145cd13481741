"""A decision as it is told to a person: values alone; `core/explaining.py` finds them out."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from proxy.core.access_check import AccessCheck
from proxy.core.action import Action
from proxy.core.admission import DEFAULT_GUARDS, Guards
from proxy.core.evaluation import Answer
from proxy.core.identity import Caller, Identity
from proxy.core.modes import Mode
from proxy.core.plan import DecisionRules


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be explained. `wanted` is None for somebody who acts as themselves."""

    caller: Caller
    wanted: Identity | None
    action: Action


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What else counts: how the proxy is set, and what the API server demands of streams by GET."""

    rules: DecisionRules
    guards: Guards = DEFAULT_GUARDS
    streams_need_create: bool = True
    """As API servers from 1.35 on: exec, attach and port-forward by GET need create, too."""


class Asked(NamedTuple):
    """A check and the answer to it."""

    check: AccessCheck
    answer: Answer


class Outcome(StrEnum):
    """What became of a mode."""

    ALLOWED = "allowed"
    DENIED = "denied"
    NOT_NEEDED = "not needed"
    """One before it was allowed."""
    NOT_APPLICABLE = "not applicable"


class Trial(NamedTuple):
    """One mode: whether it applies and why, what was asked, and what came of it."""

    mode: Mode
    outcome: Outcome
    reason: str
    asked: tuple[Asked, ...] = ()
    beyond: tuple[Asked, ...] = ()
    """What serving does not come to ask, and a grant must allow as well."""
    refused: str = ""
    """What no permission opens in this mode, if anything."""


class Told(NamedTuple):
    """The answer that the client gets instead of what it wants."""

    code: int
    message: str
    is_ours: bool
    """Said by the proxy; otherwise by the API server, about the target."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a request is decided, all of it.

    `missing` are the checks that a grant has to allow, all of one `grant_mode`; without any, either
    nothing is missing or no grant helps, and `hopeless` says why.
    """

    request: Request
    trials: tuple[Trial, ...]
    mode: Mode | None
    acting: Identity
    own: tuple[Asked, ...]
    """The target's own right, or the caller's who acts as themselves."""
    told: Told | None
    grant_mode: Mode | None = None
    missing: tuple[AccessCheck, ...] = ()
    hopeless: str = ""

    @property
    def may_act(self) -> bool:
        """Tell whether the proxy lets the request through."""
        return self.told is None or not self.told.is_ours

    @property
    def may_do(self) -> bool:
        """Tell whether the target itself may do it."""
        return all(answer.allowed for _, answer in self.own)

    @property
    def is_allowed(self) -> bool:
        """Tell whether the client gets what it wants."""
        return self.may_act and self.may_do
