"""A running proxy: what starts and stops, in which order, and what is done meanwhile."""

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from prometheus_client import CollectorRegistry

from proxy.admin.health import HealthCheck, Heartbeat
from proxy.admin.server import AdminSide, HealthChecks
from proxy.authentication.client_trust import Trust, TrustKeeper
from proxy.concurrency.task_set import Tasks
from proxy.core.errors import Refusal, SetupError
from proxy.runtime.admin_builder import metrics_guard, watch_clients
from proxy.runtime.audit_builder import event_limits, limit_audit
from proxy.runtime.builders import (
    Tools,
    connection_limits,
    drain_times,
    files_beside_clients,
    forwarding_rules,
    nameless_guards,
)
from proxy.runtime.components import (
    Counters,
    Generation,
    Nowhere,
    Workshop,
)
from proxy.runtime.retiring import Retirement
from proxy.serving.certificates import ServingCertificates
from proxy.serving.drain import Drain
from proxy.serving.limits.connections import ConnectionLimits
from proxy.serving.limits.max_in_flight import PlacesPerCaller
from proxy.serving.limits.open_files import fit_open_files
from proxy.serving.listener import Listener
from proxy.settings.loader import check_needs_no_restart
from proxy.settings.model import Settings
from proxy.telemetry.logs import fields
from proxy.telemetry.loop_watchdog import LoopWatchdog
from proxy.telemetry.memory_trim import freed_memory
from proxy.upstream.identity.account import Clocks
from proxy.upstream.session import UpstreamSide

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_SWEEPS_PER_DEAD_PEER_SEARCH = 10
_FIRST_LESSON_SECONDS = 3.0
_SILENCE_SECONDS = 30.0
_LEAST_FLUSH_SECONDS = 1.0
# Asked twice at every request, so without a function of our own.
_wall_clock: Callable[[], datetime] = partial(datetime.now, UTC)


class ReloadRefused(SetupError):
    """The config file cannot be taken now."""


@asynccontextmanager
async def running_proxy(settings: Settings) -> AsyncIterator["Proxy"]:
    """Run the proxy for the time of the context."""
    workshop = Workshop(
        Counters(kep_names=settings.admin.kep_metric_names),
        Clocks(asyncio.get_running_loop().time, _wall_clock),
        tasks=Tasks(_report_failure),
        on_failure=_report_failure,
    )
    proxy = Proxy(workshop, await workshop.build(settings))
    try:
        await proxy.start()
        yield proxy
    finally:
        await proxy.stop()


