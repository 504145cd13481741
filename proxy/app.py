"""A running proxy: what starts and stops, in which order, and what is done meanwhile."""

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from prometheus_client import CollectorRegistry

from proxy.admin.health import HealthCheck, Heartbeat
from proxy.admin.side import AdminSide
from proxy.audit.audit_recorder import AuditRecorder
from proxy.audit.book import AuditBook
from proxy.audit.policy_keeper import PolicyKeeper
from proxy.audit.recorder import Recorder
from proxy.authentication.trust import Trust, TrustKeeper
from proxy.authentication.trust_sources import FilesAndCluster
from proxy.core.audit_policy import AuditPolicy
from proxy.core.errors import Refusal
from proxy.observation import VERSION, metrics_guard, watch_clients
from proxy.pipeline import Pipeline
from proxy.serving.certificates import LoadedCertificates, ServingCertificates, load_certificates
from proxy.serving.drain import Drain
from proxy.serving.in_flight import InFlight
from proxy.serving.listener import Listener
from proxy.serving.open_files import allow_open_files
from proxy.settings.audit_policy import load_audit_policy
from proxy.settings.model import Settings
from proxy.telemetry.audit_metrics import AuditMetrics
from proxy.telemetry.audit_policy_metrics import AuditPolicyMetrics
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.program_metrics import ProgramMetrics
from proxy.telemetry.request_metrics import RequestMetrics
from proxy.telemetry.serving_metrics import ServingMetrics
from proxy.telemetry.upstream_metrics import UpstreamMetrics
from proxy.upstream.own_account import Clocks
from proxy.upstream.side import UpstreamSide, upstream_side
from proxy.wire.tasks import Tasks
from proxy.wiring import (
    Tools,
    anonymous_policy,
    build_audit,
    build_authenticator,
    build_gate,
    certificate_files,
    connection_limits,
    decisions_by,
    drain_times,
    forwarding_rules,
    nameless_guards,
    where_trust_is,
)

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_SWEEPS_PER_DEAD_PEER_SEARCH = 10
_FIRST_LESSON_SECONDS = 3.0
_SILENCE_SECONDS = 30.0
_LEAST_FLUSH_SECONDS = 1.0
# Asked twice at every request, so without a function of our own.
_wall_clock: Callable[[], datetime] = partial(datetime.now, UTC)


@asynccontextmanager
async def running_proxy(settings: Settings) -> AsyncIterator["Proxy"]:
    """Run the proxy for the time of the context."""
    certificates = await asyncio.to_thread(load_certificates, certificate_files(settings))
    audit_policy = await asyncio.to_thread(load_audit_policy, settings.audit.policy_file)
    tasks = Tasks(_report_failure)
    clocks = Clocks(asyncio.get_running_loop().time, _wall_clock)
    metrics = Metrics(CollectorRegistry(), kep_names=settings.admin.kep_metric_names)
    async with upstream_side(
        settings.upstream, clocks=clocks, metrics=UpstreamMetrics(metrics.registry), tasks=tasks
    ) as upstream:
        proxy = Proxy(
            settings, certificates, upstream, metrics, tasks=tasks, audit_policy=audit_policy
        )
        try:
            await proxy.start(settings)
            yield proxy
        finally:
            await proxy.stop()


