"""Comparing the reviews that both sides' authorizers were asked for.

A native server asks one question after the other. The proxy asks some ahead of time and asks two
equal ones once, so on its side every native question must be there, and what is there besides must
be a question that the same mode would have come to.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tests.parity.webhook import Review

_IDENTITY_RESOURCES = frozenset(
    {"users", "nodes", "serviceaccounts", "uids", "groups", "userextras"}
)


def compare_reviews(
    reference: Sequence[Review],
    subject: Sequence[Review],
    *,
    earlier: Iterable[Review],
    is_proxied: bool,
) -> str | None:
    """Return what is wrong with the subject's reviews, or None.

    `earlier` are native ones of requests before: what was asked ahead for them may come in late.
    """
    if not is_proxied:
        return _compare_native(reference, subject)
    wanted = {_text(review) for review in reference}
    asked = {_text(review) for review in subject}
    missing = wanted - asked
    if missing:
        return f" not asked:{_listed(missing)}"
    besides = [review for review in subject if _text(review) not in wanted]
    stray = {_text(review) for review in besides if not _is_ahead(review, [*reference, *earlier])}
    return f" asked without need:{_listed(stray)}" if stray else None


def about(reviews: Sequence[Review], user: str) -> list[Review]:
    """Return the reviews about one user that are about impersonation."""
    return [
        review
        for review in reviews
        if review.get("user") == user and _verb(review).startswith("impersonate")
    ]


def _compare_native(reference: Sequence[Review], subject: Sequence[Review]) -> str | None:
    if sorted(map(_text, reference)) == sorted(map(_text, subject)):
        return None
    return (
        f"reference asked {_listed(map(_text, reference))}, subject {_listed(map(_text, subject))}"
    )


def _is_ahead(review: Review, reference: Sequence[Review]) -> bool:
    """Tell whether native began to ask about identity in this mode, and might have asked this."""
    if _attributes(review).get("resource") not in _IDENTITY_RESOURCES:
        return False
    return any(_verb(other) == _verb(review) and _who(other) == _who(review) for other in reference)


def _verb(review: Review) -> str:
    verb: str = _attributes(review).get("verb", "")
    return verb


def _who(review: Review) -> str:
    return json.dumps([review.get(key) for key in ("user", "uid", "groups", "extra")])


def _attributes(review: Review) -> dict[str, Any]:
    found: dict[str, Any] = review.get("resourceAttributes") or review["nonResourceAttributes"]
    return found


def _text(review: Review) -> str:
    """Return a review as text that is equal when it asks the same.

    A review of the API cannot ask about no version at all: natively none, it is any there.
    """
    attributes = dict(_attributes(review))
    if "resourceAttributes" in review and attributes.get("version", "") == "":
        attributes["version"] = "*"
    who = {key: value for key, value in review.items() if not key.endswith("Attributes")}
    return json.dumps({**who, "asks": attributes}, sort_keys=True, ensure_ascii=False)


def _listed(texts: Any) -> str:
    return "\n    ".join(["", *sorted(texts)])
