"""Cases of the parity run, each with a caller of its own, asked through a real proxy."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice

from proxy.core.errors import StatusError
from proxy.core.impersonation.headers import parse_impersonation_headers
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import UserInfo, make_extra
from proxy.sandbox.api_client import APIResponse
from tests.explain_parity.neighbours import Question
from tests.parity.arena import Arena
from tests.parity.audit_tail import Event
from tests.parity.cases import Caller, CallerKind, Case, CaseSet, Half, Rights
from tests.parity.generator import make_sets
from tests.parity.installation import install
from tests.parity.renaming import FRESH, Renaming
from tests.parity.wire import Client

_BATCH = 40
_PLENTY = 100_000


@dataclass(slots=True)
class Seat:
    """One caller at the proxy, and what the proxy takes it for."""

    question: Question
    body: bytes | None
    client: Client
    name: str
    has_rights: bool
    _sent: int = 0

    def send(self, question: Question) -> APIResponse:
        """Send a request."""
        return self._send(question, None)

    def send_first(self) -> tuple[APIResponse, str]:
        """Send the case's own request, and return the id under which it is audited."""
        response = self._send(self.question, self.body)
        return response, f"{self.name}-{self._sent}"

    def _send(self, question: Question, body: bytes | None) -> APIResponse:
        self._sent += 1
        headers = [*question.headers, (b"Audit-ID", f"{self.name}-{self._sent}".encode())]
        if body is not None:
            headers.append((b"Content-Type", b"application/json"))
        return self.client.send(question.method, question.target, headers, body)


def seats(arena: Arena, *, seed: int, stride: int) -> Generator[Seat, None, None]:
    """Yield cases that come to a decision about impersonation, without an end.

    A stride takes a few out of many: those that stand together are alike.
    """
    batch: list[Case] = []
    for case in islice(_cases(seed, arena.half), 0, None, stride):
        batch.append(case)
        if len(batch) == _BATCH:
            yield from _seated(arena, batch)
            batch = []


def _seated(arena: Arena, cases: list[Case]) -> Generator[Seat, None, None]:
    renaming, credentials = install(arena, CaseSet(arena.half, (), tuple(cases)))
    for number, case in enumerate(cases):
        question = _question(case, renaming)
        if question is None:
            continue
        body = None if case.body is None else renaming.realise_bytes(case.body)
        has_rights = case.caller.rights != Rights()
        with closing(arena.subject.client(credentials[case.caller])) as client:
            yield Seat(question, body, client, f"{renaming.suffix}-{number}", has_rights)


def _cases(seed: int, half: Half) -> Iterator[Case]:
    number = 0
    for case_set in make_sets(seed, half, _PLENTY):
        for case in case_set.cases:
            if case.caller.kind is not CallerKind.NOBODY:
                number += 1
                yield _alone(case, number)


def _alone(case: Case, number: int) -> Case:
    """Give a case a caller whom nobody has ever met, with the same rights or, in turn, with none.

    Whoever has none gets exactly what is granted; whoever has some may find a door opened by both.
    """
    caller = case.caller
    if caller.kind is CallerKind.STATIC_TOKEN:
        caller = Caller(f"lone-{FRESH}", rights=caller.rights)
    rights = caller.rights if number % 2 else Rights()
    return replace(case, caller=replace(caller, name=f"{caller.name}-{number}", rights=rights))


def _question(case: Case, renaming: Renaming) -> Question | None:
    # What HEAD is told has no body; the verb is that of GET.
    method = b"GET" if case.method == b"HEAD" else case.method
    target = renaming.realise_bytes(case.target)
    headers = [(name, renaming.realise_bytes(value).strip()) for name, value in case.headers]
    try:
        parse_request_info(method, target)
        wanted_user = parse_impersonation_headers(headers)
    except StatusError:
        return None
    # An option cannot say every key that a header can.
    if wanted_user is None or any(not key or "=" in key for key, _ in wanted_user.extra):
        return None
    return Question(method, target, wanted_user)


def caller_of(event: Event) -> UserInfo:
    """Return whom the proxy took the caller for."""
    user: Mapping[str, object] = event["user"]
    extra = user.get("extra") or {}
    assert isinstance(extra, dict)
    groups = user.get("groups") or []
    assert isinstance(groups, list)
    return UserInfo(
        str(user["username"]), str(user.get("uid", "")), tuple(groups), make_extra(extra)
    )
