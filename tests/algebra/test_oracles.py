"""A part of the comparison of `make algebra`, with both versions of the published code."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from proxy.core.authorization.rules import AlgebraRules
from tests.algebra.campaign import Report, run_campaign
from tests.algebra.cases import Node
from tests.algebra.oracle import PUBLISHED, SOURCE, V0_37, V0_38, Published, Result
from tests.algebra.ours import play
from tests.support.build_once import built_by_go

CASES = 10_000
# Building the oracle takes minutes on a machine that has built no control plane before.
pytestmark = pytest.mark.timeout(900)


def built(published: Published) -> Published:
    """Return a version whose program is built; skip or fail the test if Go cannot."""
    built_by_go("algebra", SOURCE, tags=published.tags, variant=published.variant)
    return published


@pytest.fixture(scope="module", params=PUBLISHED, ids=lambda one: one.version)
def report(request: pytest.FixtureRequest) -> Report:
    return run_campaign(built(request.param), seed=20_000, cases=CASES)


def test_decisions_reasons_errors_and_order_equal_those_of_the_published_code(
    report: Report,
) -> None:
    print(f"algebra: {report}")  # noqa: T201 - the figures belong into the test's record

    assert report.reproductions == []
    assert report.cases == CASES


def test_only_an_open_allow_beside_an_error_deviates(report: Report) -> None:
    assert 0 < report.kept_open < CASES * 0.05
    assert 0 < report.made_laxer < report.kept_open


def test_the_trees_meet_every_variant_and_every_outcome(report: Report) -> None:
    variants = ("Allow", "Deny", "NoOpinion", "ConditionsMap", "Union")

    assert {f"built {one}" for one in variants} <= set(report.seen)
    assert {f"partial {one}" for one in variants} <= set(report.seen)
    assert {f"evaluated {one}" for one in variants[:3]} <= set(report.seen)
    assert {"failed closed", "chain refused"} <= set(report.seen)
    assert report.two_phases > CASES * 0.1


def without_errors(root: Node, rules: AlgebraRules) -> Result:
    """Play with the mistake that an error of a decision is forgotten."""
    played = play(root, rules)
    partial = {**played["partial"], "error": None}
    return {**played, "partial": partial}  # type: ignore[typeddict-item]


def in_another_order(root: Node, rules: AlgebraRules) -> Result:
    """Play with the mistake that conditions are evaluated in another order."""
    played = play(root, rules)
    return {**played, "partialTrace": played["partialTrace"][::-1]}


def with_other_rules(root: Node, rules: AlgebraRules) -> Result:
    """Play with the mistake that ids need no prefix."""
    return play(root, replace(rules, needs_prefix=not rules.needs_prefix))


@pytest.mark.parametrize(
    ("published", "mistake"),
    [
        (V0_37, without_errors),
        (V0_38, without_errors),
        (V0_38, in_another_order),
        (V0_38, with_other_rules),
    ],
)
def test_a_mistake_is_noticed_and_shown_in_its_smallest_form(
    published: Published, mistake: Callable[[Node, AlgebraRules], Result]
) -> None:
    report = run_campaign(built(published), seed=3, cases=1_000, player=mistake)

    assert report.disagreements > 0
    assert all(len(one) < 4_000 for one in report.reproductions), report.reproductions
