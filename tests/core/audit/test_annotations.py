import json
from dataclasses import replace
from datetime import timedelta

import pytest

from proxy.core.audit.annotations import (
    Ending,
    Latencies,
    annotations_text,
    latencies_text,
    plain_annotations,
)
from proxy.core.errors import Forbidden
from proxy.core.impersonation.modes import Mode
from proxy.core.impersonation.permit import admit_self
from proxy.core.truncation import Piece
from proxy.core.userinfo import Caller, Identity, extra_of
from tests.core.audit.test_event import impersonation

BOB = Caller(Identity("bob"))
SECONDS = timedelta(seconds=1)


def told(piece: Piece) -> dict[str, str]:
    annotations: dict[str, str] = json.loads("{" + piece.text.removeprefix(",") + "}").get(
        "annotations", {}
    )
    assert list(annotations) == sorted(annotations)
    return {name.removeprefix("kube-understudy.io/"): text for name, text in annotations.items()}


def test_nothing_is_told_where_there_is_nothing_to_tell() -> None:
    assert annotations_text(None, None, reviews=0, ending=None) == ("", ())
    assert annotations_text(admit_self(BOB), None, reviews=0, ending=None) == ("", ())


def test_a_decision_tells_its_mode_and_where_its_answers_came_from() -> None:
    hit = annotations_text(impersonation(Mode.USER_INFO), None, reviews=0, ending=Ending(200, 5))
    miss = annotations_text(impersonation(Mode.LEGACY), None, reviews=3, ending=None)

    assert told(hit) == {
        "cache": "hit", "mode": "user-info", "response-bytes": "5", "reviews": "0",
        "upstream-code": "200",
    }  # fmt: skip
    assert told(miss) == {"cache": "miss", "mode": "legacy", "reviews": "3"}


def test_a_warning_is_told() -> None:
    admission = replace(impersonation(Mode.LEGACY), warning="deprecated here")

    assert told(annotations_text(admission, None, reviews=0, ending=None))["warning"] == (
        "deprecated here"
    )


def test_a_denial_tells_the_check_that_failed_first() -> None:
    refusal = Forbidden("no")
    refusal.failed_check = 'impersonate:user-info users "x"'

    text = annotations_text(None, refusal, reviews=2, ending=Ending(0, 9))

    assert told(text) == {
        "cache": "miss", "first-failed-check": 'impersonate:user-info users "x"',
        "response-bytes": "9", "reviews": "2",
    }  # fmt: skip


def test_a_denial_tells_whom_it_wanted_and_no_more_of_it_than_fits() -> None:
    wanted = Identity("alice", "7", ("dev",), extra_of({"k": ["v"]}))
    crowd = Identity("alice", groups=("x" * 100,) * 100)

    short = annotations_text(None, Forbidden("no"), reviews=0, ending=None, wanted=wanted)
    long = annotations_text(None, Forbidden("no"), reviews=0, ending=None, wanted=crowd)

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
    ending = Ending(200, 0, "the client has left", "cbor", "longer than 1 bytes", "")

    assert told(annotations_text(None, None, reviews=0, ending=ending)) == {
        "incomplete": "the client has left",
        "request-body": "not recorded: cbor",
        "response-body": "not recorded: longer than 1 bytes",
        "response-bytes": "0",
        "upstream-code": "200",
    }


def test_a_long_request_tells_its_latencies_before_everything_else() -> None:
    latencies = latencies_text(Latencies(SECONDS * 1.5, 0.02, 0.5), verb="get")

    text = annotations_text(None, None, reviews=0, ending=Ending(200, 0, latencies=latencies))

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
    text = latencies_text(latencies, verb=verb)

    assert [name.rpartition("/")[2] for name in json.loads("{" + text + "}")] == layers


def test_the_pattern_of_plain_annotations_is_that_of_all_others() -> None:
    admission = replace(impersonation(Mode.USER_INFO), warning="100 % <sure>, %d")

    made = plain_annotations(admission) % (5, 201)

    assert made == annotations_text(admission, None, reviews=0, ending=Ending(201, 5)).text
