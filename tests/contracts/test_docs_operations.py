"""The operations pages answer each question of the KEP's Production Readiness Review."""

import re

import pytest

from tests.support.doc_references import ROOT

PAGES = ("production-readiness.md", "impersonation-usage.md")
READINESS = "\n".join((ROOT / "docs" / page).read_text() for page in PAGES)
# The KEP's question, and the words under which it is answered here.
QUESTIONS = {
    "How can it be enabled / disabled in a live cluster?": "switched on and off in a live cluster?",
    "Does enabling the feature change any default behavior?": "Does switching it on change",
    "Can the feature be disabled once it has been enabled?": "Can it be rolled back",
    "What happens if we reenable the feature?": "and switched on again?",
    "Are there any tests for feature enablement/disablement?": "tests/e2e/kep/test_upgrade.py",
    "How can a rollout or rollback fail?": "### How can a rollout fail",
    "What specific metrics should inform a rollback?": "### Which metrics inform a rollback?",
    "Were upgrade and rollback tested?": "tests the rollback and the return",
    "How can an operator determine if the feature is in use?": (
        "### Is it in use, and by which callers?"
    ),
    "How can someone know that it is working for their instance?": (
        "### Does it work for one caller?"
    ),
    "What are the reasonable SLOs?": "### Objectives and indicators",
    "What are the SLIs?": "| objective | indicator |",
    "Does this feature depend on any specific services?": "**Services:**",
    "Will it result in any new API calls?": "**Calls:**",
    "Will it result in new API types, objects, calls to the cloud?": "**New types, objects, calls",
    "Will it increase time taken by any operations?": "**Time of existing operations:**",
    "Can it result in resource exhaustion?": "**What can run out:**",
    "How does it react if the API server is unavailable?": "### What if the API server is unavail",
    "What are other known failure modes?": "### Which failures are known?",
    "What steps should be taken if SLOs are not being met?": "### What if objectives are not met?",
    "(ours) Is legacy impersonation left?": "### Is legacy impersonation still in use?",
}
# Questions whose answer is a figure.
ASKED = (
    "How can a rollout fail",
    "Which metrics inform a rollback",
    "Is it in use",
    "Is legacy impersonation",
    "Objectives and indicators",
    "What does it depend on",
    "What if the API server",
    "Is the proxy's credential misused",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_is_answered(question: str) -> None:
    assert QUESTIONS[question] in READINESS


@pytest.mark.parametrize("heading", ASKED)
def test_a_question_of_figures_comes_with_its_query(heading: str) -> None:
    parts = re.split(r"^#{2,3} ", READINESS, flags=re.MULTILINE)
    (part,) = [part for part in parts if part.startswith(heading)]

    assert "```promql" in part or "```sh" in part
