"""What is believed follows its source: whole, or not at all."""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from proxy.authentication.ca_bundle import ClientCAError, PEMBundle
from proxy.authentication.client_trust import (
    ClientTrust,
    ClientTrustConfig,
    ClientTrustReloader,
    FrontProxyTrustConfig,
    build_trust,
)
from proxy.core.http.front_proxy import FrontProxyHeaderNames
from proxy.wire.exchange import Peer
from tests.support.chains import CN, Issuer
from tests.support.event_loops import in_virtual_time

CLIENTS, OTHERS = Issuer("clients"), Issuer("others")
HEADERS = FrontProxyHeaderNames((b"x-remote-user",), (), (), ())


def claim(*issuers: Issuer) -> ClientTrustConfig:
    return ClientTrustConfig(PEMBundle(b"".join(issuer.pem for issuer in issuers), "the CA"))


BROKEN = ClientTrustConfig(PEMBundle(b"broken", "the CA"))


@dataclass
class Source:
    told: ClientTrustConfig | Exception = field(default_factory=lambda: claim(CLIENTS))
    is_retryable: bool = False

    async def read(self) -> ClientTrustConfig:
        if isinstance(self.told, Exception):
            raise self.told
        return self.told


@dataclass
class Counter:
    outcomes: list[bool] = field(default_factory=list)

    def trust_read(self, *, used: bool) -> None:
        self.outcomes.append(used)


@dataclass
class Stage:
    source: Source = field(default_factory=Source)
    counter: Counter = field(default_factory=Counter)
    changes: list[ClientTrust] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reloader = ClientTrustReloader(self.source, counter=self.counter)

    def believes(self, issuer: Issuer) -> bool:
        clients = self.reloader.trust.clients
        shown = Peer("10.0.0.1", issuer.issue((CN, "alice")).chain)
        return clients is not None and clients.verify(shown, datetime.now(UTC)).verified


@pytest.fixture
async def stage() -> Stage:
    stage = Stage()
    await stage.reloader.load()
    stage.reloader.subscribe(stage.changes.append)
    return stage


async def test_what_the_source_tells_is_believed(stage: Stage) -> None:
    assert stage.believes(CLIENTS)
    assert not stage.believes(OTHERS)
    assert stage.reloader.health_error() is None
    assert stage.counter.outcomes == [True]


async def test_while_nothing_changes_nothing_is_done(stage: Stage) -> None:
    trust = stage.reloader.trust

    await stage.reloader.reload()

    assert stage.reloader.trust is trust
    assert (stage.counter.outcomes, len(stage.changes)) == ([True], 1)


async def test_what_is_new_is_believed_and_what_is_gone_is_not(stage: Stage) -> None:
    stage.source.told = claim(OTHERS)

    await stage.reloader.reload()

    assert stage.believes(OTHERS)
    assert not stage.believes(CLIENTS)
    assert stage.changes[-1] is stage.reloader.trust


@pytest.mark.parametrize(
    "told", [BROKEN, ClientCAError("cannot be read")], ids=["cannot be used", "cannot be read"]
)
async def test_what_is_no_use_leaves_the_old_in_force_and_is_told_once(
    stage: Stage, told: ClientTrustConfig | ClientCAError, caplog: pytest.LogCaptureFixture
) -> None:
    stage.source.told = told

    with caplog.at_level(logging.WARNING):
        await stage.reloader.reload()
        await stage.reloader.reload()

    assert stage.believes(CLIENTS)
    assert stage.counter.outcomes == [True, False, False]
    assert [record.message for record in caplog.records] == ["client CAs not reloaded"]
    stage.source.told = claim(OTHERS)
    await stage.reloader.reload()
    assert stage.believes(OTHERS)


@pytest.mark.parametrize("told", [BROKEN, ClientCAError("cannot be read")], ids=["use", "read"])
async def test_what_is_no_use_from_the_start_is_an_error(
    told: ClientTrustConfig | ClientCAError,
) -> None:
    with pytest.raises(ClientCAError):
        await Stage(Source(told)).reloader.load()


@pytest.mark.parametrize("told", [BROKEN, ClientCAError("cannot be read")], ids=["use", "read"])
@in_virtual_time
async def test_what_may_be_told_later_is_waited_for(
    told: ClientTrustConfig | ClientCAError,
) -> None:
    stage = Stage(Source(told, is_retryable=True))
    await stage.reloader.load()
    assert not stage.reloader.trust.is_known
    assert stage.reloader.health_error() == "client CAs not loaded yet"

    stage.source.told = claim(CLIENTS)
    looking = asyncio.ensure_future(stage.reloader.reload_periodically(60))
    await asyncio.sleep(1.5)
    assert stage.believes(CLIENTS)
    assert stage.reloader.health_error() is None

    stage.source.told = claim(OTHERS)
    await asyncio.sleep(58)
    assert stage.believes(CLIENTS), "what is known is read less often"
    await asyncio.sleep(2)
    assert stage.believes(OTHERS)
    looking.cancel()


@in_virtual_time
async def test_a_bug_in_one_reload_does_not_end_reloading(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a removed CA would stay trusted."""
    stage = Stage()
    await stage.reloader.load()
    looking = asyncio.ensure_future(stage.reloader.reload_periodically(60))
    stage.source.told = ZeroDivisionError("a bug")
    await asyncio.sleep(61)
    stage.source.told = claim(OTHERS)
    await asyncio.sleep(60)

    assert [record.message for record in caplog.records] == ["client CA reload failed"]
    assert stage.believes(OTHERS)
    looking.cancel()


async def test_whoever_comes_later_is_told_at_once_and_instead_of_others(stage: Stage) -> None:
    told: list[ClientTrust] = []

    stage.reloader.subscribe(told.append)
    first = stage.reloader.trust
    stage.source.told = claim(OTHERS)
    await stage.reloader.reload()

    assert told == [first, stage.reloader.trust]
    assert stage.changes == [first]


@pytest.mark.parametrize("names", [(), ("front",)], ids=["any name", "a name"])
@pytest.mark.parametrize("is_shared", [True, False], ids=["one CA", "two CAs"])
def test_a_ca_of_both_needs_names(names: tuple[str, ...], is_shared: object) -> None:
    """As the API server, which would not start: every user could speak for everybody."""
    shared = CLIENTS if is_shared else Issuer("more")
    front = PEMBundle(OTHERS.pem + shared.pem, "front.crt")
    told = ClientTrustConfig(
        PEMBundle(CLIENTS.pem, "ca.crt"), FrontProxyTrustConfig(front, names, HEADERS)
    )

    if is_shared and not names:
        with pytest.raises(ClientCAError, match=r"front\.crt"):
            build_trust(told)
    else:
        assert build_trust(told).front_proxies is not None
