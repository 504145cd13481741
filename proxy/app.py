"""A running proxy: what starts and stops, in which order, and what is done meanwhile."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from proxy.admin.health import HealthCheck, Heartbeat
from proxy.admin.server import AdminServer
from proxy.audit.recorder import Recorder
from proxy.core.errors import Refusal
from proxy.pipeline import Pipeline
from proxy.serving.certificates import LoadedCertificates, ServingCertificates, load_certificates
from proxy.serving.drain import Drain
from proxy.serving.in_flight import InFlight
from proxy.serving.listener import Listener
from proxy.serving.open_files import allow_open_files
from proxy.settings.model import Settings
from proxy.telemetry.audit_metrics import AuditMetrics
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.serving_metrics import ServingMetrics
from proxy.upstream.own_identity import own_name
from proxy.upstream.side import Clocks, UpstreamSide, upstream_side
from proxy.wire.tasks import Tasks
from proxy.wiring import (
    Tools,
    build_audit,
    build_authenticator,
    build_gate,
    certificate_files,
    connection_limits,
    decisions_by,
    drain_times,
    nameless_guards,
)

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_SWEEPS_PER_DEAD_PEER_SEARCH = 10
_OWN_NAME_SECONDS = 1.0
_FIRST_LESSON_SECONDS = 3.0
_SILENCE_SECONDS = 30.0
_LEAST_FLUSH_SECONDS = 1.0


@asynccontextmanager
async def running_proxy(settings: Settings) -> AsyncIterator["Proxy"]:
    """Run the proxy for the time of the context."""
    certificates = await asyncio.to_thread(load_certificates, certificate_files(settings))
    tasks = Tasks(_report_failure)
    clocks = Clocks(asyncio.get_running_loop().time, _wall_clock)
    async with upstream_side(settings.upstream, clocks=clocks, tasks=tasks) as upstream:
        proxy = Proxy(settings, certificates, upstream, tasks)
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
        tasks: Tasks,
    ) -> None:
        self.address = settings.serving.address
        self._clock = asyncio.get_running_loop().time
        self._tasks = tasks
        self._upstream = upstream
        self._own_name: str | None = None
        self._is_accepting = False
        self._first_lesson = asyncio.Event()
        # Of the settings in force: our name may become known only after a reload.
        self._guards = nameless_guards(settings)
        metrics = Metrics(CollectorRegistry(), kep_names=settings.admin.kep_metric_names)
        self._serving_metrics = ServingMetrics(metrics.registry)
        self._tools = Tools(self._clock, _wall_clock, tasks, upstream.client, metrics)
        self._heartbeat = Heartbeat(self._clock, silence_seconds=_SILENCE_SECONDS)
        self._audit = build_audit(settings.audit, AuditMetrics(metrics.registry), _wall_clock)
        self._admin = AdminServer(
            metrics.registry,
            live=[HealthCheck("event-loop", self._heartbeat.fault)],
            ready=[
                HealthCheck("shutdown", lambda: "draining" if self.drain.has_begun else None),
                HealthCheck("listener", lambda: None if self._is_accepting else "not open yet"),
                HealthCheck("own-identity", lambda: None if self._own_name else "not known yet"),
                HealthCheck("own-credential", upstream.keeper.fault),
                HealthCheck("audit", self._audit.fault),
            ],
        )
        self._gate = build_gate(settings, self._tools)
        self._pipeline = self._build_pipeline(settings)
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

    async def start(self, settings: Settings) -> None:
        """Listen, and keep house."""
        await self._audit.start()
        allow_open_files(settings.serving.limits.connections)
        if settings.admin.address is not None:
            await self._admin.start(*settings.admin.address)
        self.address = await self._listener.bind(*settings.serving.address)
        self._tasks.keep(self._learn_own_name())
        # Beside another instance on the same port clients come with the first moment of listening,
        # and nobody is admitted before our name is known. An API server that is slow to tell it
        # does not keep us from saying so to them.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._first_lesson.wait(), _FIRST_LESSON_SECONDS)
        await self._listener.accept()
        self._is_accepting = True
        self._tasks.keep(self._keep_house())
        self._tasks.keep(self._upstream.keeper.run())
        refresh_seconds = settings.serving.certificate_refresh_seconds
        self._tasks.keep(self._certificates.keep_fresh(refresh_seconds))
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
        Certificate, key and client CA are looked at, too, a moment later.
        """
        self._gate = build_gate(settings, self._tools)
        self._guards = nameless_guards(settings)
        self._guard()
        self._pipeline.decisions = decisions_by(settings, self._gate)
        log.info("decisions reloaded")
        self._tasks.keep(self._certificates.look(certificate_files(settings)))

    def _build_pipeline(self, settings: Settings) -> Pipeline:
        limits = settings.serving.limits
        return Pipeline(
            recorder=Recorder(_wall_clock, self._audit.sink),
            authenticator=build_authenticator(settings, self._tools),
            in_flight=InFlight(
                reads=limits.reads_in_flight,
                writes=limits.writes_in_flight,
                counter=self._serving_metrics,
            ),
            decisions=decisions_by(settings, self._gate),
            forwarder=self._upstream.forwarder,
            tasks=self._tasks,
        )

    async def _learn_own_name(self) -> None:
        """Ask who we are until the API server tells; nobody is admitted before that.

        A new credential is perhaps another identity's, so each is asked about again.
        """
        while True:
            self._upstream.credential_changed.clear()
            try:
                name = await own_name(self._upstream.client)
            except Refusal as refusal:
                log.warning("own identity unknown", extra=fields(reason=refusal.message))
                self._first_lesson.set()
                await asyncio.sleep(_OWN_NAME_SECONDS)
                continue
            if name != self._own_name:
                self._own_name = name
                log.info("own identity", extra=fields(user=name))
                self._guard()
            self._first_lesson.set()
            await self._upstream.credential_changed.wait()

    async def _keep_house(self) -> None:
        """Close who is late, idle or dead, and show that the event loop turns."""
        for turn in itertools.count(1):
            await asyncio.sleep(_SWEEP_SECONDS)
            self._heartbeat.beat()
            self._listener.close_late()
            self._upstream.pool.close_old()
            if turn % _SWEEPS_PER_DEAD_PEER_SEARCH == 0:
                self._listener.close_unreachable()
                self._upstream.pool.close_unreachable()
            if turned_away := self._listener.take_turned_away():
                self._serving_metrics.connections_turned_away(turned_away)
                log.warning("too many connections", extra=fields(turned_away=turned_away))

    def _guard(self) -> None:
        if self._own_name is not None:
            self._gate.guards = replace(self._guards, own_name=self._own_name)


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _report_failure(error: BaseException) -> None:
    if isinstance(error, Refusal):
        return  # An answer for whoever awaits the task, not a fault of it.
    log.error("background work failed", exc_info=error)
