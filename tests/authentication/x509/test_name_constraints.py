"""What names and constraints may cost, all paths of a chain together."""

import pytest

from proxy.authentication.x509.certificate import Certificate, read_certificate
from proxy.authentication.x509.name_constraints import (
    ComparisonBudget,
    ConstraintError,
    check_name_constraints,
)
from tests.support.hostile_chains import ROOT, constrained_chain

NAMES = [(2, b"a.example.com")]
CONSTRAINTS = [(2, b"example.com"), (2, b"example.org")]


def path_of(chain: tuple[bytes, ...]) -> list[Certificate]:
    return [read_certificate(der) for der in (*chain, ROOT.der)]


def paths_within_budget(path: list[Certificate]) -> int:
    """Return how often a path may be looked at, up to a thousand times."""
    budget = ComparisonBudget()
    for count in range(1000):
        try:
            budget.charge(path)
        except ConstraintError:
            return count
    return 1000


def test_all_paths_of_a_chain_share_one_budget() -> None:
    path = path_of(constrained_chain(CONSTRAINTS * 20, NAMES * 40))

    assert paths_within_budget(path) == 1, "40 names and 40 constraints are enough for one path"


@pytest.mark.parametrize("depth", [1, 2, 6])
def test_all_cas_of_a_path_share_one_budget(depth: int) -> None:
    path = path_of(constrained_chain(CONSTRAINTS * 20, NAMES * 40, depth=depth))

    assert (paths_within_budget(path) > 0) is (depth == 1)


def test_a_few_names_and_constraints_are_compared_on_many_paths() -> None:
    assert paths_within_budget(path_of(constrained_chain(CONSTRAINTS, NAMES, depth=2))) >= 8


def test_a_path_without_constraints_costs_nothing() -> None:
    own = read_certificate(constrained_chain(CONSTRAINTS, NAMES * 400)[0])

    assert paths_within_budget([own, read_certificate(ROOT.der)]) == 1000


def test_bytes_count_as_well_as_names() -> None:
    short = path_of(constrained_chain([(2, b"a")] * 20, [(2, b"a")] * 20))
    long = path_of(constrained_chain([(2, b"a" * 600)] * 20, [(2, b"a" * 600)] * 20))

    assert paths_within_budget(short) > 2 * paths_within_budget(long)


def test_constraints_are_sorted_once_and_only_where_names_are_compared() -> None:
    path = path_of(constrained_chain(CONSTRAINTS, NAMES))
    constraints = path[1].extensions.name_constraints
    assert constraints is not None
    assert "sorted" not in vars(constraints), "not while it is read"

    check_name_constraints(path)
    found = constraints.sorted
    check_name_constraints(path)

    assert constraints.sorted is found


def test_a_name_that_is_not_permitted_is_refused() -> None:
    check_name_constraints(path_of(constrained_chain(CONSTRAINTS, NAMES)))
    with pytest.raises(ConstraintError):
        check_name_constraints(path_of(constrained_chain(CONSTRAINTS, [*NAMES, (2, b"b.net")])))