class Proxy:
    """The rooms, wired together, and the order in which they start and stop."""

    def __init__(
        self,
        settings: Settings,
        certificates: LoadedCertificates,
        upstream: UpstreamSide,
        metrics: Metrics,
        *,
        tasks: Tasks,
        audit_policy: AuditPolicy,
    ) -> None:
        self.address = settings.serving.address
        self._clock = asyncio.get_running_loop().time
        self._tasks = tasks
        self._upstream = upstream
        self._is_accepting = False
        # Of the settings in force: our name may become known only after a reload.
        self._guards = nameless_guards(settings)
        self._serving_metrics = ServingMetrics(metrics.registry)
        self._tools = Tools(self._clock, _wall_clock, tasks, upstream.reviewer.client, metrics)
        self._trust = TrustKeeper(
            FilesAndCluster(where_trust_is(settings), upstream.reviewer.client),
            counter=self._serving_metrics,
            on_change=self._believe,
        )
        self._heartbeat = Heartbeat(self._clock, silence_seconds=_SILENCE_SECONDS)
        self._audit = build_audit(settings.audit, AuditMetrics(metrics.registry), _wall_clock)
        self._admin = AdminSide(
            settings.admin,
            registry=metrics.registry,
            live=[HealthCheck("event-loop", self._heartbeat.fault)],
            ready=[
                HealthCheck("shutdown", lambda: "draining" if self.drain.has_begun else None),
                HealthCheck("listener", lambda: None if self._is_accepting else "not open yet"),
                HealthCheck("upstream", upstream.reachability.fault),
                HealthCheck("own-identity", upstream.knowledge.fault),
                HealthCheck("own-credential", upstream.credential_fault),
                HealthCheck("canary", upstream.knowledge.canary.fault),
                HealthCheck("client-cas", self._trust.fault),
                HealthCheck("audit", self._audit.fault),
            ],
            counter=self._serving_metrics,
            guard=metrics_guard(settings.admin, upstream.reviewer.client),
        )
        ProgramMetrics(metrics.registry, version=VERSION)
        requests = RequestMetrics(metrics.registry)
        recorder = Recorder(_wall_clock, counter=requests)
        self._policy_keeper: PolicyKeeper | None = None
        if self._audit.sink is not None:
            book = AuditBook(
                self._audit.sink,
                audit_policy,
                body_bytes=settings.audit.body_bytes,
                clock=time.monotonic,
            )
            recorder = AuditRecorder(_wall_clock, book, counter=requests)
            counter = AuditPolicyMetrics(metrics.registry)
            self._policy_keeper = PolicyKeeper(book, load_audit_policy, counter)
        self._in_flight = InFlight(
            reads=settings.serving.limits.reads_in_flight,
            writes=settings.serving.limits.writes_in_flight,
            counter=self._serving_metrics,
        )
        self._gate = build_gate(settings, self._tools)
        self._authenticator = build_authenticator(settings, self._tools, self._trust)
        self._pipeline = self._build_pipeline(settings, recorder)
        self._pipeline.audit_room = self._audit.room
        self._listener = Listener(
            context=certificates.context,
            handler=self._pipeline,
            limits=connection_limits(settings),
            clock=self._clock,
        )
        self._certificates = ServingCertificates(
            certificates, listening=self._listener, counter=self._serving_metrics
        )
        self.drain = Drain(self._listener, drain_times(settings), clock=self._clock)
        watch_clients(self._serving_metrics, self._listener, self._in_flight)

    async def start(self, settings: Settings) -> None:
        """Listen, and keep house."""
        await self._audit.start()
        allow_open_files(settings.serving.limits.connections)
        await self._trust.begin()
        refresh_seconds = settings.serving.certificate_refresh_seconds
        await self._admin.start(self._tasks, refresh_seconds=refresh_seconds)
        self.address = await self._listener.bind(*settings.serving.address)
        self._tasks.keep(self._upstream.knowledge.run(self._guard))
        self._tasks.keep(self._upstream.reachability.run())
        # Beside another instance on the same port clients come with the first moment of listening,
        # and nobody is admitted before our name is known. An API server that is slow to tell it
        # does not keep us from saying so to them.
        with contextlib.suppress(TimeoutError):
            first_lesson = self._upstream.knowledge.first_lesson.wait()
            await asyncio.wait_for(first_lesson, _FIRST_LESSON_SECONDS)
        await self._listener.accept()
        self._is_accepting = True
        self._tasks.keep(self._keep_house())
        for account in self._upstream.accounts:
            self._tasks.keep(account.keeper.run())
        self._tasks.keep(self._certificates.keep_fresh(refresh_seconds))
        self._tasks.keep(self._trust.keep_fresh(refresh_seconds))
        log.info("serving", extra=fields(address=f"{self.address[0]}:{self.address[1]}"))

    async def stop(self) -> None:
        """Close everything, clients first; whoever is to leave in peace was drained before."""
        await self._listener.stop()
        self._upstream.pool.close()
        await self._tasks.stop()
        await self._admin.stop()
        # Last, when every exchange has ended and so every event was handed over.
        await self._audit.close(max(self.drain.seconds_left(), _LEAST_FLUSH_SECONDS))

    def hurry(self) -> None:
        """Wait for nobody from now on, neither for clients nor for audit backends."""
        self.drain.hurry()
        self._audit.hurry()

    def reload(self, settings: Settings) -> None:
        """Decide by these settings from the next request on.

        The new gate's memory is empty: nothing that was allowed under the old rules is allowed by
        memory under the new ones. A request that is being decided is finished by the old gate.
        Certificate, key, client CA and audit policy are looked at, too, a moment later.
        """
        self._gate = build_gate(settings, self._tools)
        self._guards = nameless_guards(settings)
        self._guard()
        self._pipeline.decisions = decisions_by(settings, self._gate, self._tools)
        log.info("decisions reloaded")
        self._authenticator.anonymous = anonymous_policy(settings)
        self._tasks.keep(self._certificates.look(certificate_files(settings)))
        source = FilesAndCluster(where_trust_is(settings), self._upstream.reviewer.client)
        self._tasks.keep(self._trust.look(source))
        if self._policy_keeper is not None:
            self._tasks.keep(self._policy_keeper.look(settings.audit.policy_file))

    def _build_pipeline(self, settings: Settings, recorder: Recorder) -> Pipeline:
        return Pipeline(
            recorder=recorder,
            authenticator=self._authenticator,
            in_flight=self._in_flight,
            decisions=decisions_by(settings, self._gate, self._tools),
            forwarder=self._upstream.forwarder,
            tasks=self._tasks,
        )

    async def _keep_house(self) -> None:
        """Close who is late, idle or dead, and show that the event loop turns."""
        for turn in itertools.count(1):
            asleep_since = self._clock()
            await asyncio.sleep(_SWEEP_SECONDS)
            self._heartbeat.beat()
            self._serving_metrics.loop_lagged(self._clock() - asleep_since - _SWEEP_SECONDS)
            self._listener.close_late()
            self._upstream.pool.close_old()
            if turn % _SWEEPS_PER_DEAD_PEER_SEARCH == 0:
                self._listener.close_unreachable()
                self._upstream.pool.close_unreachable()
            if turned_away := self._listener.take_turned_away():
                self._serving_metrics.connections_turned_away(turned_away)
                log.warning("too many connections", extra=fields(turned_away=turned_away))

    def _believe(self, trust: Trust) -> None:
        self._upstream.forwarder.rules = forwarding_rules(trust)
        front_proxies = trust.front_proxies
        self._serving_metrics.trust_expires(
            clients=0.0 if trust.clients is None else trust.clients.expires_at,
            front_proxies=0.0 if front_proxies is None else front_proxies.bundle.expires_at,
        )

    def _guard(self) -> None:
        knowledge = self._upstream.knowledge
        if knowledge.own_names:
            self._gate.guards = replace(
                self._guards, own_names=knowledge.own_names, takes_uids=knowledge.takes_uids
            )


def _report_failure(error: BaseException) -> None:
    if isinstance(error, Refusal):
        return  # An answer for whoever awaits the task, not a fault of it.
    log.error("background work failed", exc_info=error)
