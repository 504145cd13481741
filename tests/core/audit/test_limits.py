"""Size limits of audit events: those without an authenticated caller are never the larger ones."""

from dataclasses import replace

import pytest

from proxy.core.audit.limits import (
    AGENT_BYTES,
    ANNOTATION_BYTES,
    NAME_BYTES,
    OBJECT_BYTES,
    WANTED_USER_BYTES,
    WRITTEN_AGENT_BYTES,
    EventLimits,
    ValueLimits,
)

LIMITS = EventLimits(uri_bytes=400, user_bytes=500, message_bytes=600, unauthenticated_bytes=100)
KIBIBYTE = 1024
SIZES = ("uri_bytes", "user_bytes", "message_bytes", "unauthenticated_bytes")


def grown(limits: EventLimits, name: str) -> EventLimits:
    """Return limits of which one is a kibibyte larger."""
    return replace(limits, **{name: getattr(limits, name) + KIBIBYTE})


def test_authenticated_limits_are_the_configured_ones() -> None:
    assert LIMITS.authenticated == ValueLimits(uri=400, user=500, message=600)


@pytest.mark.parametrize(
    ("unauthenticated_bytes", "expected"),
    [
        (100, ValueLimits(uri=100, user=100, message=100)),
        (450, ValueLimits(uri=400, user=450, message=450)),
        (550, ValueLimits(uri=400, user=500, message=550)),
        (9000, ValueLimits(uri=400, user=500, message=600)),
    ],
)
def test_unauthenticated_limit_never_raises_another_limit(
    unauthenticated_bytes: int, expected: ValueLimits
) -> None:
    limits = replace(LIMITS, unauthenticated_bytes=unauthenticated_bytes)

    assert limits.unauthenticated == expected
    assert limits.authenticated == LIMITS.authenticated


@pytest.mark.parametrize(
    ("name", "authenticated_growth", "unauthenticated_growth"),
    [
        ("uri_bytes", KIBIBYTE, 0),
        # Two users are written: the caller and the impersonated user.
        ("user_bytes", 2 * KIBIBYTE, 0),
        ("message_bytes", KIBIBYTE, 0),
        ("unauthenticated_bytes", 0, 2 * KIBIBYTE),
    ],
)
def test_upper_bound_of_an_event_grows_with_the_values_that_it_holds(
    name: str, authenticated_growth: int, unauthenticated_growth: int
) -> None:
    limits = EventLimits(unauthenticated_bytes=KIBIBYTE)

    larger = grown(limits, name)

    growth = larger.max_authenticated_bytes - limits.max_authenticated_bytes
    assert growth == authenticated_growth
    growth = larger.max_unauthenticated_bytes - limits.max_unauthenticated_bytes
    assert growth == unauthenticated_growth


def test_upper_bounds_have_space_for_every_value_at_its_limit() -> None:
    limits = EventLimits()
    common = WRITTEN_AGENT_BYTES + OBJECT_BYTES
    known, unknown = limits.authenticated, limits.unauthenticated

    assert limits.max_authenticated_bytes > (
        common + known.uri + 2 * known.user + known.message + 2 * WANTED_USER_BYTES
    )
    assert limits.max_unauthenticated_bytes > (
        common + unknown.uri + unknown.message + ANNOTATION_BYTES
    )


def test_event_without_a_caller_is_bounded_well_below_one_with_a_caller() -> None:
    limits = EventLimits()

    assert limits.max_unauthenticated_bytes < limits.max_authenticated_bytes / 10


@pytest.mark.parametrize("name", SIZES)
def test_upper_bounds_hold_without_any_configurable_value(name: str) -> None:
    limits = EventLimits(0, 0, 0, 0)

    assert limits.max_unauthenticated_bytes < limits.max_authenticated_bytes
    larger = grown(limits, name)
    assert larger.max_unauthenticated_bytes < larger.max_authenticated_bytes


def test_object_reference_has_space_for_eight_truncated_names() -> None:
    assert OBJECT_BYTES > 8 * NAME_BYTES
    assert NAME_BYTES >= 253
    assert WRITTEN_AGENT_BYTES >= AGENT_BYTES
