"""What is believed follows its source: whole, or not at all."""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from proxy.authentication.ca_bundle import CaText, TrustError
from proxy.authentication.client_trust import (
    FrontProxyClaim,
    Trust,
    TrustClaim,
    TrustKeeper,
    build_trust,
)
from proxy.core.http.front_proxy import RemoteHeaders
from proxy.wire.exchange import Peer
from tests.support.chains import CN, Issuer
from tests.support.event_loops import eventually

CLIENTS, OTHERS = Issuer("clients"), Issuer("others")
HEADERS = RemoteHeaders((b"x-remote-user",), (), (), ())


def claim(*issuers: Issuer) -> TrustClaim:
    return TrustClaim(CaText(b"".join(issuer.pem for issuer in issuers), "the CA"))


BROKEN = TrustClaim(CaText(b"broken", "the CA"))


@dataclass
class Source:
    told: TrustClaim | TrustError = field(default_factory=lambda: claim(CLIENTS))
    may_tell_later: bool = False

    async def read(self) -> TrustClaim:
        if isinstance(self.told, TrustError):
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
    changes: list[Trust] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keeper = TrustKeeper(self.source, counter=self.counter)

    def believes(self, issuer: Issuer) -> bool:
        clients = self.keeper.trust.clients
        shown = Peer("10.0.0.1", issuer.issue((CN, "alice")).chain)
        return clients is not None and clients.judge(shown, datetime.now(UTC)).is_proven


@pytest.fixture
async def stage() -> Stage:
    stage = Stage()
    await stage.keeper.begin()
    stage.keeper.tell(stage.changes.append)
    return stage


async def test_what_the_source_tells_is_believed(stage: Stage) -> None:
    assert stage.believes(CLIENTS)
    assert not stage.believes(OTHERS)
    assert stage.keeper.fault() is None
    assert stage.counter.outcomes == [True]


async def test_while_nothing_changes_nothing_is_done(stage: Stage) -> None:
    trust = stage.keeper.trust

    await stage.keeper.look()

    assert stage.keeper.trust is trust
    assert (stage.counter.outcomes, len(stage.changes)) == ([True], 1)


async def test_what_is_new_is_believed_and_what_is_gone_is_not(stage: Stage) -> None:
    stage.source.told = claim(OTHERS)

    await stage.keeper.look()

    assert stage.believes(OTHERS)
    assert not stage.believes(CLIENTS)
    assert stage.changes[-1] is stage.keeper.trust


@pytest.mark.parametrize(
    "told", [BROKEN, TrustError("cannot be read")], ids=["cannot be used", "cannot be read"]
)
async def test_what_is_no_use_leaves_the_old_in_force_and_is_told_once(
    stage: Stage, told: TrustClaim | TrustError, caplog: pytest.LogCaptureFixture
) -> None:
    stage.source.told = told

    with caplog.at_level(logging.WARNING):
        await stage.keeper.look()
        await stage.keeper.look()

    assert stage.believes(CLIENTS)
    assert stage.counter.outcomes == [True, False, False]
    assert [record.message for record in caplog.records] == ["client CAs not reloaded"]
    stage.source.told = claim(OTHERS)
    await stage.keeper.look()
    assert stage.believes(OTHERS)


@pytest.mark.parametrize("told", [BROKEN, TrustError("cannot be read")], ids=["use", "read"])
async def test_what_is_no_use_from_the_start_is_an_error(told: TrustClaim | TrustError) -> None:
    with pytest.raises(TrustError):
        await Stage(Source(told)).keeper.begin()


@pytest.mark.parametrize("told", [BROKEN, TrustError("cannot be read")], ids=["use", "read"])
async def test_what_may_be_told_later_is_waited_for(told: TrustClaim | TrustError) -> None:
    stage = Stage(Source(told, may_tell_later=True))
    await stage.keeper.begin()
    assert not stage.keeper.trust.is_known
    assert stage.keeper.fault() == "client CAs are not known yet"

    stage.source.told = claim(CLIENTS)
    looking = asyncio.ensure_future(stage.keeper.keep_fresh(0.01))
    try:
        await eventually(lambda: stage.keeper.trust.is_known)
    finally:
        looking.cancel()
        await asyncio.wait([looking])

    assert stage.believes(CLIENTS)
    assert stage.keeper.fault() is None


async def test_whoever_comes_later_is_told_at_once_and_instead_of_others(stage: Stage) -> None:
    told: list[Trust] = []

    stage.keeper.tell(told.append)
    first = stage.keeper.trust
    stage.source.told = claim(OTHERS)
    await stage.keeper.look()

    assert told == [first, stage.keeper.trust]
    assert stage.changes == [first]


@pytest.mark.parametrize("names", [(), ("front",)], ids=["any name", "a name"])
@pytest.mark.parametrize("is_shared", [True, False], ids=["one CA", "two CAs"])
def test_a_ca_of_both_needs_names(names: tuple[str, ...], is_shared: object) -> None:
    """As the API server, which would not start: every user could speak for everybody."""
    shared = CLIENTS if is_shared else Issuer("more")
    front = CaText(OTHERS.pem + shared.pem, "front.crt")
    told = TrustClaim(CaText(CLIENTS.pem, "ca.crt"), FrontProxyClaim(front, names, HEADERS))

    if is_shared and not names:
        with pytest.raises(TrustError, match=r"front\.crt"):
            build_trust(told)
    else:
        assert build_trust(told).front_proxies is not None
