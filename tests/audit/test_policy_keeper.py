import logging
from pathlib import Path

import pytest

from proxy.audit.book import AuditBook
from proxy.audit.policy_keeper import PolicyKeeper
from proxy.core.audit_policy import AuditPolicy
from proxy.settings.audit_policy import load_audit_policy

GOOD = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]"


class Counts:
    def __init__(self) -> None:
        self.outcomes: list[bool] = []

    def audit_policy_read(self, *, used: bool) -> None:
        self.outcomes.append(used)


class Nowhere:
    def write(self, line: bytes) -> None:
        raise AssertionError(line)


async def test_a_good_file_is_used_and_a_bad_one_leaves_the_old_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    book, counts = AuditBook(Nowhere(), AuditPolicy([]), body_bytes=1, clock=lambda: 0.0), Counts()
    keeper, first = PolicyKeeper(book, load_audit_policy, counts), book.policy
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("level", "levle"))

    await keeper.look(good)
    second = book.policy
    await keeper.look(bad)
    await keeper.look(tmp_path / "absent")

    assert second is not first
    assert book.policy is second
    assert counts.outcomes == [True, False, False]
    used, refused, absent = caplog.records
    assert (used.getMessage(), used.levelname) == ("audit policy reloaded", "INFO")
    assert (refused.getMessage(), refused.levelname) == ("audit policy not reloaded", "ERROR")
    assert any("rules.0.levle" in line for line in vars(refused)["understudy_fields"]["problems"])
    assert absent.levelname == "ERROR"