class Proxy:
    """The rooms, wired together, and the order in which they start and stop."""

    def __init__(self, workshop: Workshop, first: Generation) -> None:
        counters = workshop.counters
        self.address = first.settings.serving.address
        self._workshop = workshop
        self._clock = workshop.clocks.monotonic
        self._tasks = workshop.tasks
        self._counters = counters
        self._generation = first
        self._is_accepting = False
        self._reloading = asyncio.Lock()
        self._keeping: list[asyncio.Task[None]] = []
        self._retirement = Retirement(self._tasks, on_failure=_report_failure)
        self._heartbeat = Heartbeat(self._clock, silence_seconds=_SILENCE_SECONDS)
        self._watchdog = LoopWatchdog(counters.blocked_loop, time.monotonic)
        guard = metrics_guard(lambda: self._upstream.reviewer.client, clock=self._clock)
        self._admin = AdminSide(
            first.settings.admin,
            registry=counters.registry,
            checks=HealthChecks(
                live=[HealthCheck("event-loop", self._heartbeat.fault)],
                ready=[
                    HealthCheck("shutdown", lambda: "draining" if self.drain.has_begun else None),
                    HealthCheck("listener", lambda: None if self._is_accepting else "not open yet"),
                    self._check("upstream", lambda now: now.upstream.side.reachability.fault()),
                    self._check("own-identity", lambda now: now.upstream.side.knowledge.fault()),
                    self._check("own-credential", lambda now: now.upstream.side.credential_fault()),
                    self._check("canary", lambda now: now.upstream.side.knowledge.canary.fault()),
                    self._check("client-cas", lambda now: now.trust.fault()),
                    self._check("audit", lambda now: now.audit.fault()),
                ],
            ),
            counter=counters.serving,
            guard=lambda: guard if self.settings.admin.metrics_need_token else None,
            clock=self._clock,
        )
        self._listener = Listener(
            context=first.certificates.context,
            handler=first.pipeline,
            limits=self._fitting_limits(first.settings),
            budget=workshop.budget,
            clock=self._clock,
        )
        self._certificates = ServingCertificates(
            first.certificates, listening=self._listener, counter=counters.serving
        )
        self.drain = Drain(self._listener, drain_times(first.settings), clock=self._clock)
        watch_clients(counters.serving, self._listener, workshop.in_flight)
        self._take_audit(first)
        self._take_limits(first.settings)
        workshop.trace_by(first)
        first.trust.tell(self._believe)
        workshop.when_known = self._guard

    @property
    def registry(self) -> CollectorRegistry:
        """Where everything is counted."""
        return self._counters.registry

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._generation.settings

    @property
    def _upstream(self) -> UpstreamSide:
        return self._generation.upstream.side

    @property
    def _trust(self) -> TrustKeeper:
        return self._generation.trust

    @property
    def _tools(self) -> Tools:
        return self._workshop.tools_for(self._generation.upstream)

    async def start(self) -> None:
        """Listen, and keep house."""
        settings = self.settings
        self._watchdog.watch(settings.admin.blocked_loop_seconds)
        refresh_seconds = settings.serving.certificate_refresh_seconds
        await self._admin.start(self._tasks, refresh_seconds=refresh_seconds)
        self.address = await self._listener.bind(*settings.serving.address)
        upstream = self._generation.upstream
        upstream.run(self._workshop.when_known)
        # Beside another instance on the same port clients come with the first moment of listening,
        # and nobody is admitted before our name is known. An API server that is slow to tell it
        # does not keep us from saying so to them.
        await upstream.learn(_FIRST_LESSON_SECONDS)
        await self._listener.accept()
        self._is_accepting = True
        self._tasks.keep(self._keep_house())
        self._keep_fresh()
        log.info("serving", extra=fields(address=f"{self.address[0]}:{self.address[1]}"))

    async def stop(self) -> None:
        """Close everything, clients first; whoever is to leave in peace was drained before."""
        self._watchdog.stop()
        await self._listener.stop()
        self._upstream.pool.close()
        await self._tasks.stop()
        await self._generation.upstream.end()
        await self._admin.stop()
        # Last, when every exchange has ended and so every event was handed over.
        seconds = max(self.drain.seconds_left(), _LEAST_FLUSH_SECONDS)
        await self._retirement.end(seconds)
        await self._generation.audit.close(seconds)
        if self._generation.tracing is not None:
            await asyncio.to_thread(self._generation.tracing.stop)

    def hurry(self) -> None:
        """Wait for nobody from now on, neither for clients nor for audit backends."""
        self.drain.hurry()
        self._generation.audit.hurry()
        self._retirement.hurry()

    async def reload(self, settings: Settings, *, forgets: bool = True) -> None:
        """Serve by these settings from the next request on; or SetupError, and nothing changes.

        Whatever can fail is done before; then everything is replaced in one step. Requests that
        are being served end with what they began with. Nothing that was allowed under old rules is
        allowed by memory under new ones; with `forgets` nothing is, whatever has changed.
        """
        async with self._reloading:
            check_needs_no_restart(self.settings, settings)
            await self._workshop.check_files(settings)
            # What was read again since: the files may have changed more than once.
            current = replace(self._generation, certificates=self._certificates.loaded)
            new = await self._workshop.build(settings, current, forgets=forgets)
            if self.drain.has_begun:
                await self._workshop.discard(new, current=self._generation)
                raise ReloadRefused("the proxy is shutting down")
            self._serve_by(new)

    def _serve_by(self, new: Generation) -> None:
        """Replace everything at once: nothing here waits, and nothing can fail."""
        old, self._generation = self._generation, new
        settings = new.settings
        self._take_audit(new)
        self._counters.policy.audit_policy_read(used=True)
        self._counters.core.use_kep_names(use=settings.admin.kep_metric_names)
        self._take_limits(settings)
        self._workshop.trace_by(new)
        self._tasks.keep(self._admin.look(settings.admin))
        self._listener.hold_to(self._fitting_limits(settings))
        self._watchdog.watch(settings.admin.blocked_loop_seconds)
        self.drain.take_times(drain_times(settings))
        self._certificates.use(new.certificates)
        new.trust.tell(self._believe)
        if new.gate is not old.gate:
            self._guard()
            log.info("decisions reloaded")
        self._listener.serve_by(new.pipeline)
        self._keep_fresh()
        self._retire(old)

    def _take_audit(self, new: Generation) -> None:
        audit, book, metrics = new.audit, self._workshop.book, self._counters.audit
        limit_audit(new.settings.audit, audit)
        book.sink = Nowhere() if audit.sink is None else audit.sink
        book.policy = new.policy
        book.body_bytes = new.settings.audit.body_bytes
        book.limit(event_limits(new.settings.audit))
        new.pipeline.audit_room = audit.room
        for backlog in audit.backlogs:
            metrics.watch_waiting(backlog.name, backlog.__len__)

    def _take_limits(self, settings: Settings) -> None:
        limits = settings.serving.limits
        self._workshop.budget.limit(
            limits.unauthenticated_bytes, limits.unauthenticated_address_percent
        )
        self._workshop.in_flight.limit(
            reads=limits.reads_in_flight,
            writes=limits.writes_in_flight,
            per_caller=PlacesPerCaller(limits.caller_percent, limits.caller_long_running),
        )

    def _fitting_limits(self, settings: Settings) -> ConnectionLimits:
        """Return what clients are held to, with no more connections than open files suffice for."""
        reserved = files_beside_clients(settings)
        limits = fit_open_files(connection_limits(settings), reserved=reserved)
        self._counters.serving.connections_limited(limits.connections)
        return limits

    def _keep_fresh(self) -> None:
        """Follow certificates and CAs as often as the settings say."""
        for task in self._keeping:
            task.cancel()
        seconds = self.settings.serving.certificate_refresh_seconds
        self._keeping = [
            self._tasks.start(self._certificates.keep_fresh(seconds)),
            self._tasks.start(self._trust.keep_fresh(seconds)),
        ]

    def _retire(self, old: Generation) -> None:
        new = self._generation
        self._workshop.replaced(old, by=new)
        self._retirement.retire_audit(old.audit, beside=new.audit)
        if old.upstream is not new.upstream:
            self._retirement.retire_upstream(old.upstream, old.settings)
        if old.tracing is not None and old.tracing is not new.tracing:
            self._retirement.retire_tracing(old.tracing)

    def _check(self, name: str, fault: Callable[[Generation], str | None]) -> HealthCheck:
        """Return a check of whoever serves in the moment of asking."""
        return HealthCheck(name, lambda: fault(self._generation))

    async def _keep_house(self) -> None:
        """Close who is late, idle or dead, and show that the event loop turns."""
        freed = None
        with _failure_logged():
            freed = await asyncio.to_thread(freed_memory, self._clock)
        for turn in itertools.count(1):
            asleep_since = self._clock()
            await asyncio.sleep(_SWEEP_SECONDS)
            self._heartbeat.beat()
            self._counters.serving.loop_lagged(self._clock() - asleep_since - _SWEEP_SECONDS)
            for chore in self._chores(turn):
                with _failure_logged():
                    chore()
            if freed is not None:
                with _failure_logged():
                    await asyncio.to_thread(freed.look)

    def _chores(self, turn: int) -> list[Callable[[], None]]:
        """Return what is done in this turn; the failure of one keeps no other from being done."""
        listener, pool = self._listener, self._upstream.pool
        chores: list[Callable[[], None]] = [listener.close_late, pool.close_old]
        if turn % _SWEEPS_PER_DEAD_PEER_SEARCH == 0:
            chores += (listener.close_unreachable, pool.close_unreachable)
            chores.append(self._retirement.close_unreachable)
        return [*chores, self._count_turned_away]

    def _count_turned_away(self) -> None:
        if turned_away := self._listener.take_turned_away():
            self._counters.serving.connections_turned_away(turned_away)
            log.warning("too many connections", extra=fields(turned_away=turned_away))

    def _believe(self, trust: Trust) -> None:
        self._upstream.forwarder.rules = forwarding_rules(trust)
        front_proxies = trust.front_proxies
        self._counters.serving.trust_expires(
            clients=0.0 if trust.clients is None else trust.clients.expires_at,
            front_proxies=0.0 if front_proxies is None else front_proxies.bundle.expires_at,
        )

    def _guard(self) -> None:
        # Of the settings in force: our name may become known only after a reload.
        knowledge = self._upstream.knowledge
        if knowledge.own_names:
            self._generation.gate.guards = replace(
                nameless_guards(self.settings),
                own_names=knowledge.own_names,
                takes_uids=knowledge.takes_uids,
            )


@contextmanager
def _failure_logged() -> Iterator[None]:
    """Log what one part of the housekeeping raises, and go on.

    Without it one fault would end every deadline, and the heartbeat: the kubelet would then end a
    process that serves.
    """
    try:
        yield
    except Exception:
        log.exception("housekeeping failed")


def _report_failure(error: BaseException) -> None:
    if isinstance(error, Refusal):
        return  # An answer for whoever awaits the task, not a fault of it.
    log.error("background work failed", exc_info=error)
