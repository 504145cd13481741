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

from proxy.admin.health import EventLoopHeartbeat, HealthCheck
from proxy.admin.server import AdminPort, HealthChecks
from proxy.authentication.client_trust import ClientTrust, ClientTrustReloader
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError, StatusError
from proxy.runtime.admin_builder import build_metrics_authorizer, register_client_gauges
from proxy.runtime.audit_builder import apply_buffer_limits, event_limits
from proxy.runtime.builders import (
    BuildContext,
    base_restrictions,
    connection_limits,
    drain_times,
    files_beside_clients,
    forwarding_rules,
)
from proxy.runtime.components import (
    ComponentFactory,
    Components,
    MetricsSet,
    NullSink,
)
from proxy.runtime.retiring import RetiringComponents
from proxy.serving.certificates import ServingCertificates
from proxy.serving.drain import Drain
from proxy.serving.limits.connections import ConnectionLimits
from proxy.serving.limits.max_in_flight import PerCallerLimit
from proxy.serving.limits.open_files import fit_open_files
from proxy.serving.listener import Listener
from proxy.settings.loader import check_reloadable
from proxy.settings.model import Settings
from proxy.telemetry.logs import fields
from proxy.telemetry.loop_watchdog import LoopWatchdog
from proxy.telemetry.memory_trim import memory_trimmer
from proxy.upstream.identity.account import Clocks
from proxy.upstream.session import UpstreamComponents

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_SWEEPS_PER_DEAD_PEER_SEARCH = 10
_FIRST_LESSON_SECONDS = 3.0
_SILENCE_SECONDS = 30.0
_LEAST_FLUSH_SECONDS = 1.0
# Asked twice at every request, so without a function of our own.
_wall_clock: Callable[[], datetime] = partial(datetime.now, UTC)


class ReloadRejected(OperatorError):
    """The config file cannot be taken now."""


@asynccontextmanager
async def run_proxy(settings: Settings) -> AsyncIterator["Proxy"]:
    """Run the proxy for the time of the context."""
    factory = ComponentFactory(
        MetricsSet(kep_names=settings.admin.kep_metric_names),
        Clocks(asyncio.get_running_loop().time, _wall_clock),
        tasks=TaskSet(_report_failure),
        on_failure=_report_failure,
    )
    proxy = Proxy(factory, await factory.build(settings))
    try:
        await proxy.start()
        yield proxy
    finally:
        await proxy.stop()


