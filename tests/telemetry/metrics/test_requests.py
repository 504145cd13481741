"""What is counted of requests, and what it is called."""

import pytest
from prometheus_client import CollectorRegistry

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.errors import Forbidden, StatusError
from proxy.core.impersonation.evaluation import Denied, forbidden_error
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.userinfo import UserInfo
from proxy.telemetry.metrics.requests import (
    MODES,
    OTHER,
    REASONS,
    RequestMetrics,
    _reason,
)
from proxy.wire.http1.body import BodyError
from proxy.wire.http1.message import ExpectationFailed, HeadTooLarge

BOB = UserInfo("bob")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> RequestMetrics:
    return RequestMetrics(registry)


def all_refusals(kind: type[StatusError] = StatusError) -> list[type[StatusError]]:
    return [one for sub in kind.__subclasses__() for one in (sub, *all_refusals(sub))]


@pytest.mark.parametrize("kind", sorted(set(all_refusals()), key=str), ids=lambda one: one.__name__)
def test_every_refusal_has_a_reason_of_its_own_kind(kind: type[StatusError]) -> None:
    error = kind.__new__(kind)

    assert _reason(error) in REASONS - {OTHER}


def test_those_of_the_wire_are_bad_requests() -> None:
    for kind in (HeadTooLarge, ExpectationFailed, BodyError):
        assert _reason(kind.__new__(kind)) == "bad-request"


def check(verb: str) -> AccessCheck:
    return AccessCheck(BOB, verb, resource="pods", name="impersonate:user-info")


@pytest.mark.parametrize(
    ("error", "mode"),
    [
        *(
            (forbidden_error(Denied(check(mode.action_verb("list")), "")), mode.value)
            for mode in ImpersonationMode
            if mode is not ImpersonationMode.LEGACY
        ),
        *(
            (forbidden_error(Denied(check(mode.identity_verb), "")), mode.value)
            for mode in ImpersonationMode
        ),
        (forbidden_error(Denied(check("impersonate-on:evil:list"), "")), "none"),
        (forbidden_error(Denied(check("evil"), "")), "none"),
        (forbidden_error(Denied(None, "because")), "none"),
        (Forbidden("acting with a protected group"), "none"),
    ],
)
def test_a_denial_belongs_to_the_mode_of_the_check_that_failed(
    metrics: RequestMetrics, registry: CollectorRegistry, error: StatusError, mode: str
) -> None:
    metrics.request_failed(error)

    values = {one: registry.get_sample_value(NAME, {"mode": one}) for one in MODES}
    assert {one for one, value in values.items() if value} == {mode}


NAME = "understudy_impersonation_denials_total"


def test_durations_are_of_those_that_do_not_last(
    metrics: RequestMetrics, registry: CollectorRegistry
) -> None:
    metrics.request_ended(("list", 200, False, None, False), 0.0015)
    metrics.request_ended(("list", 403, False, "none", False), 0.5)
    metrics.request_ended(("list", 200, True, None, False), 500)
    metrics.request_ended(("list", 200, False, None, False), 500)

    def value(name: str, **labels: str) -> float | None:
        labels["verb"] = "list"
        return registry.get_sample_value(f"understudy_request_duration_seconds_{name}", labels)

    assert value("count") == 3
    assert value("sum") == pytest.approx(500.5015)
    assert [value("bucket", le=le) for le in ("0.001", "0.002", "0.512", "65.536", "+Inf")] == [
        *(0, 1, 2, 2),
        3,
    ]


def test_what_is_in_no_set_is_called_other_and_takes_one_place(
    metrics: RequestMetrics, registry: CollectorRegistry
) -> None:
    for status in range(600, 1000):
        metrics.request_ended((f"evil-{status}", status, False, None, False), 0.1)

    labels = {"verb": OTHER, "code": OTHER, "long_running": "false"}
    assert registry.get_sample_value("understudy_requests_total", labels) == 400
    assert len(metrics._ended) == 1
