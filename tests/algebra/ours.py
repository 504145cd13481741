"""What the project's algebra makes of a case, in the form of the oracle's answer."""

from collections.abc import Generator
from dataclasses import dataclass, field

from proxy.core.authorization.chain import (
    EVALUATION_NOT_SUPPORTED,
    MemberEvaluation,
    ask_chain,
    check_chain_names,
    evaluate_chain,
)
from proxy.core.authorization.conditions import make_conditions_map
from proxy.core.authorization.decision import (
    Condition,
    ConditionResult,
    ConditionsData,
    ConditionsMap,
    Decision,
    DecisionUnion,
    Errors,
    FailedEvaluation,
    NamedDecision,
    Outcome,
    Truth,
    Unconditional,
    aggregate_errors,
    decide,
    error_text,
    fail_closed,
    failure_outcome,
    has_final_leaf,
    outcome_of,
    possible_outcomes,
)
from proxy.core.authorization.evaluation import evaluate_map, evaluate_partially
from proxy.core.authorization.folding import fold_closed, fold_unexpected
from proxy.core.authorization.rules import AlgebraRules
from proxy.core.authorization.union import make_union
from tests.algebra.cases import ConditionNode, Node
from tests.algebra.oracle import Chained, Dump, Result, Triple

_DATA: ConditionsData = {}


def play(root: Node, rules: AlgebraRules) -> Result:
    """Return what is observed of a case under a rule set."""
    run = _Run(rules)
    built = run.build(root)
    partial = evaluate_partially(
        built, _DATA, run.call_back if root["hasCallback"] else None, rules=rules
    )
    partial_trace = run.take_trace()
    of_map = evaluate_map(built, _DATA, run.decide) if isinstance(built, ConditionsMap) else None
    names_outcomes = rules.names_outcomes
    return {
        "built": _dump("", built),
        "foldClosed": _triple(fold_closed(built, rules=rules)) if names_outcomes else None,
        "foldError": _triple(fold_unexpected(built)) if names_outcomes else None,
        "partial": _dump("", partial),
        "partialTrace": partial_trace,
        "map": _triple(of_map) if of_map is not None else None,
        "mapTrace": run.take_trace() if of_map is not None else None,
        "chain": run.play_chain(root) if root["kind"] == "Union" else None,
    }


