"""The decision core against the native server's own code, on generated requests."""

import re
from dataclasses import replace

import pytest

from proxy.core.gocompat.quote import go_quote
from tests.go_oracle.account import Account
from tests.go_oracle.campaign import Report, run_campaign
from tests.go_oracle.cases import Sequence
from tests.go_oracle.ours import play
from tests.support.build_once import built_by_go
from tests.support.oracle import SOURCE, running_oracle

CASES = 20_000
SMALLEST = re.compile(
    r"GET / HTTP/1.1\\r\\nHost: server\\r\\nImpersonate-User: [\w:.-]+\\r\\n\\r\\n'"
)
# Building the oracle takes minutes on a machine that has built no control plane before.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def built_oracle() -> None:
    built_by_go("oracle", SOURCE)


@pytest.fixture(scope="module")
def report() -> Report:
    with running_oracle() as oracle:
        return run_campaign(oracle, seed=20_000, cases=CASES)


def test_the_core_decides_every_odd_request_as_the_native_server_does(report: Report) -> None:
    print(f"fuzz: {report}")  # noqa: T201 - the figures belong into the test's record

    assert report.reproductions == []
    assert report.cases == CASES


def test_the_odd_requests_meet_every_mode_every_refusal_and_every_deviation(
    report: Report,
) -> None:
    assert {
        "impersonate:associated-node",
        "impersonate:arbitrary-node",
        "impersonate:serviceaccount",
        "impersonate:user-info",
        "legacy",
        "passed",
        "remembered",
        "400",
        "403",
        "500",
    } <= set(report.outcomes)
    assert {"a", "b", "c", "d", "g", "i"} <= set(report.deviations)


def test_a_wrong_decision_is_noticed_and_told_in_its_smallest_form() -> None:
    with running_oracle() as oracle:
        report = run_campaign(oracle, seed=1, cases=1_000, player=_forget_implied_group)

    assert report.disagreements > 0
    for reproduction in report.reproductions:
        assert SMALLEST.search(reproduction), reproduction
        assert "ran_as:\n  native UserInfo(name=" in reproduction


def test_quoting_is_gos_for_every_character_and_for_bytes_that_are_none() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    # Each character is quoted by itself, so that a long text of them tells as much as many short.
    texts = ["".join(characters[start : start + 256]).encode() for start in range(0, 0x110000, 256)]
    texts += [bytes((first, second)) for first in range(256) for second in (0x41, 0x80, 0xBF)]
    texts += [b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x28\xa1", b"\xf0\x9f\x98"]

    with running_oracle() as oracle:
        quoted = oracle.quote(texts)

    ours = [go_quote(text.decode("utf-8", "surrogateescape")) for text in texts]
    assert ours == quoted


def _forget_implied_group(sequence: Sequence) -> list[Account]:
    """Play a sequence with one mistake: impersonated users lack their implied group."""
    return [
        account
        if account.ran_as is None or not account.checks
        else account._replace(ran_as=replace(account.ran_as, groups=account.ran_as.groups[:-1]))
        for account in play(sequence)
    ]
