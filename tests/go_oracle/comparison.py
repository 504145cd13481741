"""Is our answer the native one, or one of the deviations that we list?"""

import json
from typing import NamedTuple

import yaml

from tests.go_oracle.account import Account, native_account
from tests.go_oracle.cases import Sequence, Step
from tests.go_oracle.deviations import (
    ALWAYS_JSON,
    PROTECTED_GROUP,
    REFUSED_REQUEST,
    UNSAFE_TEXT,
    may_be_refused_request,
    refused_header,
    refused_masters,
    refused_request,
    unsafe_requestor,
)
from tests.go_oracle.telling import tell_difference
from tests.support.oracle import Outcome

_BAD_REQUEST = 400
_FORBIDDEN = 403
_TOLD = ("code", "reason", "message")
_UNREAD = frozenset({_BAD_REQUEST, 417, 431})
_UNREADABLE = 500


class Judgement(NamedTuple):
    """`difference` is None when both sides agree, up to the deviation of that letter."""

    difference: str | None = None
    deviation: str | None = None


def judge(sequence: Sequence, step: Step, outcome: Outcome, ours: Account) -> Judgement:
    """Compare what both sides made of one request."""
    claimed, status = _claimed_deviation(sequence, step, outcome)
    if claimed is not None and ours.status == status:
        return Judgement(deviation=claimed)
    if claimed is not None:
        judgement = Judgement(f"deviation {claimed} is claimed, but our status is {ours.status}")
    elif outcome["read"] is None:
        # net/http answered by itself, in its own words; ours are always a Status.
        if ours.status in _UNREAD:
            return Judgement(deviation=ALWAYS_JSON)
        judgement = Judgement(f"net/http answers {outcome['status']}, we answer {ours.status}")
    else:
        judgement = _compare(outcome, ours)
    if judgement.difference and ours.status in _UNREAD and may_be_refused_request(step):
        return Judgement(deviation=REFUSED_REQUEST)
    return judgement


def _claimed_deviation(sequence: Sequence, step: Step, outcome: Outcome) -> tuple[str | None, int]:
    """Return the deviation that the request must meet with, and our status for it."""
    if refused_request(step):
        return REFUSED_REQUEST, _BAD_REQUEST
    if outcome["read"] is None or outcome["status"] == _UNREADABLE:
        return None, 0  # both sides read the target before they look at any header
    header = refused_header(step)
    if header is not None:
        return header, _BAD_REQUEST
    if refused_masters(sequence, step):
        return PROTECTED_GROUP, _FORBIDDEN
    if unsafe_requestor(step):
        return UNSAFE_TEXT, _FORBIDDEN
    return None, 0


def _compare(outcome: Outcome, ours: Account) -> Judgement:
    native = native_account(outcome)
    if native == ours:
        return Judgement()
    if ours.body and _is_same_status(outcome, ours) and native._replace(body=ours.body) == ours:
        return Judgement(deviation=ALWAYS_JSON)
    return Judgement(tell_difference(native, ours))


def _is_same_status(outcome: Outcome, ours: Account) -> bool:
    """Tell whether native wrote our Status in another encoding that the client asked for."""
    match outcome["contentType"]:
        case "application/yaml":
            status = yaml.safe_load(outcome["body"])
            # Not the details: a name may hold what YAML takes for a line break.
            return all(status[key] == json.loads(ours.body)[key] for key in _TOLD)
        case "application/vnd.kubernetes.protobuf":
            return json.loads(ours.body)["message"] in outcome["body"]
        case _:
            return False
