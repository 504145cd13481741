"""What would become of a request if legacy impersonation were off? Judged beside its way, and told.

Nothing here decides anything: a request is handed over after it was admitted, nobody waits for its
judgement, and what is found out is kept apart from what decisions are made by. Reviews have a desk
and a ration of their own, so that those of real decisions never wait behind them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from proxy.authorization.check_prefetch import AccessReviewer
from proxy.authorization.decision_cache import DecisionMemory
from proxy.authorization.impersonation import DecisionWitness
from proxy.authorization.pod_nodes import DecidingGate
from proxy.concurrency.circuit_breaker import Breaker
from proxy.concurrency.rate_limit import Ration, Rationing
from proxy.concurrency.task_set import Tasks
from proxy.core.authorization.access_check import Answer, is_larger_than
from proxy.core.errors import Refusal, TooManyRequests
from proxy.core.impersonation.cache_keys import RepeatableDecision
from proxy.core.impersonation.checks import (
    Attempt,
    DecisionRules,
    check_on,
    plan_attempts,
)
from proxy.core.impersonation.evaluation import (
    Allowed,
    Question,
    Recall,
    Verdict,
    check_summary,
    evaluate,
    hopeless_reason,
)
from proxy.core.impersonation.modes import Mode, applicable_modes
from proxy.core.impersonation.permit import Admission
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import Action
from proxy.core.ttl_cache import ShortMemory
from proxy.core.userinfo import Caller, Identity
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

_NO_MODE = "none"
_DROPPED = ("dropped", "")
# All are one line before the ration: it bounds what the shadow costs, not what a caller may cost.
_EVERYBODY = ""
_REMEMBERED = 4096
# Of what a client can make long. With the numbers above it bounds what waits and is remembered.
_LARGEST_REQUEST = 8192


class ShadowedRequest(NamedTuple):
    """What is judged; equal ones have the same judgement."""

    caller: Caller
    wanted: Identity
    action: Action
    is_upgrade: bool


class Judgement(NamedTuple):
    """What the constrained rules would have said, and the first check that fails, if one does."""

    outcome: str
    mode: str
    missing: str = ""


class ShadowCounter(Protocol):
    """Counts what was found out."""

    def shadowed(self, outcome: str, mode: str, count: int = 1) -> None:
        """Count requests: would-allow, would-deny, dropped or error."""
        ...


@dataclass(frozen=True, slots=True)
class ShadowLimits:
    """How much the shadow may cost, and how long a judgement counts for equal requests."""

    sample: float = 1.0
    queue_size: int = 1000
    in_flight: int = 4
    per_second: float = 50.0
    ttl_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ShadowTools:
    """What a shadow needs from its surroundings."""

    clock: Callable[[], float]
    chance: Callable[[], float]
    """A number from 0 up to 1, another one each time."""
    breaker: Breaker
    """That of real decisions: while they get no answers, nobody else is to ask."""
    tasks: Tasks


def constrained_rules(rules: DecisionRules) -> DecisionRules:
    """Return the same rules without legacy impersonation."""
    return replace(
        rules,
        constrained=True,
        legacy=LegacyPolicy(LegacyAction.DENY),
        recalls_legacy=False,
    )


class Shadow:
    """Judges in bounded numbers what it is handed; what it cannot take is dropped and counted."""

    def __init__(
        self,
        rules: DecisionRules,
        *,
        reviewer: AccessReviewer,
        counter: ShadowCounter,
        limits: ShadowLimits,
        tools: ShadowTools,
    ) -> None:
        """`rules` are those of real decisions."""
        self._rules = constrained_rules(rules)
        self._reviewer = reviewer
        self._counter = counter
        self._sample = limits.sample
        self._tools = tools
        self._most_pending = limits.queue_size + limits.in_flight
        self._free = limits.in_flight
        ration = Ration(limits.per_second, max(limits.per_second, 1.0))
        self._rationing = Rationing(ration, tools.clock, refusal="too many to be judged")
        # Beside the grants that were found, denials as well: they deny nothing to anybody here.
        self._judged = ShortMemory[ShadowedRequest, Judgement](
            _REMEMBERED, limits.ttl_seconds, tools.clock
        )
        self._decisions = DecisionMemory(
            ttl_seconds=limits.ttl_seconds,
            legacy_ttl_seconds=0.0,
            entries=_REMEMBERED,
            clock=tools.clock,
        )
        self._queue: deque[tuple[ShadowedRequest, bytes]] = deque()
        self._pending: dict[ShadowedRequest, int] = {}
        """How many equal requests each judgement that is to come is for."""

    def offer(self, request: ShadowedRequest, audit_id: bytes) -> None:
        """Take a request that legacy impersonation has allowed, or leave it; at once."""
        if self._sample < 1 and self._tools.chance() >= self._sample:
            return
        known = self._judged.recall(request)
        if known is not None:
            self._counter.shadowed(known.outcome, known.mode)
        elif request in self._pending:
            self._pending[request] += 1
        elif not self._has_room_for(request):
            self._counter.shadowed(*_DROPPED)
        else:
            self._pending[request] = 1
            self._queue.append((request, audit_id))
            if self._free:
                self._free -= 1
                self._tools.tasks.keep(self._work())

    def _has_room_for(self, request: ShadowedRequest) -> bool:
        if len(self._pending) >= self._most_pending or self._tools.breaker.is_open:
            return False
        action = request.action
        if len(action.path) > _LARGEST_REQUEST:  # what waits holds it, though no review does
            return False
        if is_larger_than(check_on(action, action.verb, user=request.wanted), _LARGEST_REQUEST):
            return False
        try:
            self._rationing.spend(_EVERYBODY)
        except TooManyRequests:
            return False
        return True

    async def _work(self) -> None:
        """Judge what waits until nothing does."""
        try:
            while self._queue:
                request, audit_id = self._queue.popleft()
                try:
                    self._tell(request, audit_id, await self._judge(request))
                finally:
                    del self._pending[request]
        finally:
            self._free += 1

    def _tell(self, request: ShadowedRequest, audit_id: bytes, judgement: Judgement) -> None:
        self._counter.shadowed(judgement.outcome, judgement.mode, self._pending[request])
        if judgement.outcome.startswith("would-"):
            self._judged.learn(request, judgement)
        is_denial = judgement.outcome == "would-deny"
        log.log(
            logging.INFO if is_denial else logging.DEBUG,
            "legacy impersonation judged",
            extra=fields(
                audit_id=audit_id.decode(),
                outcome=judgement.outcome,
                mode=judgement.mode,
                caller=request.caller.identity.name,
                target=request.wanted.name,
                missing=judgement.missing,
            ),
        )

    async def _judge(self, request: ShadowedRequest) -> Judgement:
        try:
            verdict = await self._verdict(request)
        except TooManyRequests:
            return Judgement(*_DROPPED)
        except Refusal:
            return Judgement("error", "")
        if isinstance(verdict, Allowed):
            return Judgement("would-allow", verdict.mode.value)
        reason = hopeless_reason(self._attempts(request))
        if reason is not None or verdict.first_failure is None:
            return Judgement("would-deny", _NO_MODE, reason or verdict.reason)
        mode = applicable_modes(request.caller, request.wanted)[0]
        return Judgement("would-deny", mode.value, check_summary(verdict.first_failure))

    async def _verdict(self, request: ShadowedRequest) -> Verdict:
        """Decide as the gate would, from no history, and with nothing asked ahead."""
        evaluation = evaluate(self._attempts(request))
        try:
            question = next(evaluation)
            while True:
                question = evaluation.send(await self._answer(question))
        except StopIteration as decided:
            verdict: Verdict = decided.value
            if isinstance(verdict, Allowed):
                for layer in verdict.learned:
                    self._decisions.learn(verdict.attempt, layer)
            return verdict

    def _attempts(self, request: ShadowedRequest) -> Iterator[Attempt]:
        return plan_attempts(
            request.caller,
            request.wanted,
            request.action,
            rules=self._rules,
            is_upgrade=request.is_upgrade,
        )

    async def _answer(self, question: Question) -> Answer:
        if isinstance(question, Recall):
            return Answer(self._decisions.knows(question.attempt, question.layer))
        return await asyncio.shield(self._reviewer.begin(question.check))


_TOO_MANY_REVIEWS = "too many access reviews for this caller"


class ShadowingGate:
    """Decides nothing: it hands over what legacy impersonation has allowed, and goes on."""

    def __init__(self, gate: DecidingGate, shadow: Shadow) -> None:
        self._gate = gate
        self._shadow = shadow

    async def admit(
        self,
        caller: Caller,
        wanted: Identity | None,
        action: Action,
        *,
        is_upgrade: bool = False,
        witness: DecisionWitness | None = None,
    ) -> Admission:
        """Return the permit to forward or refuse."""
        admission = await self._gate.admit(
            caller, wanted, action, is_upgrade=is_upgrade, witness=witness
        )
        if admission.mode is Mode.LEGACY and wanted is not None:
            audit_id = b"" if witness is None else witness.audit_id
            self._shadow.offer(ShadowedRequest(caller, wanted, action, is_upgrade), audit_id)
        return admission

    def repeatable(
        self, caller: Caller, wanted: Identity | None, action: Action
    ) -> RepeatableDecision | None:
        """Return by what an equal request can be admitted again; never what we hand over."""
        known = self._gate.repeatable(caller, wanted, action)
        return None if known is None or known.admission.mode is Mode.LEGACY else known

    def admit_again(self, known: RepeatableDecision) -> Admission | None:
        """Return the permit for an equal request if it would come out the same; None in doubt."""
        return self._gate.admit_again(known)
