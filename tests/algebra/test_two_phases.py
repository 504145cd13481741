"""Law 5: a chain decides in two phases as it would in one."""

from collections import Counter
from random import Random

import pytest

from proxy.core.authorization.rules import RULES_1_38, AlgebraRules
from tests.algebra.two_phases import (
    LATER,
    decide_in_one_phase,
    decide_in_two_phases,
    make_chain,
)

CHAINS = 20_000
pytestmark = pytest.mark.timeout(300)


def compare(chains: int, rules: AlgebraRules = RULES_1_38) -> tuple[list[str], Counter[str]]:
    """Return the differences between one phase and two, and how often each outcome was met."""
    random, differences, seen = Random(5), [], Counter[str]()
    for number in range(chains):
        chain = make_chain(random)
        for later in LATER:
            whole = decide_in_one_phase(chain, later)
            seen[whole.value] += 1
            for in_process in (True, False):
                split = decide_in_two_phases(chain, later, in_process=in_process, rules=rules)
                if split is not whole:
                    differences.append(f"{number} {later}: {whole} {split} {in_process}")
    return differences, seen


def test_two_phases_decide_as_one_phase() -> None:
    differences, seen = compare(CHAINS)

    assert differences == []
    assert min(seen[outcome] for outcome in ("Allow", "Deny", "NoOpinion")) > CHAINS // 4


def test_with_the_published_rule_for_an_open_allow_they_would_differ() -> None:
    """The intended deviation is what makes law 5 hold."""
    differences, _ = compare(2_000, AlgebraRules(keeps_allows_open=False))

    assert differences
    assert all("Outcome.ALLOW" in one and one.endswith("True") for one in differences)
