"""What is believed follows its source: whole, or not at all."""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from proxy.authentication.ca_bundle import ClientCAError, PEMBundle
from proxy.authentication.client_trust import (
    ClientTrust,
    ClientTrustReloader,
    build_trust,
)
from proxy.authentication.client_trust_sources import (
    ClientTrustConfig,
    FrontProxyTrustConfig,
    TrustLoader,
)
from proxy.core.http.front_proxy import FrontProxyHeaderNames
from proxy.telemetry.metrics.serving import ServingMetrics
from proxy.wire.exchange import Peer
from tests.support.chains import CN, Issuer
from tests.support.event_loops import in_virtual_time
from tests.support.metric_values import metric_values

READ = "understudy_client_ca_reloads_total"
CLIENTS, OTHERS = Issuer("clients"), Issuer("others")
HEADERS = FrontProxyHeaderNames((b"x-remote-user",), (), (), ())


def claim(*issuers: Issuer) -> ClientTrustConfig:
    return ClientTrustConfig(PEMBundle(b"".join(issuer.pem for issuer in issuers), "the CA"))


BROKEN = ClientTrustConfig(PEMBundle(b"broken", "the CA"))


class Source(TrustLoader):
    """Returns its config, or raises its error, instead of reading a file or the cluster."""

    def __init__(
        self, config: ClientTrustConfig | Exception | None = None, *, retryable: bool = False
    ) -> None:
        self.config = config or claim(CLIENTS)
        self._is_retryable = retryable

    @property
    def is_retryable(self) -> bool:
        return self._is_retryable

    async def read(self) -> ClientTrustConfig:
        if isinstance(self.config, Exception):
            raise self.config
        return self.config


@dataclass
class Stage:
    source: Source = field(default_factory=Source)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    changes: list[ClientTrust] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reloader = ClientTrustReloader(self.source, counter=ServingMetrics(self.registry))

    def read(self) -> dict[str, float]:
        """Return how often new contents were used, and how often not."""
        return metric_values(self.registry, READ)

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
    assert stage.read() == {"used": 1}


async def test_while_nothing_changes_nothing_is_done(stage: Stage) -> None:
    trust = stage.reloader.trust

    await stage.reloader.reload()

    assert stage.reloader.trust is trust
    assert (stage.read(), len(stage.changes)) == ({"used": 1}, 1)


async def test_what_is_new_is_believed_and_what_is_gone_is_not(stage: Stage) -> None:
    stage.source.config = claim(OTHERS)

    await stage.reloader.reload()

    assert stage.believes(OTHERS)
    assert not stage.believes(CLIENTS)
    assert stage.changes[-1] is stage.reloader.trust


@pytest.mark.parametrize(
    "config", [BROKEN, ClientCAError("cannot be read")], ids=["cannot be used", "cannot be read"]
)
async def test_what_is_no_use_leaves_the_old_in_force_and_is_told_once(
    stage: Stage, config: ClientTrustConfig | ClientCAError, caplog: pytest.LogCaptureFixture
) -> None:
    stage.source.config = config

    with caplog.at_level(logging.WARNING):
        await stage.reloader.reload()
        await stage.reloader.reload()

    assert stage.believes(CLIENTS)
    assert stage.read() == {"used": 1, "refused": 2}
    assert [record.message for record in caplog.records] == ["client CAs not reloaded"]
    stage.source.config = claim(OTHERS)
    await stage.reloader.reload()
    assert stage.believes(OTHERS)


@pytest.mark.parametrize("config", [BROKEN, ClientCAError("cannot be read")], ids=["use", "read"])
async def test_what_is_no_use_from_the_start_is_an_error(
    config: ClientTrustConfig | ClientCAError,
) -> None:
    with pytest.raises(ClientCAError):
        await Stage(Source(config)).reloader.load()


@pytest.mark.parametrize("config", [BROKEN, ClientCAError("cannot be read")], ids=["use", "read"])
@in_virtual_time
async def test_what_may_be_told_later_is_waited_for(
    config: ClientTrustConfig | ClientCAError,
) -> None:
    stage = Stage(Source(config, retryable=True))
    await stage.reloader.load()
    assert not stage.reloader.trust.is_known
    assert stage.reloader.health_error() == "client CAs not loaded yet"

    stage.source.config = claim(CLIENTS)
    looking = asyncio.ensure_future(stage.reloader.reload_periodically(60))
    await asyncio.sleep(1.5)
    assert stage.believes(CLIENTS)
    assert stage.reloader.health_error() is None

    stage.source.config = claim(OTHERS)
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
    stage.source.config = ZeroDivisionError("a bug")
    await asyncio.sleep(61)
    stage.source.config = claim(OTHERS)
    await asyncio.sleep(60)

    errors = [one.message for one in caplog.records if one.levelno >= logging.ERROR]
    assert errors == ["client CA reload failed"]
    assert stage.believes(OTHERS)
    looking.cancel()


async def test_whoever_comes_later_is_told_at_once_and_instead_of_others(stage: Stage) -> None:
    config: list[ClientTrust] = []

    stage.reloader.subscribe(config.append)
    first = stage.reloader.trust
    stage.source.config = claim(OTHERS)
    await stage.reloader.reload()

    assert config == [first, stage.reloader.trust]
    assert stage.changes == [first]


@pytest.mark.parametrize("names", [(), ("front",)], ids=["any name", "a name"])
@pytest.mark.parametrize("is_shared", [True, False], ids=["one CA", "two CAs"])
def test_a_ca_of_both_needs_names(names: tuple[str, ...], is_shared: object) -> None:
    """As the API server, which would not start: every user could speak for everybody."""
    shared = CLIENTS if is_shared else Issuer("more")
    front = PEMBundle(OTHERS.pem + shared.pem, "front.crt")
    config = ClientTrustConfig(
        PEMBundle(CLIENTS.pem, "ca.crt"), FrontProxyTrustConfig(front, names, HEADERS)
    )

    if is_shared and not names:
        with pytest.raises(ClientCAError, match=r"front\.crt"):
            build_trust(config)
    else:
        assert build_trust(config).front_proxies is not None
