"""The comparison ignores the Warning header of deviation r, and nothing else."""

import pytest

from tests.parity.comparison import without_discovery_warning
from tests.parity.observations import Observation

AUDIT_ID = ("Audit-Id", "id")
WARNING = ("Warning", '299 - "understudy: denied; Audit-Id id"')


def observation(status: int, *headers: tuple[str, str], ran_as: str = "") -> Observation:
    return Observation(
        status=status, headers=headers, body=b"", ran_as=ran_as, audit=(), closes=False, reviews=()
    )


def test_warning_of_a_denied_request_is_ignored() -> None:
    kept = without_discovery_warning(observation(403, AUDIT_ID, WARNING))

    assert kept == observation(403, AUDIT_ID)


@pytest.mark.parametrize(
    "subject",
    [
        observation(200, AUDIT_ID, WARNING),
        observation(403, AUDIT_ID, ("Warning", '299 - "another"')),
        observation(403, ("Cache-Control", "x")),
        observation(403, WARNING, ran_as="alice"),
    ],
)
def test_everything_else_is_compared(subject: Observation) -> None:
    assert without_discovery_warning(subject) == subject