@dataclass(slots=True)
class _Run:
    rules: AlgebraRules
    trace: list[str] = field(default_factory=list)

    def take_trace(self) -> list[str]:
        trace, self.trace = self.trace, []
        return trace

    def build(self, node: Node) -> Decision:
        match node["kind"]:
            case "ConditionsMap":
                deny, no_opinion, allow = (
                    [self._condition(one) for one in listed]
                    for listed in (node["deny"], node["noOpinion"], node["allow"])
                )
                return make_conditions_map(deny, no_opinion, allow, rules=self.rules)
            case "Union":
                return make_union(
                    [NamedDecision(one["name"], self.build(one)) for one in node["members"]],
                    rules=self.rules,
                )
            case kind:
                return decide(Outcome(kind), node["reason"], _errors(node))

    def call_back(self, condition: Condition, data: ConditionsData) -> ConditionResult:
        self.trace.append(f"callback {condition.id}")
        return _result(_callback_of(condition))

    def decide(self, condition: Condition, data: ConditionsData) -> bool | FailedEvaluation:
        result = self.call_back(condition, data)
        if isinstance(result, FailedEvaluation):
            return result
        if result is Truth.UNEVALUATABLE:
            return FailedEvaluation("cannot evaluate")
        return result is Truth.TRUE

    def play_chain(self, root: Node) -> Chained:
        played: Chained = {
            "newError": None,
            "asked": None,
            "askTrace": None,
            "evaluated": None,
            "trace": None,
            "afterPartial": None,
            "lateTrace": None,
            "unaware": None,
        }
        try:
            check_chain_names([member["name"] for member in root["members"]])
        except ValueError as error:
            played["newError"] = str(error)
            return played
        asked = self._ask(root)
        played["asked"], played["askTrace"] = _dump("", asked), self.take_trace()
        played["evaluated"] = _triple(self._evaluate(root, asked))
        played["trace"] = self.take_trace()
        partial = evaluate_partially(asked, _DATA, rules=self.rules)
        self.take_trace()
        final = self._evaluate(root, partial) if isinstance(partial, DecisionUnion) else partial
        played["afterPartial"] = _triple(fold_unexpected(final))
        played["lateTrace"] = self.take_trace()
        return played

    def _ask(self, root: Node) -> Decision:
        members = {member["name"]: member for member in root["members"]}
        asking = ask_chain(list(members), rules=self.rules)
        try:
            name = next(asking)
            while True:
                self.trace.append(f"ask {name}")
                name = asking.send(self.build(members[name]))
        except StopIteration as end:
            decision: Decision = end.value
            return decision

    def _evaluate(self, root: Node, decision: Decision) -> Unconditional:
        members = {
            member["name"]: member for member in root["members"] if member["evaluator"] != "missing"
        }
        evaluating: Generator[MemberEvaluation, Unconditional, Unconditional]
        evaluating = evaluate_chain(decision, members.keys())
        try:
            wanted = next(evaluating)
            while True:
                self.trace.append(f"evaluate {wanted.name}")
                wanted = evaluating.send(self._evaluate_member(members[wanted.name], wanted))
        except StopIteration as end:
            evaluated: Unconditional = end.value
            return evaluated

    def _evaluate_member(self, member: Node, wanted: MemberEvaluation) -> Unconditional:
        if member["evaluator"] == "unsupported":
            return EVALUATION_NOT_SUPPORTED
        if member["evaluator"] == "fixed":
            fixed = member["fixed"]
            assert fixed is not None
            return decide(Outcome(fixed["kind"]), fixed["reason"], _errors(fixed))
        if isinstance(wanted.decision, ConditionsMap):
            return evaluate_map(wanted.decision, _DATA, self.decide)
        try:
            check_chain_names([one["name"] for one in member["members"]])
        except ValueError:
            return fail_closed(wanted.decision, "no chain")
        return self._evaluate(member, wanted.decision)

    def _condition(self, node: ConditionNode) -> Condition:
        def evaluate(data: ConditionsData) -> ConditionResult:
            self.trace.append(f"own {node['id']}")
            return _result(node["own"])

        return _CasesCondition(
            node["id"],
            node["body"],
            node["type"],
            node["description"],
            evaluate,
            callback=node["callback"],
        )


@dataclass(frozen=True, slots=True)
class _CasesCondition(Condition):
    callback: str = ""


def _callback_of(condition: Condition) -> str:
    assert isinstance(condition, _CasesCondition)
    return condition.callback


def _result(text: str) -> ConditionResult:
    match text:
        case "true":
            return Truth.TRUE
        case "false":
            return Truth.FALSE
        case "unevaluatable":
            return Truth.UNEVALUATABLE
        case "nil":
            return FailedEvaluation()
        case _:
            return FailedEvaluation(text.removeprefix("error:"))


def _errors(node: Node) -> Errors:
    return aggregate_errors((text,) for text in node["errors"])


def _text(errors: Errors) -> str | None:
    return error_text(errors) if errors else None


def _triple(decision: Unconditional) -> Triple:
    return {
        "decision": outcome_of(decision).value,
        "reason": decision.reason,
        "error": _text(decision.errors),
    }


def _dump(name: str, decision: Decision) -> Dump:
    possible = possible_outcomes(decision)
    shown: Dump = {
        "kind": "Union",
        "reason": "",
        "error": None,
        "deny": None,
        "noOpinion": None,
        "allow": None,
        "members": None,
        "name": name,
        "possible": [outcome.value for outcome in Outcome if outcome in possible],
        "failure": failure_outcome(decision).value,
        "isFinal": has_final_leaf(decision),
    }
    match decision:
        case ConditionsMap(deny=deny, no_opinion=no_opinion, allow=allow):
            shown["kind"] = "ConditionsMap"
            shown["deny"], shown["noOpinion"] = _ids(deny), _ids(no_opinion)
            shown["allow"] = _ids(allow)
        case DecisionUnion(members=members):
            shown["members"] = [_dump(one.name, one.decision) for one in members]
        case leaf:
            shown["kind"] = outcome_of(leaf).value
            shown["reason"], shown["error"] = leaf.reason, _text(leaf.errors)
    return shown


def _ids(conditions: tuple[Condition, ...]) -> list[str] | None:
    return [one.id for one in conditions] or None
