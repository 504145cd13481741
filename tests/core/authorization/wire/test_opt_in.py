from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.authorization.wire.fields import InvalidReview
from proxy.core.authorization.wire.opt_in import (
    DECISION_TYPES,
    ConditionsReviewConfig,
    Dialect,
    OptIn,
    encode_conditions_review,
    encode_opt_in,
    parse_conditions_review,
    parse_opt_in,
)

HANDLED = "spec.authorizationOptions.handledDecisionTypes"


def seed(mode: object) -> dict[str, Any]:
    return {"conditionalAuthorization": {"mode": mode}}


def wip(types: object) -> dict[str, Any]:
    return {"authorizationOptions": {"handledDecisionTypes": types}}


@pytest.mark.parametrize(
    ("spec", "opt_in"),
    [
        ({}, OptIn()),
        ({"conditionalAuthorization": None}, OptIn()),
        ({"conditionalAuthorization": {}}, OptIn()),
        (seed(""), OptIn()),
        (seed("HumanReadable"), OptIn(Dialect.SEED, "HumanReadable")),
        (seed("Optimized"), OptIn(Dialect.SEED, "Optimized")),
        (
            {"conditionalAuthorization": {"mode": "Optimized", "more": 1}},
            OptIn(Dialect.SEED, "Optimized"),
        ),
        (wip(list(DECISION_TYPES)), OptIn(Dialect.WIP)),
        (wip([*DECISION_TYPES, "Future"]), OptIn(Dialect.WIP)),
        (wip(["Allow", "Deny", "NoOpinion"]), OptIn()),
        (wip(["Allow", "Deny", "NoOpinion", "ConditionsMap"]), OptIn()),
        (wip(["Future", "Allow", "Deny", "NoOpinion"]), OptIn()),
    ],
)
def test_what_a_review_asks_for(spec: dict[str, Any], opt_in: OptIn) -> None:
    assert parse_opt_in(spec) == opt_in


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        pytest.param(wip(None), f"{HANDLED}: Required value", id="4.3 absent"),
        pytest.param(wip([]), f"{HANDLED}: Required value", id="4.3 empty"),
        pytest.param(
            wip(["Deny", "Allow"]),
            f'{HANDLED}: Invalid value: ["Allow", "Deny"]:'
            " set must at least contain {Allow, Deny, NoOpinion}",
            id="4.3 superset",
        ),
        pytest.param(
            wip(["Allow", "Allow"]),
            f'{HANDLED}[1]: Invalid value: "Allow": must not be repeated',
            id="4.2 no repeats",
        ),
        pytest.param(
            wip([f"T{number}" for number in range(33)]),
            f"{HANDLED}: Too many: 33: must have at most 32 items",
            id="4.2 size",
        ),
        pytest.param(wip([1]), f"{HANDLED}[0]: Invalid value: 1: must be a string", id="type"),
        pytest.param(
            seed("Fast"),
            'spec.conditionalAuthorization.mode: Unsupported value: "Fast":'
            ' supported values: "HumanReadable", "Optimized"',
            id="unknown mode",
        ),
        pytest.param(
            seed("Optimized") | wip(list(DECISION_TYPES)),
            "spec.conditionalAuthorization: Forbidden: must not be set beside authorizationOptions",
            id="both",
        ),
    ],
)
def test_what_a_review_cannot_ask_for(spec: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidReview) as raised:
        parse_opt_in(spec)

    assert str(raised.value) == error


@given(st.sampled_from(Dialect))
def test_an_opt_in_is_read_as_it_is_written(dialect: Dialect) -> None:
    assert parse_opt_in(encode_opt_in(dialect)).dialect is dialect


@given(
    st.one_of(
        st.builds(ConditionsReviewConfig, st.just(Dialect.SEED), st.text(min_size=1)),
        st.builds(ConditionsReviewConfig, st.just(Dialect.WIP), st.text()),
    )
)
def test_a_configuration_is_read_as_it_is_written(config: ConditionsReviewConfig) -> None:
    assert parse_conditions_review(encode_conditions_review(config)) == config


def test_a_webhook_without_the_members_evaluates_nothing() -> None:
    assert parse_conditions_review({"timeout": "3s"}) is None


@pytest.mark.parametrize(
    ("webhook", "error"),
    [
        ({"conditionsReview": {}}, "webhook.conditionsReview.version: Required value"),
        (
            {"conditionsReview": {"version": "v1"}},
            'webhook.conditionsReview.version: Unsupported value: "v1":'
            ' supported values: "v1alpha1"',
        ),
        (
            {
                "conditionsReview": {"version": "v1alpha1"},
                "conditionsEndpointKubeConfigContext": "x",
            },
            "webhook.conditionsEndpointKubeConfigContext: Forbidden:"
            " must not be set beside conditionsReview",
        ),
    ],
)
def test_a_configuration_that_is_not_valid(webhook: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidReview) as raised:
        parse_conditions_review(webhook)

    assert str(raised.value) == error
