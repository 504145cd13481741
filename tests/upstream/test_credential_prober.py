"""Whose a 401 is: what is asked, how often, and what is believed for how long."""

import asyncio
import ssl

import pytest

from proxy.concurrency.task_set import TaskSet
from proxy.upstream.auth_errors import CredentialStatus
from proxy.upstream.credential_prober import ACCEPTED_TTL_SECONDS, CredentialProber
from proxy.upstream.endpoints import Endpoint
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually
from tests.upstream.denials import no_denials

ACCEPTED, REFUSED, UNKNOWN = (
    CredentialStatus.ACCEPTED,
    CredentialStatus.REJECTED,
    CredentialStatus.UNKNOWN,
)
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
HERE = Endpoint("here", 443, "here", CONTEXT)
THERE = Endpoint("there", 443, "there", CONTEXT)


class Asked:
    """An API server that is asked about us, and what we were told."""

    version = 1

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.failures: list[BaseException] = []
        self.tasks = TaskSet(self.failures.append)
        self.gate = asyncio.Event()
        self.gate.set()
        self.answer: CredentialStatus | Exception = ACCEPTED
        self.probed: list[str] = []
        self.told: list[CredentialStatus] = []
        self.prober = CredentialProber(
            self.probe, self, denials=no_denials(), clock=self.clock, tasks=self.tasks
        )

    async def probe(self, endpoint: Endpoint) -> CredentialStatus:
        self.probed.append(endpoint.host)
        await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def ask(self, endpoint: Endpoint = HERE, version: int = 1) -> CredentialStatus:
        count = len(self.told)
        self.prober.check(endpoint, version, self.told.append)
        await eventually(lambda: len(self.told) > count)
        return self.told[-1]


@pytest.fixture
async def asked() -> Asked:
    return Asked()


async def test_a_good_answer_is_believed_for_a_moment(asked: Asked) -> None:
    assert await asked.ask() is ACCEPTED
    asked.answer = REFUSED
    asked.clock.advance(ACCEPTED_TTL_SECONDS / 2)
    asked.prober.check(HERE, 1, asked.told.append)
    assert asked.told == [ACCEPTED, ACCEPTED]  # at once
    assert len(asked.probed) == 1

    asked.clock.advance(ACCEPTED_TTL_SECONDS / 2)

    assert await asked.ask() is REFUSED


@pytest.mark.parametrize("answer", [REFUSED, UNKNOWN])
async def test_no_other_answer_is_remembered(asked: Asked, answer: CredentialStatus) -> None:
    asked.answer = answer
    assert await asked.ask() is answer

    asked.answer = ACCEPTED

    assert await asked.ask() is ACCEPTED
    assert len(asked.probed) == 2


async def test_who_asks_meanwhile_waits_for_the_same_answer(asked: Asked) -> None:
    asked.gate.clear()
    for _ in range(5):
        asked.prober.check(HERE, 1, asked.told.append)
    await eventually(lambda: asked.probed)
    assert asked.told == []

    asked.gate.set()

    await eventually(lambda: asked.told == [ACCEPTED] * 5)
    assert len(asked.probed) == 1


async def test_each_endpoint_is_asked_for_itself(asked: Asked) -> None:
    assert await asked.ask(HERE) is ACCEPTED
    asked.answer = REFUSED

    assert await asked.ask(THERE) is REFUSED
    assert asked.probed == ["here", "there"]


async def test_nobody_knows_how_an_earlier_credential_stood(asked: Asked) -> None:
    """The old token was refused and is replaced by now: the new one's good standing proves
    nothing about it."""
    assert await asked.ask() is ACCEPTED

    asked.version = 2

    assert await asked.ask(version=1) is UNKNOWN
    assert len(asked.probed) == 1
    assert await asked.ask(version=2) is ACCEPTED
    assert len(asked.probed) == 2


async def test_an_answer_that_may_be_about_the_next_credential_is_no_answer(asked: Asked) -> None:
    asked.gate.clear()
    asked.prober.check(HERE, 1, asked.told.append)
    await eventually(lambda: asked.probed)

    asked.version = 2
    asked.gate.set()

    await eventually(lambda: asked.told == [UNKNOWN])
    assert await asked.ask(version=2) is ACCEPTED
    assert len(asked.probed) == 2


async def test_a_bug_is_no_answer(asked: Asked) -> None:
    asked.answer = ZeroDivisionError("a bug")

    assert await asked.ask() is UNKNOWN
    assert len(asked.failures) == 1


async def test_the_end_of_the_proxy_is_no_answer(asked: Asked) -> None:
    asked.gate.clear()
    asked.prober.check(HERE, 1, asked.told.append)
    await eventually(lambda: asked.probed)

    await asked.tasks.stop()

    await eventually(lambda: asked.told == [UNKNOWN])
