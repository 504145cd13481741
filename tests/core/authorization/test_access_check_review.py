import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.authorization.access_check import (
    ESCAPED_BYTES,
    AccessCheck,
    CheckResult,
    is_review_larger_than,
    parse_review_status,
    subject_access_review,
)
from proxy.core.impersonation.checks import access_check_for
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.requestinfo.selectors import FieldRequirement, LabelRequirement
from proxy.core.userinfo import UserInfo, make_extra

BOB = UserInfo("bob", "7", ("dev",), make_extra({"k": ["v"]}))


def asked(check: AccessCheck) -> Any:
    return subject_access_review(check)["spec"]


def test_the_user_is_shown_with_all_its_parts() -> None:
    check = AccessCheck(BOB, "get", is_resource=False, path="/version")

    assert asked(check) == {
        "user": "bob",
        "uid": "7",
        "groups": ["dev"],
        "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/version", "verb": "get"},
    }
    assert asked(AccessCheck(UserInfo("x"), "get", path="/"))["user"] == "x"
    assert "extra" not in asked(AccessCheck(UserInfo("x"), "get", path="/"))


@pytest.mark.parametrize(
    ("query", "selectors"),
    [
        (b"", {}),
        (
            b"?fieldSelector=a=b",
            {"fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}},
        ),
        (b"?fieldSelector==b", {"fieldSelector": {"rawSelector": "=b"}}),
        (
            b"?labelSelector=a",
            {"labelSelector": {"requirements": [{"key": "a", "operator": "Exists", "values": []}]}},
        ),
    ],
)
def test_selectors_are_asked_as_they_are(query: bytes, selectors: dict[str, object]) -> None:
    request_info = parse_request_info(b"GET", b"/apis/apps/v1/namespaces/a/deployments" + query)

    assert asked(access_check_for(request_info, "list", user=BOB))["resourceAttributes"] == {
        "namespace": "a",
        "verb": "list",
        "group": "apps",
        "version": "v1",
        "resource": "deployments",
        "subresource": "",
        "name": "",
        **selectors,
    }


@pytest.mark.parametrize(
    ("status", "result"),
    [
        ({"allowed": True, "reason": "because"}, CheckResult(allowed=True, reason="because")),
        ({"allowed": True, "denied": True}, CheckResult(allowed=False)),
        ({"allowed": "true"}, CheckResult(allowed=False)),
        ({"evaluationError": "boom"}, CheckResult(allowed=False, error="boom")),
    ],
)
def test_only_a_clear_yes_is_one(status: dict[str, object], result: CheckResult) -> None:
    assert parse_review_status({"status": status}) == result


TEXT = st.text(max_size=20)
TEXTS = st.lists(TEXT, max_size=5).map(tuple)
USERS = st.builds(
    UserInfo, TEXT, TEXT, TEXTS, st.dictionaries(TEXT, TEXTS, max_size=3).map(make_extra)
)
CHECKS = st.builds(
    AccessCheck,
    USERS,
    TEXT,
    is_resource=st.booleans(),
    name=TEXT,
    namespace=TEXT,
    path=TEXT,
    fields=st.lists(st.builds(FieldRequirement, TEXT, st.just("="), TEXT), max_size=4).map(tuple),
    labels=st.lists(
        st.builds(LabelRequirement, TEXT, st.sampled_from(["in", "!"]), TEXTS), max_size=4
    ).map(tuple),
)


@given(CHECKS, st.integers(min_value=600, max_value=3000))
def test_a_review_that_is_not_too_large_has_at_most_its_bytes_when_it_is_escaped(
    check: AccessCheck, most: int
) -> None:
    if not is_review_larger_than(check, most):
        assert len(json.dumps(subject_access_review(check))) <= ESCAPED_BYTES * most


@pytest.mark.parametrize(
    "large",
    [
        AccessCheck(UserInfo("x" * 5000), "get"),
        AccessCheck(UserInfo("x", "u" * 5000), "get"),
        AccessCheck(UserInfo("x", groups=("g",) * 1500), "get"),
        AccessCheck(UserInfo("x", groups=("g" * 5000,)), "get"),
        AccessCheck(UserInfo("x", extra=make_extra({"k": ["v"] * 1500})), "get"),
        AccessCheck(UserInfo("x", extra=make_extra({"k" * 5000: []})), "get"),
        AccessCheck(UserInfo("x"), "get", path="/" * 5000, is_resource=False),
        AccessCheck(UserInfo("x"), "get", name="n" * 5000),
        AccessCheck(UserInfo("x"), "get", name="\N{SNOWMAN}" * 1700),
        AccessCheck(UserInfo("x"), "get", labels=(LabelRequirement("a", "exists", ()),) * 100),
        AccessCheck(UserInfo("x"), "get", labels=(LabelRequirement("a", "in", ("b",) * 1500),)),
        AccessCheck(UserInfo("x"), "get", labels=(LabelRequirement("a", "in", ("b" * 5000,)),)),
        AccessCheck(UserInfo("x"), "get", fields=(FieldRequirement("a", "=", "b"),) * 100),
        AccessCheck(UserInfo("x"), "get", fields=(FieldRequirement("a", "=", "b" * 5000),)),
    ],
)
def test_whatever_makes_a_review_large_is_counted(large: AccessCheck) -> None:
    assert is_review_larger_than(large, 5000)
    assert not is_review_larger_than(large, 100_000)


def test_the_size_of_a_large_review_is_found_without_looking_at_all_of_it() -> None:
    labels = tuple(LabelRequirement("a", "exists", ()) for _ in range(500_000))
    check = AccessCheck(UserInfo("x"), "get", labels=labels)

    started = time.thread_time()
    assert is_review_larger_than(check, 262_144)

    assert time.thread_time() - started < 0.001
