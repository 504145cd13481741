from typing import Any

import pytest

from proxy.core.access_check import AccessCheck
from proxy.core.access_review import read_answer, review_document
from proxy.core.action import parse_action
from proxy.core.evaluation import Answer
from proxy.core.identity import Identity, extra_of
from proxy.core.plan import check_on

BOB = Identity("bob", "7", ("dev",), extra_of({"k": ["v"]}))


def asked(check: AccessCheck) -> Any:
    return review_document(check)["spec"]


def test_the_user_is_shown_with_all_its_parts() -> None:
    check = AccessCheck(BOB, "get", is_resource=False, path="/version")

    assert asked(check) == {
        "user": "bob",
        "uid": "7",
        "groups": ["dev"],
        "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/version", "verb": "get"},
    }
    assert asked(AccessCheck(Identity("x"), "get", path="/"))["user"] == "x"
    assert "extra" not in asked(AccessCheck(Identity("x"), "get", path="/"))


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
    action = parse_action(b"GET", b"/apis/apps/v1/namespaces/a/deployments" + query)

    assert asked(check_on(action, "list", user=BOB))["resourceAttributes"] == {
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
    ("status", "answer"),
    [
        ({"allowed": True, "reason": "because"}, Answer(allowed=True, reason="because")),
        ({"allowed": True, "denied": True}, Answer(allowed=False)),
        ({"allowed": "true"}, Answer(allowed=False)),
        ({"evaluationError": "boom"}, Answer(allowed=False, error="boom")),
    ],
)
def test_only_a_clear_yes_is_one(status: dict[str, object], answer: Answer) -> None:
    assert read_answer({"status": status}) == answer
