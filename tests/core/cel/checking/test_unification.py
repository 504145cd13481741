import pytest

from proxy.core.cel.checking.types import (
    BOOL,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    CelType,
    list_of,
    map_of,
    optional_of,
    parameter,
    type_of,
)
from proxy.core.cel.checking.unification import Substitutions, most_general

A, B = parameter("A"), parameter("B")


@pytest.mark.parametrize(
    ("given", "wanted", "answer"),
    [
        (INT, INT, True), (INT, STRING, False), (DYN, INT, True), (INT, DYN, True),
        (NULL, DURATION, True), (NULL, INT, False), (optional_of(INT), NULL, True),
        (list_of(INT), list_of(DYN), True), (list_of(INT), list_of(BOOL), False),
        (type_of(INT), type_of(STRING), True), (type_of(INT), INT, False),
        (map_of(STRING, INT), list_of(INT), False),
    ],
)  # fmt: skip
def test_assignability(given: CelType, wanted: CelType, *, answer: bool) -> None:
    assert Substitutions().assign([given], [wanted]) is answer


def test_a_parameter_keeps_its_first_type() -> None:
    substitutions = Substitutions()

    assert substitutions.assign([INT, INT], [A, A])
    assert substitutions.resolve(list_of(A)) == list_of(INT)
    assert not substitutions.assign([STRING], [A])
    assert substitutions.assign([A], [INT])


def test_a_failed_attempt_leaves_no_trace() -> None:
    substitutions = Substitutions()

    assert not substitutions.assign([INT, STRING], [A, A])
    assert substitutions.resolve(A) == A
    assert substitutions.resolve(A, free_as_dyn=True) == DYN
    assert not substitutions.assign([INT], [A, B])


def test_a_parameter_does_not_contain_itself() -> None:
    substitutions = Substitutions()

    assert not substitutions.assign([list_of(A)], [A])
    assert substitutions.assign([list_of(A)], [B])
    assert not substitutions.assign([B], [A])


def test_the_less_specific_type_is_the_more_general_one() -> None:
    assert most_general(DYN, INT) == DYN
    assert most_general(list_of(INT), list_of(DYN)) == list_of(DYN)
    assert most_general(INT, STRING) == STRING
    assert most_general(type_of(INT), type_of(STRING)) == type_of(INT)
