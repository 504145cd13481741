"""What is counted of requests, and what it is called."""

import pytest
from prometheus_client import CollectorRegistry

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.errors import Forbidden, Refusal
from proxy.core.impersonation.evaluation import Denied, forbidden
from proxy.core.impersonation.modes import Mode
from proxy.core.userinfo import Identity
from proxy.telemetry.metrics.requests import (
    MODES,
    OTHER,
    REASONS,
    RequestMetrics,
    _reason,
)
from proxy.wire.http1.body import BodyError
from proxy.wire.http1.message import HeadTooLarge, UnknownExpectation

BOB = Identity("bob")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> RequestMetrics:
    return RequestMetrics(registry)


def all_refusals(kind: type[Refusal] = Refusal) -> list[type[Refusal]]:
    return [one for sub in kind.__subclasses__() for one in (sub, *all_refusals(sub))]


@pytest.mark.parametrize("kind", sorted(set(all_refusals()), key=str), ids=lambda one: one.__name__)
def test_every_refusal_has_a_reason_of_its_own_kind(kind: type[Refusal]) -> None:
    refusal = kind.__new__(kind)

    assert _reason(refusal) in REASONS - {OTHER}


def test_those_of_the_wire_are_bad_requests() -> None:
    for kind in (HeadTooLarge, UnknownExpectation, BodyError):
        assert _reason(kind.__new__(kind)) == "bad-request"


def check(verb: str) -> AccessCheck:
    return AccessCheck(BOB, verb, resource="pods", name="impersonate:user-info")


@pytest.mark.parametrize(
    ("refusal", "mode"),
    [
        *(
            (forbidden(Denied(check(mode.action_verb("list")), "")), mode.value)
            for mode in Mode
            if mode is not Mode.LEGACY
        ),
        *((forbidden(Denied(check(mode.identity_verb), "")), mode.value) for mode in Mode),
        (forbidden(Denied(check("impersonate-on:evil:list"), "")), "none"),
        (forbidden(Denied(check("evil"), "")), "none"),
        (forbidden(Denied(None, "because")), "none"),
        (Forbidden("acting with a protected group"), "none"),
    ],
)
def test_a_denial_belongs_to_the_mode_of_the_check_that_failed(
    metrics: RequestMetrics, registry: CollectorRegistry, refusal: Refusal, mode: str
) -> None:
    metrics.request_refused(refusal)

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
