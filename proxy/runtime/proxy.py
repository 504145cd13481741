"""The running proxy: start, reload and shutdown order, and periodic maintenance."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from prometheus_client import CollectorRegistry

from proxy.admin.health import EventLoopHeartbeat, HealthCheck
from proxy.admin.server import AdminPort, HealthChecks
from proxy.audit.state import NullSink
from proxy.authentication.client_trust import ClientTrust, ClientTrustReloader
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError, StatusError
from proxy.runtime.admin_builder import build_metrics_authorizer, register_client_gauges
from proxy.runtime.audit_builder import apply_buffer_limits, event_limits
from proxy.runtime.builders import (
    base_restrictions,
    connection_limits,
    drain_times,
    forwarding_rules,
    reserved_file_descriptors,
)
from proxy.runtime.components import (
    ComponentFactory,
    Components,
    MetricsSet,
)
from proxy.runtime.maintenance import Maintenance
from proxy.runtime.retiring import RetiringComponents
from proxy.serving.certificates import ServingCertificates
from proxy.serving.drain import Drain
from proxy.serving.limits.connections import ConnectionLimits, fit_open_files
from proxy.serving.limits.max_in_flight import PerCallerLimit
from proxy.serving.listener import Listener
from proxy.settings.loader import check_reloadable
from proxy.settings.model import Settings
from proxy.telemetry.logs import fields
from proxy.telemetry.loop_watchdog import LoopWatchdog
from proxy.upstream.identity.account import Clocks
from proxy.upstream.session import UpstreamComponents

log = logging.getLogger(__name__)

_SWEEPS_PER_DEAD_PEER_SEARCH = 10
_IDENTITY_WAIT_SECONDS = 3.0
_MAX_SILENCE_SECONDS = 30.0
_MIN_FLUSH_SECONDS = 1.0
# Called twice per request: a partial avoids the cost of a Python function.
_wall_clock: Callable[[], datetime] = partial(datetime.now, UTC)


class ReloadRejected(OperatorError):
    """The config file cannot be applied now."""


@asynccontextmanager
async def run_proxy(settings: Settings) -> AsyncIterator["Proxy"]:
    """Run the proxy while the context is open."""
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
    """The components, wired together, and the order in which they start and stop."""

    def __init__(self, factory: ComponentFactory, first: Components) -> None:
        counters = factory.metrics
        self.address = first.settings.serving.address
        self._factory = factory
        self._clock = factory.clocks.monotonic
        self._tasks = factory.tasks
        self._counters = counters
        self._components = first
        self._is_accepting = False
        self._reloading = asyncio.Lock()
        self._refresh_tasks: list[asyncio.Task[None]] = []
        self._retiring = RetiringComponents(self._tasks, on_failure=_report_failure)
        heartbeat = EventLoopHeartbeat(self._clock, silence_seconds=_MAX_SILENCE_SECONDS)
        self._maintenance = Maintenance(heartbeat, counters.serving, self._clock)
        self._watchdog = LoopWatchdog(counters.blocked_loop, time.monotonic)
        guard = build_metrics_authorizer(lambda: self._upstream.reviewer.client, clock=self._clock)
        self._admin = AdminPort(
            first.settings.admin,
            registry=counters.registry,
            checks=HealthChecks(
                live=[HealthCheck("event-loop", heartbeat.health_error)],
                ready=[
                    HealthCheck("shutdown", lambda: "draining" if self.drain.has_started else None),
                    HealthCheck(
                        "listener", lambda: None if self._is_accepting else "not listening yet"
                    ),
                    self._component_check(
                        "upstream", lambda now: now.upstream.components.health.health_error()
                    ),
                    self._component_check(
                        "proxy-identity",
                        lambda now: now.upstream.components.identity_monitor.health_error(),
                    ),
                    self._component_check(
                        "proxy-credential", lambda now: now.upstream.components.credential_error()
                    ),
                    self._component_check(
                        "proxy-permissions",
                        lambda now: now.upstream.components.permission_error(),
                    ),
                    self._component_check(
                        "canary",
                        lambda now: now.upstream.components.identity_monitor.canary.health_error(),
                    ),
                    self._component_check("client-cas", lambda now: now.trust.health_error()),
                    self._component_check("audit", lambda now: now.audit_backends.health_error()),
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
            first.certificates, use_context=self._listener.set_tls_context, counter=counters.serving
        )
        self.drain = Drain(self._listener, drain_times(first.settings), clock=self._clock)
        register_client_gauges(counters.serving, self._listener, factory.in_flight)
        self._apply_audit(first)
        self._apply_limits(first.settings)
        factory.apply_tracing(first)
        first.trust.subscribe(self._apply_client_trust)
        factory.on_identity_known = self._apply_identity_restrictions

    @property
    def registry(self) -> CollectorRegistry:
        """The registry of all metrics."""
        return self._counters.registry

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._components.settings

    @property
    def _upstream(self) -> UpstreamComponents:
        return self._components.upstream.components

    @property
    def _trust(self) -> ClientTrustReloader:
        return self._components.trust

    async def start(self) -> None:
        """Listen, and start periodic maintenance."""
        settings = self.settings
        self._watchdog.watch(settings.admin.blocked_loop_seconds)
        refresh_seconds = settings.serving.certificate_refresh_seconds
        await self._admin.start(self._tasks, refresh_seconds=refresh_seconds)
        self.address = await self._listener.bind(*settings.serving.address)
        upstream = self._components.upstream
        upstream.start(self._factory.on_identity_known)
        # With another instance on the same port, clients connect as soon as this one listens. No
        # request is authorized before the proxy knows its own user names. The wait is bounded: if
        # the API server is slow, clients receive an error instead of waiting for a connection.
        await upstream.wait_for_identity(_IDENTITY_WAIT_SECONDS)
        await self._listener.start_accepting()
        self._is_accepting = True
        self._tasks.start_background(self._maintenance.run(self._maintenance_tasks))
        self._restart_refresh_tasks()
        log.info("serving", extra=fields(address=f"{self.address[0]}:{self.address[1]}"))

    async def stop(self) -> None:
        """Close everything, clients first; call `drain` before for a graceful shutdown."""
        self._watchdog.stop()
        await self._listener.stop()
        self._upstream.pool.close()
        await self._tasks.stop()
        await self._components.upstream.close()
        await self._admin.stop()
        # Last: every exchange has ended, so every event was passed to the backends.
        seconds = max(self.drain.remaining_seconds(), _MIN_FLUSH_SECONDS)
        await self._retiring.close(seconds)
        await self._components.audit_backends.close(seconds)
        if self._components.tracing is not None:
            await asyncio.to_thread(self._components.tracing.stop)

    def skip_grace_period(self) -> None:
        """Stop waiting for clients and for audit backends."""
        self.drain.skip_grace_period()
        self._components.audit_backends.skip_flush()
        self._retiring.skip_grace_period()

    async def reload(self, settings: Settings, *, discard_decisions: bool = True) -> None:
        """Apply these settings from the next request on; on OperatorError nothing changes.

        Every step that can fail is done first; then everything is replaced in one step. Requests
        in flight end with the components they began with. No decision that was cached under old
        rules is used under new ones. With `discard_decisions` no cached decision is kept at all.
        """
        async with self._reloading:
            check_reloadable(self.settings, settings)
            await self._factory.check_files(settings)
            # The certificates loaded last: the files may have changed since the last reload.
            current = replace(self._components, certificates=self._certificates.loaded)
            new = await self._factory.build(settings, current, discard_decisions=discard_decisions)
            if self.drain.has_started:
                await self._factory.discard(new, current=self._components)
                raise ReloadRejected("the proxy is shutting down")
            self._activate(new)

    def _activate(self, new: Components) -> None:
        """Replace all components in one step: nothing here waits, and nothing can fail."""
        old, self._components = self._components, new
        settings = new.settings
        self._apply_audit(new)
        self._counters.policy.audit_policy_read(used=True)
        self._counters.impersonation.use_kep_names(use=settings.admin.kep_metric_names)
        self._apply_limits(settings)
        self._factory.apply_tracing(new)
        self._tasks.start_background(self._admin.apply_settings(settings.admin))
        self._listener.set_limits(self._fitting_limits(settings))
        self._watchdog.watch(settings.admin.blocked_loop_seconds)
        self.drain.set_times(drain_times(settings))
        self._certificates.use(new.certificates)
        new.trust.subscribe(self._apply_client_trust)
        if new.authorizer is not old.authorizer:
            self._apply_identity_restrictions()
            log.info("decisions reloaded")
        self._listener.set_handler(new.pipeline)
        self._restart_refresh_tasks()
        self._retire(old)

    def _apply_audit(self, new: Components) -> None:
        audit, state, metrics = new.audit_backends, self._factory.state, self._counters.audit
        apply_buffer_limits(new.settings.audit, audit)
        state.sink = NullSink() if audit.sink is None else audit.sink
        state.policy = new.policy
        state.body_bytes = new.settings.audit.max_body_bytes
        state.set_limits(event_limits(new.settings.audit))
        new.pipeline.audit_backpressure = audit.backpressure
        for backlog in audit.buffers:
            metrics.watch_queue(backlog.name, backlog.__len__)

    def _apply_limits(self, settings: Settings) -> None:
        limits = settings.serving.limits
        self._factory.budget.set_limits(
            limits.unauthenticated_bytes, limits.unauthenticated_address_percent
        )
        self._factory.in_flight.set_limits(
            reads=limits.reads_in_flight,
            writes=limits.writes_in_flight,
            per_caller=PerCallerLimit(limits.caller_percent, limits.caller_long_running),
        )

    def _fitting_limits(self, settings: Settings) -> ConnectionLimits:
        """Return the connection limits, reduced to what the open file limit allows."""
        reserved = reserved_file_descriptors(settings)
        limits = fit_open_files(connection_limits(settings), reserved=reserved)
        self._counters.serving.connections_limited(limits.connections)
        return limits

    def _restart_refresh_tasks(self) -> None:
        """Restart the periodic reload of certificates and CAs with the current interval."""
        for task in self._refresh_tasks:
            task.cancel()
        seconds = self.settings.serving.certificate_refresh_seconds
        self._refresh_tasks = [
            self._tasks.start(self._certificates.run(seconds, self._tasks)),
            self._tasks.start(self._trust.reload_periodically(seconds)),
        ]

    def _retire(self, old: Components) -> None:
        new = self._components
        self._factory.remove_metrics_of(old, by=new)
        self._retiring.retire_audit(old.audit_backends, current=new.audit_backends)
        if old.upstream is not new.upstream:
            self._retiring.retire_upstream(old.upstream, old.settings)
        if old.tracing is not None and old.tracing is not new.tracing:
            self._retiring.retire_tracing(old.tracing)

    def _component_check(self, name: str, fault: Callable[[Components], str | None]) -> HealthCheck:
        """Return a check of the components that are current at the time of the check."""
        return HealthCheck(name, lambda: fault(self._components))

    def _maintenance_tasks(self, sweep: int) -> list[Callable[[], None]]:
        """Return the tasks of this sweep; the failure of one does not prevent the others."""
        listener, pool = self._listener, self._upstream.pool
        tasks: list[Callable[[], None]] = [listener.close_expired, pool.close_expired]
        if sweep % _SWEEPS_PER_DEAD_PEER_SEARCH == 0:
            tasks += (listener.close_unreachable, pool.close_unreachable)
            tasks.append(self._retiring.close_unreachable)
        return [*tasks, self._count_rejected_connections]

    def _count_rejected_connections(self) -> None:
        if rejected := self._listener.take_rejected_count():
            self._counters.serving.connections_rejected(rejected)
            log.warning("client connections rejected", extra=fields(count=rejected))

    def _apply_client_trust(self, trust: ClientTrust) -> None:
        self._upstream.forwarder.rules = forwarding_rules(trust)
        front_proxies = trust.front_proxies
        self._counters.serving.trust_expires(
            clients=0.0 if trust.clients is None else trust.clients.expires_at,
            front_proxies=0.0 if front_proxies is None else front_proxies.bundle.expires_at,
        )

    def _apply_identity_restrictions(self) -> None:
        # With the settings in force: the proxy's user names may become known after a reload.
        knowledge = self._upstream.identity_monitor
        if knowledge.usernames:
            self._components.authorizer.restrictions = replace(
                base_restrictions(self.settings),
                proxy_usernames=knowledge.usernames,
                supports_uid=knowledge.supports_uid,
            )


def _report_failure(error: BaseException) -> None:
    if isinstance(error, StatusError):
        return  # The result for the awaiting caller, not a failure of the task.
    log.error("background task failed", exc_info=error)