class Proxy:
    """The rooms, wired together, and the order in which they start and stop."""

    def __init__(self, factory: ComponentFactory, first: Components) -> None:
        counters = factory.counters
        self.address = first.settings.serving.address
        self._factory = factory
        self._clock = factory.clocks.monotonic
        self._tasks = factory.tasks
        self._counters = counters
        self._components = first
        self._is_accepting = False
        self._reloading = asyncio.Lock()
        self._keeping: list[asyncio.Task[None]] = []
        self._retirement = RetiringComponents(self._tasks, on_failure=_report_failure)
        self._heartbeat = EventLoopHeartbeat(self._clock, silence_seconds=_SILENCE_SECONDS)
        self._watchdog = LoopWatchdog(counters.blocked_loop, time.monotonic)
        guard = build_metrics_authorizer(lambda: self._upstream.reviewer.client, clock=self._clock)
        self._admin = AdminPort(
            first.settings.admin,
            registry=counters.registry,
            checks=HealthChecks(
                live=[HealthCheck("event-loop", self._heartbeat.health_error)],
                ready=[
                    HealthCheck("shutdown", lambda: "draining" if self.drain.has_started else None),
                    HealthCheck("listener", lambda: None if self._is_accepting else "not open yet"),
                    self._check(
                        "upstream", lambda now: now.upstream.side.reachability.health_error()
                    ),
                    self._check(
                        "proxy-identity", lambda now: now.upstream.side.knowledge.health_error()
                    ),
                    self._check(
                        "proxy-credential", lambda now: now.upstream.side.credential_error()
                    ),
                    self._check(
                        "canary", lambda now: now.upstream.side.knowledge.canary.health_error()
                    ),
                    self._check("client-cas", lambda now: now.trust.health_error()),
                    self._check("audit", lambda now: now.audit.health_error()),
                ],
            ),
            counter=counters.serving,
            guard=lambda: guard if self.settings.admin.metrics_require_authorization else None,
            clock=self._clock,
        )
        self._listener = Listener(
            context=first.certificates.context,
            handler=first.pipeline,
            limits=self._fitting_limits(first.settings),
            budget=factory.budget,
            clock=self._clock,
        )
        self._certificates = ServingCertificates(
            first.certificates, listening=self._listener, counter=counters.serving
        )
        self.drain = Drain(self._listener, drain_times(first.settings), clock=self._clock)
        register_client_gauges(counters.serving, self._listener, factory.in_flight)
        self._apply_audit(first)
        self._take_limits(first.settings)
        factory.apply_tracing(first)
        first.trust.subscribe(self._apply_client_trust)
        factory.on_identity_known = self._apply_identity_restrictions

    @property
    def registry(self) -> CollectorRegistry:
        """Where everything is counted."""
        return self._counters.registry

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._components.settings

    @property
    def _upstream(self) -> UpstreamComponents:
        return self._components.upstream.side

    @property
    def _trust(self) -> ClientTrustReloader:
        return self._components.trust

    @property
    def _context(self) -> BuildContext:
        return self._factory.build_context_for(self._components.upstream)

    async def start(self) -> None:
        """Listen, and keep house."""
        settings = self.settings
        self._watchdog.watch(settings.admin.blocked_loop_seconds)
        refresh_seconds = settings.serving.certificate_refresh_seconds
        await self._admin.start(self._tasks, refresh_seconds=refresh_seconds)
        self.address = await self._listener.bind(*settings.serving.address)
        upstream = self._components.upstream
        upstream.start(self._factory.on_identity_known)
        # Beside another instance on the same port clients come with the first moment of listening,
        # and nobody is admitted before our name is known. An API server that is slow to tell it
        # does not keep us from saying so to them.
        await upstream.wait_for_identity(_FIRST_LESSON_SECONDS)
        await self._listener.accept()
        self._is_accepting = True
        self._tasks.start_background(self._run_maintenance())
        self._keep_fresh()
        log.info("serving", extra=fields(address=f"{self.address[0]}:{self.address[1]}"))

    async def stop(self) -> None:
        """Close everything, clients first; whoever is to leave in peace was drained before."""
        self._watchdog.stop()
        await self._listener.stop()
        self._upstream.pool.close()
        await self._tasks.stop()
        await self._components.upstream.close()
        await self._admin.stop()
        # Last, when every exchange has ended and so every event was handed over.
        seconds = max(self.drain.remaining_seconds(), _LEAST_FLUSH_SECONDS)
        await self._retirement.end(seconds)
        await self._components.audit.close(seconds)
        if self._components.tracing is not None:
            await asyncio.to_thread(self._components.tracing.stop)

    def skip_grace_period(self) -> None:
        """Wait for nobody from now on, neither for clients nor for audit backends."""
        self.drain.skip_grace_period()
        self._components.audit.skip_flush()
        self._retirement.skip_grace_period()

    async def reload(self, settings: Settings, *, forgets: bool = True) -> None:
        """Serve by these settings from the next request on; or OperatorError, and nothing changes.

        Whatever can fail is done before; then everything is replaced in one step. Requests that
        are being served end with what they began with. Nothing that was allowed under old rules is
        allowed by memory under new ones; with `forgets` nothing is, whatever has changed.
        """
        async with self._reloading:
            check_reloadable(self.settings, settings)
            await self._factory.check_files(settings)
            # What was read again since: the files may have changed more than once.
            current = replace(self._components, certificates=self._certificates.loaded)
            new = await self._factory.build(settings, current, forgets=forgets)
            if self.drain.has_started:
                await self._factory.discard(new, current=self._components)
                raise ReloadRejected("the proxy is shutting down")
            self._activate(new)

    def _activate(self, new: Components) -> None:
        """Replace everything at once: nothing here waits, and nothing can fail."""
        old, self._components = self._components, new
        settings = new.settings
        self._apply_audit(new)
        self._counters.policy.audit_policy_read(used=True)
        self._counters.core.use_kep_names(use=settings.admin.kep_metric_names)
        self._take_limits(settings)
        self._factory.apply_tracing(new)
        self._tasks.start_background(self._admin.reload_certificate(settings.admin))
        self._listener.set_limits(self._fitting_limits(settings))
        self._watchdog.watch(settings.admin.blocked_loop_seconds)
        self.drain.set_times(drain_times(settings))
        self._certificates.use(new.certificates)
        new.trust.subscribe(self._apply_client_trust)
        if new.authorizer is not old.authorizer:
            self._apply_identity_restrictions()
            log.info("decisions reloaded")
        self._listener.set_handler(new.pipeline)
        self._keep_fresh()
        self._retire(old)

    def _apply_audit(self, new: Components) -> None:
        audit, state, metrics = new.audit, self._factory.state, self._counters.audit
        apply_buffer_limits(new.settings.audit, audit)
        state.sink = NullSink() if audit.sink is None else audit.sink
        state.policy = new.policy
        state.body_bytes = new.settings.audit.max_body_bytes
        state.limit(event_limits(new.settings.audit))
        new.pipeline.audit_backpressure = audit.backpressure
        for backlog in audit.backlogs:
            metrics.watch_waiting(backlog.name, backlog.__len__)

    def _take_limits(self, settings: Settings) -> None:
        limits = settings.serving.limits
        self._factory.budget.limit(
            limits.unauthenticated_bytes, limits.unauthenticated_address_percent
        )
        self._factory.in_flight.limit(
            reads=limits.reads_in_flight,
            writes=limits.writes_in_flight,
            per_caller=PerCallerLimit(limits.caller_percent, limits.caller_long_running),
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
            self._tasks.start(self._certificates.run(seconds)),
            self._tasks.start(self._trust.keep_fresh(seconds)),
        ]

    def _retire(self, old: Components) -> None:
        new = self._components
        self._factory.forget_metrics_of(old, by=new)
        self._retirement.retire_audit(old.audit, beside=new.audit)
        if old.upstream is not new.upstream:
            self._retirement.retire_upstream(old.upstream, old.settings)
        if old.tracing is not None and old.tracing is not new.tracing:
            self._retirement.retire_tracing(old.tracing)

    def _check(self, name: str, fault: Callable[[Components], str | None]) -> HealthCheck:
        """Return a check of whoever serves in the moment of asking."""
        return HealthCheck(name, lambda: fault(self._components))

    async def _run_maintenance(self) -> None:
        """Close who is late, idle or dead, and show that the event loop turns."""
        freed = None
        with _failure_logged():
            freed = await asyncio.to_thread(memory_trimmer, self._clock)
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
                    await asyncio.to_thread(freed.trim_if_due)

    def _chores(self, turn: int) -> list[Callable[[], None]]:
        """Return what is done in this turn; the failure of one keeps no other from being done."""
        listener, pool = self._listener, self._upstream.pool
        chores: list[Callable[[], None]] = [listener.close_expired, pool.close_old]
        if turn % _SWEEPS_PER_DEAD_PEER_SEARCH == 0:
            chores += (listener.close_unreachable, pool.close_unreachable)
            chores.append(self._retirement.close_unreachable)
        return [*chores, self._count_turned_away]

    def _count_turned_away(self) -> None:
        if turned_away := self._listener.take_rejected_count():
            self._counters.serving.connections_turned_away(turned_away)
            log.warning("too many connections", extra=fields(turned_away=turned_away))

    def _apply_client_trust(self, trust: ClientTrust) -> None:
        self._upstream.forwarder.rules = forwarding_rules(trust)
        front_proxies = trust.front_proxies
        self._counters.serving.trust_expires(
            clients=0.0 if trust.clients is None else trust.clients.expires_at,
            front_proxies=0.0 if front_proxies is None else front_proxies.bundle.expires_at,
        )

    def _apply_identity_restrictions(self) -> None:
        # Of the settings in force: our name may become known only after a reload.
        knowledge = self._upstream.knowledge
        if knowledge.usernames:
            self._components.authorizer.restrictions = replace(
                base_restrictions(self.settings),
                proxy_usernames=knowledge.usernames,
                supports_uid=knowledge.supports_uid,
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
        log.exception("maintenance failed")


def _report_failure(error: BaseException) -> None:
    if isinstance(error, StatusError):
        return  # An answer for whoever awaits the task, not a fault of it.
    log.error("background work failed", exc_info=error)
