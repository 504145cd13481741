"""Commit subjects are `area: imperative subject` of at most 72 characters, with a body."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The first commit that the rule applies to.
FIRST = "layout: move every module to the tree of the redesign"
SUBJECT = re.compile(r"[a-z][a-z0-9-]*(?:, [a-z0-9-]+)*: [a-z].*[^.]")
LONGEST = 72
# A verb in another form is a common slip: `adds`, `added`, `adding`.
NOT_IMPERATIVE = re.compile(
    r": (?:adds|added|adding|fixes|fixed|fixing|uses|used|moves|moved|removes|removed"
    r"|renames|renamed)\b"
)


def faults(subject: str, body: str) -> list[str]:
    """Return what is wrong with a commit message."""
    found = []
    if SUBJECT.fullmatch(subject) is None:
        found.append("the subject is not `area: subject` in lower case without a full stop")
    if len(subject) > LONGEST:
        found.append(f"the subject has {len(subject)} characters, {LONGEST} are allowed")
    if NOT_IMPERATIVE.search(subject):
        found.append("the subject is not imperative")
    if not body.strip():
        found.append("there is no body that says why")
    return found


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def test_commit_messages_follow_the_guide() -> None:
    first = _git("log", "--fixed-strings", f"--grep={FIRST}", "--format=%H").split()
    if not first:
        pytest.skip("not a clone with the history since the rule began")
    entries = _git("log", "--no-merges", "--format=%s%x00%b%x01", f"{first[-1]}^..HEAD")
    messages = [entry.strip("\n").split("\0") for entry in entries.split("\x01") if entry.strip()]

    assert messages
    assert {subject: found for subject, body in messages if (found := faults(subject, body))} == {}


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("Who has lost all others plays alone", "why"),
        ("bench: adds a row", "why"),
        ("bench: add a row.", "why"),
        ("bench: " + "x" * 70, "why"),
        ("bench: add a row", ""),
    ],
)
def test_a_bad_message_is_found(subject: str, body: str) -> None:
    assert faults(subject, body)


def test_a_good_message_passes() -> None:
    assert faults("upstream: retry idempotent requests once", "It was lost.") == []
