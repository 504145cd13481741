"""Sending the same requests to both sides at the same time, and gathering what was seen."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from proxy.sandbox.api_client import APIResponse
from tests.parity.arena import Arena
from tests.parity.cases import Caller, Case, CaseSet
from tests.parity.installation import install
from tests.parity.observations import Observation, is_audited, observe
from tests.parity.renaming import Renaming
from tests.parity.scraping import Series, growth
from tests.parity.sides import Side
from tests.parity.trials import Played, Trial
from tests.parity.webhook import Review
from tests.parity.wire import Client, Credentials

MOST_SECONDS = 8.0
"""Memories of servers last ten seconds; steady cases that take longer would meet gaps in them."""


@dataclass(slots=True)
class _Turn:
    """One side's way through a set."""

    side: Side
    renaming: Renaming
    answers: list[APIResponse] = field(default_factory=list)
    reviews: list[tuple[Review, ...]] = field(default_factory=list)
    series: Series = field(default_factory=Series)
    seconds: float = 0.0

    def take(self, case_set: CaseSet, credentials: Mapping[Caller, Credentials]) -> None:
        """Send all cases, one after the other."""
        clients = {caller: self.side.client(credentials[caller]) for caller in case_set.callers}
        try:
            before = self.side.series()
            started = time.monotonic()
            for case in case_set.steady:
                self._send(case, clients[case.caller])
            self.seconds = time.monotonic() - started
            self.series = growth(before, self.side.series())
            for case in case_set.lonely:
                self._send(case, clients[case.caller])
        finally:
            for client in clients.values():
                client.close()

    def _send(self, case: Case, client: Client) -> None:
        rename = self.renaming.realise_bytes
        headers = [(rename(name), rename(value)) for name, value in case.headers]
        headers.append((b"Audit-ID", self.audit_id(len(self.answers)).encode()))
        body = None if case.body is None else rename(case.body)
        self.answers.append(client.send(case.method, rename(case.target), headers, body))
        recording = self.side.recording
        self.reviews.append(tuple(recording.take()) if recording else ())

    def audit_id(self, index: int) -> str:
        """Return the id that marks one request in every log."""
        return f"{self.renaming.suffix}-{index}"

    def observe(self, ran_elsewhere: Sequence[bool]) -> list[Observation]:
        """Wait for the logs and return what was seen of each request.

        What ran on the other side is worth waiting for in the log behind this one.
        """
        prefix = f"{self.renaming.suffix}-"
        ids = [self.audit_id(index) for index in range(len(self.answers))]
        answers = dict(zip(ids, self.answers, strict=True))
        audited = [one for one, response in answers.items() if is_audited(response, one)]
        events = self.side.audit.collect(audited, prefix)
        behind = events
        if self.side.behind is not None:
            awaited = [one for one, ran in zip(ids, ran_elsewhere, strict=True) if ran]
            behind = self.side.behind.collect(awaited, prefix)
        return [
            observe(response, event=events.get(one), behind=behind.get(one), reviews=reviews)
            for (one, response), reviews in zip(answers.items(), self.reviews, strict=True)
        ]


def play_in_time(arena: Arena, case_set: CaseSet) -> Iterator[Played]:
    """Play a set, on a slow machine in parts that are fast enough to mean anything."""
    played = play(arena, case_set)
    if played.is_late and len(case_set.callers) > 1:
        for part in case_set.split():
            yield from play_in_time(arena, part)
    else:
        yield played


def play(arena: Arena, case_set: CaseSet) -> Played:
    """Play a set on fresh names."""
    renaming, credentials = install(arena, case_set)
    turns = [_Turn(side, renaming) for side in (arena.reference, arena.subject)]
    with ThreadPoolExecutor(len(turns)) as pool:
        for done in [pool.submit(turn.take, case_set, credentials) for turn in turns]:
            done.result()
    reference, subject = turns
    expected = reference.observe(())
    ran = [
        one.ran_as != "" and one.status == response.status
        for one, response in zip(expected, subject.answers, strict=True)
    ]
    trials = zip(case_set.cases, expected, subject.observe(ran), strict=True)
    return Played(
        renaming,
        tuple(Trial(*trial) for trial in trials),
        reference.series,
        subject.series,
        len(case_set.steady),
        is_late=max(turn.seconds for turn in turns) > MOST_SECONDS,
    )
