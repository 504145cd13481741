import json
from dataclasses import replace
from datetime import timedelta

import pytest

from proxy.core.audit.annotations import (
    Latencies,
    ResponseOutcome,
    annotations_template,
    format_annotations,
    format_latencies,
)
from proxy.core.audit.event import PLACEHOLDER
from proxy.core.errors import Forbidden
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import permit_self
from proxy.core.truncation import BoundedText
from proxy.core.userinfo import Caller, UserInfo, make_extra
from tests.core.audit.test_event import impersonation

BOB = Caller(UserInfo("bob"))
SECONDS = timedelta(seconds=1)


def told(piece: BoundedText) -> dict[str, str]:
    annotations: dict[str, str] = json.loads("{" + piece.text.removeprefix(",") + "}").get(
        "annotations", {}
    )
    assert list(annotations) == sorted(annotations)
    return {name.removeprefix("kube-understudy.io/"): text for name, text in annotations.items()}


def test_nothing_is_told_where_there_is_nothing_to_tell() -> None:
    assert format_annotations(None, None, reviews=0, outcome=None) == ("", ())
    assert format_annotations(permit_self(BOB), None, reviews=0, outcome=None) == ("", ())


def test_a_decision_tells_its_mode_and_where_its_answers_came_from() -> None:
    hit = format_annotations(
        impersonation(ImpersonationMode.USER_INFO), None, reviews=0, outcome=ResponseOutcome(200, 5)
    )
    miss = format_annotations(
        impersonation(ImpersonationMode.LEGACY), None, reviews=3, outcome=None
    )

    assert told(hit) == {
        "cache": "hit", "mode": "user-info", "response-bytes": "5", "reviews": "0",
        "upstream-code": "200",
    }  # fmt: skip
    assert told(miss) == {"cache": "miss", "mode": "legacy", "reviews": "3"}


def test_a_warning_is_told() -> None:
    permit = replace(impersonation(ImpersonationMode.LEGACY), warning="deprecated here")

    assert told(format_annotations(permit, None, reviews=0, outcome=None))["warning"] == (
        "deprecated here"
    )


def test_a_denial_tells_the_check_that_failed_first() -> None:
    error = Forbidden("no")
    error.failed_check = 'impersonate:user-info users "x"'

    text = format_annotations(None, error, reviews=2, outcome=ResponseOutcome(0, 9))

    assert told(text) == {
        "cache": "miss", "first-failed-check": 'impersonate:user-info users "x"',
        "response-bytes": "9", "reviews": "2",
    }  # fmt: skip


def test_a_denial_tells_whom_it_wanted_and_no_more_of_it_than_fits() -> None:
    wanted_user = UserInfo("alice", "7", ("dev",), make_extra({"k": ["v"]}))
    crowd = UserInfo("alice", groups=("x" * 100,) * 100)

    short = format_annotations(
        None, Forbidden("no"), reviews=0, outcome=None, wanted_user=wanted_user
    )
    long = format_annotations(None, Forbidden("no"), reviews=0, outcome=None, wanted_user=crowd)

    assert json.loads(told(short)["wanted"]) == {
        "username": "alice",
        "uid": "7",
        "groups": ["dev"],
        "extra": {"k": ["v"]},
    }
    cut = told(long)
    assert json.loads(cut["wanted"])["groups"][-1] == "...TRUNCATED"
    assert cut["audit.k8s.io/truncated"] == "true"
    assert list(json.loads(cut["truncated"])) == ["annotations.wanted.groups"]


def test_what_is_missing_is_told() -> None:
    ending = ResponseOutcome(200, 0, "the client disconnected", "cbor", "longer than 1 bytes", "")

    assert told(format_annotations(None, None, reviews=0, outcome=ending)) == {
        "incomplete": "the client disconnected",
        "request-body": "not recorded: cbor",
        "response-body": "not recorded: longer than 1 bytes",
        "response-bytes": "0",
        "upstream-code": "200",
    }


def test_a_long_request_tells_its_latencies_before_everything_else() -> None:
    latencies = format_latencies(Latencies(SECONDS * 1.5, 0.02, 0.5), verb="get")

    text = format_annotations(
        None, None, reviews=0, outcome=ResponseOutcome(200, 0, latencies=latencies)
    )

    prefix = "apiserver.latency.k8s.io/"
    assert told(text) == {
        f"{prefix}authentication": "20ms",
        f"{prefix}impersonation": "500ms",
        f"{prefix}total": "1.5s",
        "response-bytes": "0",
        "upstream-code": "200",
    }


@pytest.mark.parametrize(
    ("latencies", "verb", "layers"),
    [
        (Latencies(SECONDS * 0.5, 0.1, 0.1), "get", []),
        (Latencies(SECONDS * 0.501, 0.1, 0.1), "watch", []),
        (Latencies(SECONDS * 0.501, 0.1, None), "get", ["authentication", "total"]),
        (Latencies(SECONDS * 0.501, None, None), "get", ["total"]),
    ],
    ids=["short", "watch", "no-impersonation", "no-login"],
)
def test_latencies_are_told_as_natively(latencies: Latencies, verb: str, layers: list[str]) -> None:
    text = format_latencies(latencies, verb=verb)

    assert [name.rpartition("/")[2] for name in json.loads("{" + text + "}")] == layers


def test_the_template_of_plain_annotations_is_that_of_all_others() -> None:
    permit = replace(impersonation(ImpersonationMode.USER_INFO), warning="100 % <sure>, %d \0")

    before_size, before_code, end = annotations_template(permit).split(PLACEHOLDER)

    made = format_annotations(permit, None, reviews=0, outcome=ResponseOutcome(201, 5)).text
    assert f"{before_size}5{before_code}201{end}" == made
