"""May the caller act as that identity, for this action? The core's plan, driven with real answers.

Answers come from the memory of successes or from the reviewer. When memory answers everything,
nothing is awaited and the decision is made in one go.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, assert_never

from proxy.authorization.check_prefetch import AccessReviewer, AnswerCounter, Answers
from proxy.authorization.decision_cache import Memory, RepeatableDecisions
from proxy.concurrency.task_set import Tasks
from proxy.core.authorization.access_check import Answer
from proxy.core.errors import UpstreamUnavailable
from proxy.core.impersonation.cache_keys import RepeatableDecision
from proxy.core.impersonation.checks import Attempt, DecisionRules, plan_attempts
from proxy.core.impersonation.evaluation import (
    Allowed,
    Ask,
    Denied,
    Evaluation,
    Question,
    Recall,
    Verdict,
    evaluate,
    forbidden,
)
from proxy.core.impersonation.permit import (
    Admission,
    Guards,
    admit_as,
    admit_self,
    check_names,
)
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import Caller, Identity

_YES, _NO = Answer(allowed=True), Answer(allowed=False)


class DecisionWitness(Protocol):
    """Learns how one decision came about."""

    audit_id: bytes

    def is_reviewed(self, count: int) -> None:
        """Learn how many answers had to be asked for; not told when memory had them all."""
        ...


class DecisionCounter(AnswerCounter, Protocol):
    """Counts decisions and the answers they used."""

    def impersonation_decided(self, mode: str, *, allowed: bool, seconds: float) -> None:
        """Count one impersonation."""
        ...

    def cache_looked_up(self, cache: str, *, hit: bool) -> None:
        """Count a look-up of an earlier decision."""
        ...

    def decided_again(self, mode: str, seconds: float, *, has_modes: bool) -> None:
        """Count an impersonation that an earlier decision of an equal request allowed."""
        ...


class Gate:
    """Admits a request as its caller or as the identity it may have; refuses all others."""

    def __init__(
        self,
        *,
        rules: DecisionRules,
        reviewer: AccessReviewer,
        memory: Memory,
        counter: DecisionCounter,
        clock: Callable[[], float],
        tasks: Tasks,
    ) -> None:
        self._rules = rules
        # Whom nobody may be here. Until that is known (it takes the API server's word who we are)
        # nobody is admitted.
        self.guards: Guards | None = None
        self._reviewer = reviewer
        self._memory = memory
        self._counter = counter
        self._clock = clock
        self._tasks = tasks
        self._deciding: dict[Hashable, asyncio.Task[tuple[Verdict, int]]] = {}
        self._repeatable = RepeatableDecisions()

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
        guards = self.guards
        if guards is None:
            raise UpstreamUnavailable("the API server has not been reached yet")
        check_names(caller, wanted, guards=guards)
        if wanted is None:
            return admit_self(caller, guards=guards)
        started = self._clock()
        remembered = self._memory.modes.recall(caller.identity.name)
        request = (caller, wanted, action, is_upgrade, remembered)
        known = self._repeatable.find(request)
        if known is not None and (repeated := self.admit_again(known)) is not None:
            return repeated
        attempts = plan_attempts(
            caller,
            wanted,
            action,
            rules=self._rules,
            remembered=remembered,
            is_upgrade=is_upgrade,
        )
        verdict, reviews = await self._decide((caller, wanted, action, is_upgrade), attempts)
        # Whom nobody may be can have changed meanwhile: with a new credential of ours it has.
        guards = self.guards or guards
        if reviews and witness is not None:
            witness.is_reviewed(reviews)
        self._count(verdict, self._clock() - started)
        match verdict:
            case Allowed():
                self._memory.modes.learn(caller.identity.name, verdict.mode)
                admission = admit_as(caller, verdict, guards=guards)
                if verdict.mode is remembered and verdict.attempt.recalls_request:
                    self._repeatable.keep(request, verdict, guards, admission)
                return admission
            case Denied():
                raise forbidden(verdict)
            case _:
                assert_never(verdict)

    def repeatable(
        self, caller: Caller, wanted: Identity | None, action: Action
    ) -> RepeatableDecision | None:
        """Return by what an equal request, which is no upgrade, can be admitted again, if at all.

        For use right after it was admitted.
        """
        if wanted is None:
            guards = self.guards
            if guards is None:
                return None
            return RepeatableDecision(b"", guards, admit_self(caller, guards=guards))
        remembered = self._memory.modes.recall(caller.identity.name)
        return self._repeatable.find((caller, wanted, action, False, remembered))

    def admit_again(self, known: RepeatableDecision) -> Admission | None:
        """Return the permit for an equal request if it would come out the same; None in doubt.

        Of the request everything is equal. Of the rest it depends on the guards, on which mode is
        tried first, and on the memory of successes: all three are looked at.
        """
        if known.guards is not self.guards:
            return None
        admission = known.admission
        mode = admission.mode
        if mode is None:
            return admission
        started = self._clock()
        memory = self._memory
        if memory.modes.recall(admission.caller.identity.name) is not mode:
            return None
        if not memory.decisions.recall_request(known.key):
            return None
        self._counter.decided_again(
            mode, self._clock() - started, has_modes=self._rules.constrained
        )
        return admission

    def _count(self, verdict: Verdict, seconds: float) -> None:
        # The filter of old, which knew no modes, had no metrics.
        if self._rules.constrained:
            is_allowed = isinstance(verdict, Allowed)
            mode = verdict.mode if isinstance(verdict, Allowed) else ""
            self._counter.impersonation_decided(mode, allowed=is_allowed, seconds=seconds)

    async def _decide(self, decision: Hashable, attempts: Iterable[Attempt]) -> tuple[Verdict, int]:
        """Decide from memory at once, or with answers that have to be asked for; say how many."""
        evaluation = evaluate(attempts)
        try:
            question = self._recall_all(evaluation, next(evaluation))
        except StopIteration as decided:
            return decided.value, 0
        deciding = self._deciding.get(decision)
        if deciding is None:
            deciding = self._tasks.start(self._ask_on(evaluation, question))
            self._deciding[decision] = deciding
            deciding.add_done_callback(lambda _: self._deciding.pop(decision, None))
        # Whoever wants the same meanwhile waits for the same verdict; none of them can cancel it.
        return await asyncio.shield(deciding)

    async def _ask_on(self, evaluation: Evaluation, question: Ask) -> tuple[Verdict, int]:
        """Go on from the first question that memory cannot answer, and remember a success."""
        answers = Answers(
            self._reviewer, self._counter, self._clock, has_modes=self._rules.constrained
        )
        try:
            while True:
                answer = await answers.of(question)
                question = self._recall_all(evaluation, evaluation.send(answer))
        except StopIteration as decided:
            verdict: Verdict = decided.value
            if isinstance(verdict, Allowed):
                self._learn(verdict)
            return verdict, answers.count
        finally:
            answers.close()

    def _recall_all(self, evaluation: Evaluation, question: Question) -> Ask:
        """Answer from memory until something has to be asked; StopIteration ends it all."""
        while isinstance(question, Recall):
            question = evaluation.send(self._recall(question))
        return question

    def _recall(self, question: Recall) -> Answer:
        known = self._memory.decisions.knows(question.attempt, question.layer)
        self._counter.cache_looked_up(question.layer.value, hit=known)
        return _YES if known else _NO

    def _learn(self, allowed: Allowed) -> None:
        for layer in allowed.learned:
            self._memory.decisions.learn(allowed.attempt, layer)
