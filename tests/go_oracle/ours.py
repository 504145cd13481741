"""What our own code does with a sequence: the request path from head to verdict, without I/O."""

from collections.abc import Sequence as Many
from typing import assert_never

from proxy.core.authorization.access_check import AccessCheck, Answer
from proxy.core.errors import Refusal
from proxy.core.http.status import refusal_response
from proxy.core.impersonation.cache_keys import identity_key, request_key
from proxy.core.impersonation.checks import DecisionRules, plan_attempts
from proxy.core.impersonation.evaluation import (
    Allowed,
    Ask,
    Denied,
    Layer,
    Recall,
    Verdict,
    evaluate,
    forbidden,
)
from proxy.core.impersonation.headers import read_wanted_identity
from proxy.core.impersonation.modes import Mode
from proxy.core.impersonation.permit import (
    Admission,
    Guards,
    admit_as,
    admit_self,
)
from proxy.core.requestinfo.request_info import Action, parse_action
from proxy.core.requestinfo.selectors import LabelRequirement
from proxy.core.userinfo import MASTERS, Caller, Identity
from proxy.wire.http1.message import RequestHead, parse_request_head
from tests.go_oracle.account import Account, Check, Question, ReadHead, group_headers
from tests.go_oracle.cases import Script, Sequence, Step

_KEYS = {Layer.REQUEST: request_key, Layer.IDENTITY: identity_key}
_NATIVE_OPERATORS = {">": "gt", "<": "lt"}


def play(sequence: Sequence) -> list[Account]:
    """Return what becomes of each step, with what the earlier ones left behind."""
    memory = _Memory(sequence)
    return [memory.serve(step) for step in sequence.steps]


class _Memory:
    """Our side of one sequence: modes and successes remembered, and never too old."""

    def __init__(self, sequence: Sequence) -> None:
        protected = frozenset({MASTERS}) if sequence.protects_masters else frozenset[str]()
        self._rules = DecisionRules(constrained=sequence.constrained, protected_groups=protected)
        self._guards = Guards(protected_groups=protected)
        self._modes: dict[str, Mode] = {}
        self._known: set[tuple[Layer, bytes]] = set()

    def serve(self, step: Step) -> Account:
        """Walk one request down the path that the pipeline takes."""
        try:
            head = parse_request_head(step.head)
        except Refusal as refusal:
            return Account(status=refusal.code)
        account = Account(status=200, read=_read_head(head))
        checks: list[AccessCheck] = []
        try:
            action = parse_action(head.method, head.target)
            account = account._replace(
                action=_action(action), is_long_running=action.is_long_running
            )
            admission = self._admit(step, head, action, checks)
        except Refusal as refusal:
            headers, body = refusal_response(refusal, head.headers, head.target, audit_id=b"")
            return account._replace(
                status=refusal.code,
                body=body.decode("utf-8", "surrogateescape"),
                forbids_guessing=(b"X-Content-Type-Options", b"nosniff") in headers,
                checks=tuple(map(_check, checks)),
            )
        return account._replace(
            checks=tuple(map(_check, checks)),
            ran_as=admission.acting,
            constraint=admission.constraint or "",
        )

    def _admit(
        self, step: Step, head: RequestHead, action: Action, checks: list[AccessCheck]
    ) -> Admission:
        caller = Caller(step.requestor)
        wanted = read_wanted_identity(head.headers, constrained=self._rules.constrained)
        if wanted is None:
            return admit_self(caller, guards=self._guards)
        verdict = self._decide(caller, wanted, action, (step.script, checks))
        match verdict:
            case Allowed():
                self._learn(caller, verdict)
                return admit_as(caller, verdict, guards=self._guards)
            case Denied():
                raise forbidden(verdict)
            case _:
                assert_never(verdict)

    def _decide(
        self,
        caller: Caller,
        wanted: Identity,
        action: Action,
        scripted: tuple[Script, list[AccessCheck]],
    ) -> Verdict:
        script, asked = scripted
        remembered = self._modes.get(caller.identity.name)
        attempts = plan_attempts(caller, wanted, action, rules=self._rules, remembered=remembered)
        evaluation = evaluate(attempts)
        try:
            question = next(evaluation)
            while True:
                match question:
                    case Ask(check=check):
                        asked.append(check)
                        answer = _scripted_answer(script, check)
                    case Recall(attempt=attempt, layer=layer):
                        answer = Answer((layer, _KEYS[layer](attempt)) in self._known)
                    case _:
                        assert_never(question)
                question = evaluation.send(answer)
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict

    def _learn(self, caller: Caller, verdict: Allowed) -> None:
        if self._rules.constrained:
            self._modes[caller.identity.name] = verdict.mode
        self._known.update((layer, _KEYS[layer](verdict.attempt)) for layer in verdict.learned)


def _scripted_answer(script: Script, check: AccessCheck) -> Answer:
    scripted = script.answer(
        check.verb,
        check.group,
        check.resource,
        check.subresource,
        check.namespace,
        check.name,
        check.path,
    )
    return Answer(scripted.decision == "allow", reason=scripted.reason, error=scripted.error)


def _read_head(head: RequestHead) -> ReadHead:
    return ReadHead(head.method.decode(), _text(head.target), group_headers(head.headers))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _action(action: Action) -> Question:
    return Question(
        verb=action.verb,
        group=action.group,
        version=action.version,
        resource=action.resource,
        subresource=action.subresource,
        namespace=action.namespace,
        name=action.name,
        path=action.path,
        is_resource=action.is_resource,
        fields=tuple(action.fields),
        labels=_labels(action.labels),
        has_unparsed_selector=action.has_unparsed_selector,
    )


def _check(check: AccessCheck) -> Check:
    question = Question(
        verb=check.verb,
        group=check.group,
        version=check.version,
        resource=check.resource,
        subresource=check.subresource,
        namespace=check.namespace,
        name=check.name,
        path=check.path,
        is_resource=check.is_resource,
        fields=tuple(check.fields),
        labels=_labels(check.labels),
    )
    return Check(check.user, question)


def _labels(labels: Many[LabelRequirement]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    return tuple((key, _NATIVE_OPERATORS.get(sign, sign), values) for key, sign, values in labels)
