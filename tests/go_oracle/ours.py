"""What our own code does with a sequence: the request path from head to verdict, without I/O."""

from collections.abc import Sequence as Many
from typing import assert_never

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.errors import StatusError
from proxy.core.http.status import status_response
from proxy.core.impersonation.cache_keys import request_key, user_key
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import (
    Allowed,
    Ask,
    CacheLookup,
    CacheScope,
    Denied,
    ImpersonationDecision,
    evaluate,
    forbidden_error,
)
from proxy.core.impersonation.headers import parse_impersonation_headers
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import (
    IdentityRestrictions,
    Permit,
    permit_impersonation,
    permit_self,
)
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.requestinfo.selectors import LabelRequirement
from proxy.core.userinfo import MASTERS, Caller, UserInfo
from proxy.wire.http1.message import RequestHead, parse_request_head
from tests.go_oracle.account import Account, Check, Question, ReadHead, group_headers
from tests.go_oracle.cases import Script, Sequence, Step

_KEYS = {CacheScope.REQUEST: request_key, CacheScope.IDENTITY: user_key}
_NATIVE_OPERATORS = {">": "gt", "<": "lt"}


def play(sequence: Sequence) -> list[Account]:
    """Return what becomes of each step, with what the earlier ones left behind."""
    memory = _Memory(sequence)
    return [memory.serve(step) for step in sequence.steps]


class _Memory:
    """Our side of one sequence: modes and successes remembered, and never too old."""

    def __init__(self, sequence: Sequence) -> None:
        protected = frozenset({MASTERS}) if sequence.protects_masters else frozenset[str]()
        self._rules = ImpersonationRules(
            constrained=sequence.constrained, protected_groups=protected
        )
        self._restrictions = IdentityRestrictions(protected_groups=protected)
        self._modes: dict[str, ImpersonationMode] = {}
        self._known: set[tuple[CacheScope, bytes]] = set()

    def serve(self, step: Step) -> Account:
        """Walk one request down the path that the pipeline takes."""
        try:
            head = parse_request_head(step.head)
        except StatusError as refusal:
            return Account(status=refusal.code)
        account = Account(status=200, read=_read_head(head))
        checks: list[AccessCheck] = []
        try:
            request_info = parse_request_info(head.method, head.target)
            account = account._replace(
                action=_action(request_info), is_long_running=request_info.is_long_running
            )
            permit = self._admit(step, head, request_info, checks)
        except StatusError as refusal:
            headers, body = status_response(refusal, head.headers, head.target, audit_id=b"")
            return account._replace(
                status=refusal.code,
                body=body.decode("utf-8", "surrogateescape"),
                forbids_guessing=(b"X-Content-Type-Options", b"nosniff") in headers,
                checks=tuple(map(_check, checks)),
            )
        return account._replace(
            checks=tuple(map(_check, checks)),
            ran_as=permit.user,
            constraint=permit.constraint or "",
        )

    def _admit(
        self, step: Step, head: RequestHead, request_info: RequestInfo, checks: list[AccessCheck]
    ) -> Permit:
        caller = Caller(step.requestor)
        wanted_user = parse_impersonation_headers(head.headers, constrained=self._rules.constrained)
        if wanted_user is None:
            return permit_self(caller, restrictions=self._restrictions)
        decision = self._decide(caller, wanted_user, request_info, (step.script, checks))
        match decision:
            case Allowed():
                self._learn(caller, decision)
                return permit_impersonation(caller, decision, restrictions=self._restrictions)
            case Denied():
                raise forbidden_error(decision)
            case _:
                assert_never(decision)

    def _decide(
        self,
        caller: Caller,
        wanted_user: UserInfo,
        request_info: RequestInfo,
        scripted: tuple[Script, list[AccessCheck]],
    ) -> ImpersonationDecision:
        script, asked = scripted
        remembered = self._modes.get(caller.user.name)
        attempts = plan_attempts(
            caller, wanted_user, request_info, rules=self._rules, preferred_mode=remembered
        )
        evaluation = evaluate(attempts)
        try:
            question = next(evaluation)
            while True:
                match question:
                    case Ask(check=check):
                        asked.append(check)
                        result = _scripted_answer(script, check)
                    case CacheLookup(attempt=attempt, scope=layer):
                        result = CheckResult((layer, _KEYS[layer](attempt)) in self._known)
                    case _:
                        assert_never(question)
                question = evaluation.send(result)
        except StopIteration as end:
            decision: ImpersonationDecision = end.value
            return decision

    def _learn(self, caller: Caller, decision: Allowed) -> None:
        if self._rules.constrained:
            self._modes[caller.user.name] = decision.mode
        self._known.update((layer, _KEYS[layer](decision.attempt)) for layer in decision.cacheable)


def _scripted_answer(script: Script, check: AccessCheck) -> CheckResult:
    scripted = script.answer(
        check.verb,
        check.group,
        check.resource,
        check.subresource,
        check.namespace,
        check.name,
        check.path,
    )
    return CheckResult(scripted.decision == "allow", reason=scripted.reason, error=scripted.error)


def _read_head(head: RequestHead) -> ReadHead:
    return ReadHead(head.method.decode(), _text(head.target), group_headers(head.headers))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _action(request_info: RequestInfo) -> Question:
    return Question(
        verb=request_info.verb,
        group=request_info.group,
        version=request_info.version,
        resource=request_info.resource,
        subresource=request_info.subresource,
        namespace=request_info.namespace,
        name=request_info.name,
        path=request_info.path,
        is_resource=request_info.is_resource,
        fields=tuple(request_info.fields),
        labels=_labels(request_info.labels),
        has_unparsed_selector=request_info.has_unparsed_selector,
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
