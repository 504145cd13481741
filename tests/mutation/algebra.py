"""The guards of conditional decisions, and how each is taken away."""

from collections.abc import Callable, Collection, Generator, Iterable, Sequence

from proxy.core.authorization import chain, conditions, evaluation, folding, union
from proxy.core.authorization.chain import MemberEvaluation
from proxy.core.authorization.decision import (
    Allow,
    Condition,
    ConditionResult,
    Decision,
    Outcome,
    Unconditional,
)
from proxy.core.authorization.rules import RULES_1_38, AlgebraRules, condition_error
from proxy.core.authorization.wire import seed, wip
from tests.mutation.guard import Guard
from tests.support.fault_injection import put

_TESTS = "tests/core/authorization/test_"
_WIRE = "tests/core/authorization/wire/test_"


def _no_condition_allows() -> None:
    original = conditions.make_conditions_map

    def make(
        deny: Sequence[Condition] = (),
        no_opinion: Sequence[Condition] = (),
        allow: Sequence[Condition] = (),
        *,
        rules: AlgebraRules = RULES_1_38,
        failure: Outcome | None = None,
    ) -> Decision:
        if not deny and not no_opinion and not allow:
            return Allow()
        return original(deny, no_opinion, allow, rules=rules, failure=failure)

    put(conditions, "make_conditions_map", make)


def _ids_may_repeat() -> None:
    def first_error(listed: Sequence[Condition], rules: AlgebraRules) -> str:
        return next(filter(None, (condition_error(one, rules) for one in listed)), "")

    put(conditions, "_first_error", first_error)


def _any_number_of_conditions_will_do() -> None:
    put(conditions, "MAX_CONDITIONS", 10**9)


def _any_id_will_do() -> None:
    put(conditions, "condition_error", lambda condition, rules: "")


def _any_outcome_is_possible() -> None:
    put(chain, "_checked", lambda decision, result: result)


def _errors_of_deny_conditions_are_no_opinion() -> None:
    original = evaluation._evaluate_effect

    def evaluate_effect(
        effect: Outcome,
        listed: Iterable[Condition],
        evaluate: Callable[[Condition], ConditionResult],
        *,
        failure: Outcome = Outcome.NO_OPINION,
    ) -> object:
        return original(effect, listed, evaluate)

    put(evaluation, "_evaluate_effect", evaluate_effect)


def _results_of_any_type_are_false() -> None:
    put(evaluation, "assert_never", lambda value: None)


class _Everything(list[str]):
    def __contains__(self, name: object) -> bool:
        return True


def _every_name_is_known() -> None:
    original = chain.evaluate_chain

    def evaluate(
        decision: Decision, names: Collection[str]
    ) -> Generator[MemberEvaluation, Unconditional, Unconditional]:
        return original(decision, _Everything())

    put(chain, "evaluate_chain", evaluate)


def _names_may_repeat() -> None:
    put(union, "_name_errors", lambda members, rules: ())


def _decisions_have_no_limits() -> None:
    put(union, "_limit_errors", lambda members, rules: ())


def _folded_decisions_allow() -> None:
    put(folding, "failure_outcome", lambda decision: Outcome.ALLOW)


def _any_status_will_do() -> None:
    put(wip, "invalid", lambda path, value, detail: None)


def _conditions_need_no_opt_in() -> None:
    for module in (wip, seed):
        put(module, "forbidden", lambda path, detail: None)


ALGEBRA = {
    90: Guard(
        "no condition is no opinion",
        _no_condition_allows,
        (f"{_TESTS}conditions.py::test_3_1_1_no_condition_is_no_opinion",),
    ),
    91: Guard(
        "an id is used once",
        _ids_may_repeat,
        (f"{_TESTS}conditions.py::test_3_1_4a_an_id_is_unique_across_the_three_lists",),
    ),
    92: Guard(
        "conditions are counted",
        _any_number_of_conditions_will_do,
        (f"{_TESTS}conditions.py::test_3_1_2_too_many_conditions_fail_closed",),
    ),
    93: Guard(
        "an invalid condition closes its map",
        _any_id_will_do,
        (f"{_TESTS}conditions.py::test_3_1_4_an_invalid_condition_fails_closed",),
    ),
    94: Guard(
        "an outcome that was not possible is replaced",
        _any_outcome_is_possible,
        (f"{_TESTS}chain.py::test_3_6_an_impossible_outcome_fails_closed",),
    ),
    95: Guard(
        "an error of a Deny condition denies",
        _errors_of_deny_conditions_are_no_opinion,
        (f"{_TESTS}evaluation.py::test_3_3_single_conditions",),
    ),
    96: Guard(
        "a result of another type is not false",
        _results_of_any_type_are_false,
        (f"{_TESTS}evaluation.py::test_a_result_of_another_type_does_not_count_as_false",),
    ),
    97: Guard(
        "only a known authorizer evaluates",
        _every_name_is_known,
        (f"{_TESTS}chain.py::test_3_6_an_unknown_name_fails_closed",),
    ),
    98: Guard(
        "names in a union are unique",
        _names_may_repeat,
        (f"{_TESTS}union.py::test_3_4_1_an_invalid_name_fails_closed",),
    ),
    99: Guard(
        "a decision has limits",
        _decisions_have_no_limits,
        (
            f"{_TESTS}union.py::test_a_union_has_at_most_64_members",
            f"{_TESTS}union.py::test_a_decision_is_nested_at_most_8_deep",
            f"{_TESTS}union.py::test_a_decision_has_at_most_256_kib",
        ),
    ),
    100: Guard(
        "a folded decision is no Allow",
        _folded_decisions_allow,
        (f"{_TESTS}folding.py::test_3_7_a_conditional_decision_never_becomes_allow",),
    ),
    101: Guard(
        "an invalid status decides nothing",
        _any_status_will_do,
        (f"{_WIRE}wip.py::test_a_status_that_is_not_valid",),
    ),
    102: Guard(
        "conditions need an opt-in",
        _conditions_need_no_opt_in,
        (
            f"{_WIRE}wip.py::test_4_3_conditions_without_an_opt_in_are_forbidden",
            f"{_WIRE}seed.py::test_conditions_without_an_opt_in_are_forbidden",
        ),
    ),
}
