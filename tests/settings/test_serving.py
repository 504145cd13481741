"""The `serving` section: bounds of its limits, and a shutdown that fits its grace period."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from proxy.settings.serving import ServingLimitSettings, ServingSettings, ShutdownSettings

FILES = {"certificateFile": "tls.crt", "keyFile": "tls.key"}
# The grace period of a pod that sets none.
POD_GRACE_SECONDS = 30


def read(**keys: object) -> ServingSettings:
    return ServingSettings.model_validate({**FILES, **keys})


def limit(key: str, value: object) -> object:
    """Return a limit as it was read under its key."""
    limits = ServingLimitSettings.model_validate({key: value})
    return limits.model_dump(by_alias=True)[key]


def test_data_port_listens_on_every_address_by_default() -> None:
    settings = read()

    assert settings.address == ("0.0.0.0", 8443)
    assert (settings.certificate_file, settings.key_file) == (Path("tls.crt"), Path("tls.key"))
    assert read(address="[::1]:0").address == ("::1", 0)


@pytest.mark.parametrize("missing", FILES)
def test_serving_without_certificate_or_key_is_an_error(missing: str) -> None:
    keys = {key: file for key, file in FILES.items() if key != missing}

    with pytest.raises(ValidationError, match="Field required") as raised:
        ServingSettings.model_validate(keys)
    assert [error["loc"] for error in raised.value.errors()] == [(missing,)]


def test_one_limit_is_set_without_the_others() -> None:
    settings = read(certificateRefresh="1m", limits={"idleTimeout": "5m", "connections": 7})

    assert settings.certificate_refresh_seconds == 60.0
    assert settings.limits.idle_timeout_seconds == 300.0
    assert settings.limits.connections == 7
    assert settings.limits.reads_in_flight == 400
    assert settings.limits.writes_in_flight == 200


@pytest.mark.parametrize(
    "key",
    [
        "unauthenticatedBytes",
        "connections",
        "connectionsPerAddress",
        "readsInFlight",
        "writesInFlight",
    ],
)
def test_count_is_at_least_one(key: str) -> None:
    assert limit(key, 1) == 1
    for value in (0, -1, 1.5, "many"):
        with pytest.raises(ValidationError):
            limit(key, value)


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [
        ("unauthenticatedAddressPercent", 1, 100),
        ("callerPercent", 1, 100),
        ("headerLines", 64, 4096),
        ("headerLineBytes", 96 * 1024, 1024 * 1024),
        ("targetBytes", 8192, 1024 * 1024),
        ("selectorTerms", 64, 10_000),
        ("handshakeBytes", 4096, 32_768),
    ],
)
def test_bounded_limit_accepts_its_bounds_and_nothing_beyond(
    key: str, least: int, most: int
) -> None:
    assert (limit(key, least), limit(key, most)) == (least, most)
    for value in (least - 1, most + 1):
        with pytest.raises(ValidationError, match="Input should be"):
            limit(key, value)


def test_zero_long_running_requests_means_no_limit_and_less_is_an_error() -> None:
    assert ServingLimitSettings().caller_long_running == 0
    assert limit("callerLongRunning", 0) == 0
    with pytest.raises(ValidationError):
        limit("callerLongRunning", -1)


@pytest.mark.parametrize(
    "key",
    [
        "handshakeTimeout",
        "readHeaderTimeout",
        "idleTimeout",
        "unauthenticatedIdleTimeout",
        "responseProgressTimeout",
        "unauthenticatedSlice",
    ],
)
def test_deadline_of_zero_is_an_error(key: str) -> None:
    assert limit(key, "1ms") == 0.001
    with pytest.raises(ValidationError, match="greater than 0"):
        limit(key, "0s")


def test_default_shutdown_ends_within_the_grace_period_of_a_pod() -> None:
    shutdown = ShutdownSettings()

    assert shutdown.delay_seconds + shutdown.watch_window_seconds < shutdown.grace_period_seconds
    assert shutdown.grace_period_seconds < POD_GRACE_SECONDS


@pytest.mark.parametrize(
    ("delay", "window", "grace"),
    [("5s", "5s", "10s"), ("0s", "0s", "1ms"), ("10s", "0s", "10s")],
)
def test_shutdown_may_use_its_whole_grace_period(delay: str, window: str, grace: str) -> None:
    keys = {"delay": delay, "watchWindow": window, "gracePeriod": grace}

    shutdown = ShutdownSettings.model_validate(keys)

    assert shutdown.delay_seconds + shutdown.watch_window_seconds <= shutdown.grace_period_seconds


@pytest.mark.parametrize(
    ("delay", "window", "grace"),
    [("5s", "5001ms", "10s"), ("11s", "0s", "10s"), ("0s", "11s", "10s")],
)
def test_shutdown_that_exceeds_its_grace_period_is_an_error(
    delay: str, window: str, grace: str
) -> None:
    keys = {"delay": delay, "watchWindow": window, "gracePeriod": grace}

    with pytest.raises(ValidationError, match="together must not exceed gracePeriod"):
        ShutdownSettings.model_validate(keys)
