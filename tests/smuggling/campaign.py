"""Plays cases against a proxy: each on a connection of its own, until nothing more is to come."""

import asyncio
import contextlib
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.smuggling.cases import Case
from tests.smuggling.generator import split
from tests.smuggling.understanding import End, Understanding, Understood, understand
from tests.support.http_client import Cut, HttpClient, Response, connected

# Behind everything that was understood completely: its answer must be the very next one.
LAST = b"GET /api/v1/last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
TUNNELLED = b"GET /api/v1/tunnelled HTTP/1.1\r\nHost: a\r\n\r\n"
SWITCHING = 101
PATIENCE_SECONDS = 20


@dataclass(slots=True)
class Play:
    """A case and all that its client has seen of it."""

    case: Case
    user: str
    understanding: Understanding
    answers: list[Response] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    is_cut: bool = False
    """The proxy has ended the connection without a goodbye."""

    @property
    def expected(self) -> list[Understood]:
        """Every request that can have been answered, in order."""
        if self.understanding.end is End.NOTHING:
            return [*self.understanding.requests, *understand(LAST).requests]
        return list(self.understanding.requests)


async def play_all(
    cases: Iterable[Case],
    address: tuple[str, int],
    contexts: Mapping[str, ssl.SSLContext],
    *,
    seed: int,
) -> list[Play]:
    """Play all cases, each as one of the users; every user plays one case at a time."""
    plays: list[Play] = []
    waiting = iter(cases)

    async def work(user: str, random: Random) -> None:
        for case in waiting:
            play = Play(case, user, understand(case.wire))
            plays.append(play)
            async with connected(address, contexts[user]) as client:
                await _play(client, play, random)

    async with asyncio.TaskGroup() as group:
        for number, user in enumerate(contexts):
            group.create_task(work(user, Random(seed * 1000 + number)))
    return plays


async def _play(client: HttpClient, play: Play, random: Random) -> None:
    # The proxy may close while we still send; what it said before that is there to read.
    with contextlib.suppress(ConnectionError):
        for piece in split(random, play.case.wire):
            await client.send(piece)
            await asyncio.sleep(0)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await _read_answers(client, play)
    except (Cut, ConnectionError):
        play.is_cut = True
    except TimeoutError:
        play.faults.append("no answer")


async def _read_answers(client: HttpClient, play: Play) -> None:
    understanding = play.understanding
    methods = [understood.head.method.decode() for understood in understanding.requests]
    if understanding.is_refused:
        methods.append(understanding.rest.method.decode() if understanding.rest else "GET")
    for method in methods:
        if await _read_answer(client, play, method):
            return
    if understanding.end is End.NOTHING:
        await client.send(LAST)
        if not await _read_answer(client, play, "GET"):
            play.faults.append("goes on after the last request")
    elif understanding.is_refused:
        play.faults.append("goes on after what it refused")


async def _read_answer(client: HttpClient, play: Play, method: str) -> bool:
    """Read one final answer, and tell whether it was the last."""
    answer = await _final_answer(client, method)
    play.answers.append(answer)
    if answer.status == SWITCHING:
        await client.send(TUNNELLED)
        await client.read_until(TUNNELLED)
        return True
    if answer.values("connection") != ["close"]:
        return False
    if await client.read_to_end():
        play.faults.append("bytes after the last answer")
    return True


async def _final_answer(client: HttpClient, method: str) -> Response:
    while True:
        answer = await client.read_response(method)
        if answer.status != 100:
            return answer
