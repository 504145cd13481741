"""Whether the API server answers: slow to doubt, quick to believe."""

import asyncio
from collections.abc import Callable, Iterable

import pytest
from prometheus_client import CollectorRegistry

from proxy.concurrency.task_set import TaskSet
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.health import UpstreamHealth
from tests.support.event_loops import in_virtual_time


class Probed:
    """An API server that answers probes as told, and when it was probed."""

    def __init__(self, answers: Iterable[bool], *, code: int = 0) -> None:
        self.answers = iter(answers)
        self.seconds: list[float] = []
        self.registry = CollectorRegistry()
        self.tasks = TaskSet(lambda _: None)
        self.health = UpstreamHealth(
            self.answer,
            UpstreamMetrics(self.registry),
            response_code=lambda: code,
            tasks=self.tasks,
        )

    @property
    def is_reachable(self) -> float | None:
        return self.registry.get_sample_value("understudy_upstream_reachable")

    async def answer(self) -> bool:
        self.seconds.append(asyncio.get_running_loop().time())
        return next(self.answers, True)


async def test_one_failure_is_not_believed_and_one_success_is() -> None:
    probed = Probed([True, False, True, False, False, False, True])
    states = [(probed.health.health_error() is None, probed.is_reachable)]
    for _ in range(7):
        await probed.health.probe()
        states.append((probed.health.health_error() is None, probed.is_reachable))

    up, down = (True, 1.0), (False, 0.0)
    assert states == [down, up, up, up, up, down, down, up]


async def failing_health(code: int) -> Probed:
    """Return the health after one result and two failed probes with this status code."""
    probed = Probed([True, False, False], code=code)
    for _ in range(3):
        await probed.health.probe()
    return probed


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
    probed = await failing_health(code)

    assert (probed.health.health_error(), probed.health.permission_error()) == (None, reason)
    assert probed.is_reachable == 1.0


async def test_server_error_is_a_failure_of_a_reachable_api_server() -> None:
    probed = await failing_health(503)

    assert (
        probed.health.health_error() == "the API server responds with status 503 to access reviews"
    )
    assert probed.health.permission_error() is None
    assert probed.is_reachable == 1.0


async def test_no_response_is_an_unreachable_api_server() -> None:
    probed = await failing_health(0)

    assert probed.health.health_error() == "the API server does not answer"
    assert probed.is_reachable == 0.0


@in_virtual_time
async def test_probes_are_sent_every_two_seconds_and_more_often_while_they_fail() -> None:
    assert await probe_times([True, True, False, False, True], seconds=7.9) == [0, 2, 4, 4.5, 5, 7]


@in_virtual_time
async def test_a_requested_probe_is_sent_at_once_but_not_right_after_another_one() -> None:
    def request(health: UpstreamHealth) -> None:
        loop = asyncio.get_running_loop()
        for seconds in (0.2, 0.3, 1.5):
            loop.call_later(seconds, health.request_probe)

    assert await probe_times([], seconds=3, begin=request) == [0, 0.5, 1.5]


async def probe_times(
    answers: Iterable[bool],
    *,
    seconds: float,
    begin: Callable[[UpstreamHealth], None] = lambda _: None,
) -> list[float]:
    probed = Probed(answers)
    started = asyncio.get_running_loop().time()
    begin(probed.health)
    probed.tasks.start_background(probed.health.run())
    await asyncio.sleep(seconds)
    await probed.tasks.stop()
    return [round(at - started, 3) for at in probed.seconds]
