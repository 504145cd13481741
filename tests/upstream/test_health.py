"""Whether the API server answers: slow to doubt, quick to believe."""

import pytest

from proxy.upstream.health import UpstreamHealth


class Told:
    def __init__(self) -> None:
        self.told: list[bool] = []

    def set_upstream_reachable(self, *, reachable: bool) -> None:
        self.told.append(reachable)


async def test_one_failure_is_not_believed_and_one_success_is() -> None:
    answers = iter([True, False, True, False, False, False, True])
    told = Told()

    async def ask() -> bool:
        return next(answers)

    reachability = UpstreamHealth(ask, told, response_code=lambda: 0)
    faults = [reachability.health_error()]
    for _ in range(7):
        await reachability.probe()
        faults.append(reachability.health_error())

    is_down = [fault is not None for fault in faults]
    assert is_down == [True, False, False, False, False, True, True, False]
    assert told.told == [True, False, True]


async def failing_health(code: int) -> tuple[UpstreamHealth, Told]:
    """Return the health after one result and two failed probes with this status code."""
    answers, told = iter([True, False, False]), Told()

    async def ask() -> bool:
        return next(answers)

    health = UpstreamHealth(ask, told, response_code=lambda: code)
    for _ in range(3):
        await health.probe()
    return health, told


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (401, "the API server rejects the reviewer's credential (401)"),
        (
            403,
            "the reviewer cannot create subjectaccessreviews.authorization.k8s.io (403): apply "
            "manifests/base/reviewer.yaml",
        ),
    ],
)
async def test_denied_review_is_a_missing_permission_of_a_reachable_api_server(
    code: int, reason: str
) -> None:
    health, told = await failing_health(code)

    assert (health.health_error(), health.permission_error()) == (None, reason)
    assert told.told == [True]


async def test_server_error_is_a_failure_of_a_reachable_api_server() -> None:
    health, told = await failing_health(503)

    assert health.health_error() == "the API server responds with status 503 to access reviews"
    assert health.permission_error() is None
    assert told.told == [True]


async def test_no_response_is_an_unreachable_api_server() -> None:
    health, told = await failing_health(0)

    assert health.health_error() == "the API server does not answer"
    assert told.told == [True, False]
