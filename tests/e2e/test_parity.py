"""The parity run in small: native servers agree with each other, and the proxy with them."""

import pytest

from proxy.sandbox.programs.binaries import Binaries
from tests.parity.arena import Variant
from tests.parity.campaign import Report, run_campaign
from tests.support.sizes import IS_SOAKING, SOAK_SECONDS, sized, soak

# The tour alone has 132 cases in its longer half; the rest is left to chance.
CASES = 300
SEED = 5284
# Servers between the oldest and the newest one, each with a control plane of its own.
between = pytest.mark.skipif(not IS_SOAKING, reason="make soak runs it")


def run(binaries: Binaries, variant: Variant, cases: int = CASES) -> Report:
    return run_campaign(binaries, variant, seed=SEED, cases=cases, announce=lambda _: None)


def check_no_difference(report: Report) -> None:
    assert report.reproductions == []
    assert report.differences == 0
    assert report.coverage.missing() == []


@pytest.mark.timeout(300)
def test_two_native_servers_do_not_differ(binaries: Binaries) -> None:
    report = run(binaries, Variant(is_self=True))

    check_no_difference(report)
    assert report.deviations == {}


@soak
@pytest.mark.timeout(SOAK_SECONDS)
def test_the_proxy_does_as_the_native_server(binaries: Binaries) -> None:
    cases = sized(CASES, full=10_000)

    report = run(binaries, Variant(), cases)

    check_no_difference(report)
    assert report.cases == cases
    assert report.deviations.keys() >= set("abcdefgij")


@soak
@pytest.mark.timeout(SOAK_SECONDS)
@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(Variant(gate=False), id="constrained-off"),
        pytest.param(Variant(upstream_gate=True), id="filter-on-behind-the-proxy"),
        pytest.param(Variant(upstream_version="1.34"), id="before-1.34"),
        pytest.param(Variant(upstream_version="1.35"), id="before-1.35", marks=between),
        pytest.param(Variant(upstream_version="1.36"), id="before-1.36", marks=between),
    ],
)
def test_the_proxy_does_as_the_native_server_before_other_servers(
    binaries: Binaries, variant: Variant
) -> None:
    check_no_difference(run(binaries, variant))
