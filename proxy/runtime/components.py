"""Everything that is built from one state of the config file, so that it can be replaced as one.

A request is served by one generation from its head to its end. A part is kept when nothing that it
is built from has changed; otherwise a new one is built beside it, and whatever can fail has failed
before anything of the old one is touched.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry

from proxy.audit.backends.union import AuditBackends
from proxy.audit.recorder import AuditRecorder
from proxy.audit.request_record import RequestRecorder
from proxy.audit.state import AuditState
from proxy.authentication.authenticator import Authenticator
from proxy.authentication.ca_bundle import ClientCAError
from proxy.authentication.client_trust import ClientTrustReloader
from proxy.authentication.client_trust_sources import TrustLoader
from proxy.authorization.impersonation import ImpersonationAuthorizer
from proxy.concurrency.circuit_breaker import CircuitBreaker
from proxy.concurrency.task_set import Failure, TaskSet
from proxy.core.audit.policy import AuditPolicy
from proxy.pipeline.pipeline import Pipeline
from proxy.pipeline.stages import ImpersonationStage
from proxy.runtime.admin_builder import VERSION, start_tracing_from, trace_header_injector
from proxy.runtime.audit_builder import build_audit_backends
from proxy.runtime.builders import (
    BuildContext,
    build_authenticator,
    build_authorizer,
    build_impersonation_stage,
    certificate_files,
    trust_sources_from,
)
from proxy.runtime.config_file_checks import InvalidConfigFiles, find_file_problems
from proxy.serving.certificates import LoadedCertificates, load_again, load_certificates
from proxy.serving.limits.max_in_flight import MaxInFlightLimiter
from proxy.serving.limits.unauthenticated_memory import UnauthenticatedMemoryBudget
from proxy.settings.audit_policy import load_audit_policy
from proxy.settings.model import Settings
from proxy.telemetry.loop_watchdog import BlockedLoopMetrics
from proxy.telemetry.metrics.audit import AuditMetrics, AuditPolicyMetrics
from proxy.telemetry.metrics.authentication import TokenMetrics
from proxy.telemetry.metrics.impersonation import ImpersonationMetrics, ShadowMetrics
from proxy.telemetry.metrics.process import BuildInfoMetrics
from proxy.telemetry.metrics.requests import RequestMetrics
from proxy.telemetry.metrics.serving import ServingMetrics
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.telemetry.tracing import Tracing
from proxy.upstream.identity.account import Clocks
from proxy.upstream.session import UpstreamSession, open_session


class NullSink:
    """Takes the events of requests that were begun before auditing was switched off."""

    def write(self, line: bytes) -> None:
        """Forget it."""


class MetricsSet:
    """What is counted, whichever generation counts it; each series is registered once."""

    def __init__(self, *, kep_names: bool) -> None:
        self.registry = CollectorRegistry()
        self.core = ImpersonationMetrics(self.registry, kep_names=kep_names)
        self.serving = ServingMetrics(self.registry)
        self.tokens = TokenMetrics(self.registry)
        self.upstream = UpstreamMetrics(self.registry)
        self.audit = AuditMetrics(self.registry)
        self.policy = AuditPolicyMetrics(self.registry)
        self.requests = RequestMetrics(self.registry)
        self.shadow = ShadowMetrics(self.registry)
        self.blocked_loop = BlockedLoopMetrics(self.registry)
        BuildInfoMetrics(self.registry, version=VERSION)


@dataclass(frozen=True, slots=True)
class Components:
    """The parts that serve by one state of the config file."""

    settings: Settings
    upstream: UpstreamSession
    certificates: LoadedCertificates
    trust: ClientTrustReloader
    policy: AuditPolicy
    audit: AuditBackends
    tracing: Tracing | None
    authenticator: Authenticator
    authorizer: ImpersonationAuthorizer
    decisions: ImpersonationStage
    pipeline: Pipeline


class ComponentFactory:
    """Builds generations, and has what all of them share."""

    def __init__(
        self, counters: MetricsSet, clocks: Clocks, *, tasks: TaskSet, on_failure: Failure
    ) -> None:
        self.counters = counters
        self.clocks = clocks
        self.tasks = tasks
        self._on_failure = on_failure
        # One for all generations: events of a request that lasts follow the sink of the moment,
        # so that a backend which is gone is not written to.
        self.state = AuditState(
            NullSink(),
            AuditPolicy([]),
            body_bytes=0,
            clock=time.monotonic,
            when_truncated=counters.audit.event_truncated,
        )
        self._audited = AuditRecorder(time.time_ns, self.state, counter=counters.requests)
        self._unaudited = RequestRecorder(time.time_ns, counter=counters.requests)
        self.in_flight = MaxInFlightLimiter(reads=0, writes=0, counter=counters.serving)
        # One for every listener there is; `Proxy` holds it to the settings in force.
        unauthenticated = counters.serving.unauthenticated
        budget = self.budget = UnauthenticatedMemoryBudget(0, 0, counter=unauthenticated)
        unauthenticated.watch_budget(lambda: budget.used_bytes, lambda: budget.limit_bytes)
        # Whether reviews are answered is a matter of an API server, not of the rules.
        self._breakers = WeakKeyDictionary[UpstreamSession, CircuitBreaker]()
        # Hears of each change of what is known of ourselves.
        self.on_identity_known: Callable[[], None] = lambda: None

    def apply_tracing(self, new: Components) -> None:
        """Make spans as a generation does; those of requests under way end with another."""
        self._audited.tracing = self._unaudited.tracing = new.tracing
        new.upstream.side.forwarder.decorate_head = trace_header_injector(new.tracing)

    async def check_files(self, settings: Settings) -> None:
        """Raise InvalidConfigFiles with everything that is wrong with the files of new settings."""
        problems = await asyncio.to_thread(find_file_problems, settings)
        if any(problem.startswith("audit.policyFile: ") for problem in problems):
            self.counters.policy.audit_policy_read(used=False)
        if problems:
            raise InvalidConfigFiles(problems)

    async def build(
        self, settings: Settings, current: Components | None = None, *, forgets: bool = True
    ) -> Components:
        """Return what serves by these settings, or OperatorError, and nothing was changed.

        Without `forgets` decisions are remembered if no setting has to do with them. An API server
        side that is to replace another one is proven, and runs.
        """
        async with AsyncExitStack() as undo:
            policy = await asyncio.to_thread(load_audit_policy, settings.audit.policy_file)
            certificates = await _certificates(settings, current)
            upstream = await self._upstream(settings, current, undo)
            trust = await self._trust(settings, upstream, current)
            audit = await self._audit(settings, current, undo)
            tracing = await _tracing(settings, current)
            undo.pop_all()
        # Nothing can fail from here on.
        context = self.build_context_for(upstream)
        if current is not None and _authenticates_alike(settings, trust, current):
            authenticator = current.authenticator
        else:
            authenticator = build_authenticator(settings, context, trust)
        if current is not None and not forgets and _decides_alike(settings, upstream, current):
            authorizer, decisions = current.authorizer, current.decisions
        else:
            authorizer = build_authorizer(settings, context)
            decisions = build_impersonation_stage(settings, authorizer, context)
        pipeline = Pipeline(
            recorder=self._unaudited if audit.sink is None else self._audited,
            authenticator=authenticator,
            in_flight=self.in_flight,
            decisions=decisions,
            forwarder=upstream.side.forwarder,
            tasks=self.tasks,
        )
        return Components(
            settings,
            upstream,
            certificates,
            trust,
            policy,
            audit,
            tracing,
            authenticator,
            authorizer,
            decisions,
            pipeline,
        )

    async def discard(self, unused: Components, *, current: Components) -> None:
        """Let go of what was built and is not used."""
        await unused.audit.close(0.0, beside=current.audit)
        if unused.tracing is not None and unused.tracing is not current.tracing:
            await asyncio.to_thread(unused.tracing.stop)
        if unused.upstream is not current.upstream:
            self._announce(current.upstream, unused.upstream)
            await unused.upstream.close()

    def forget_metrics_of(self, old: Components, *, by: Components) -> None:
        """Show nothing any more of what is gone."""
        if old.upstream is not by.upstream:
            self._announce(by.upstream, old.upstream)
        for name in {one.name for one in old.audit.backlogs}:
            if name not in {one.name for one in by.audit.backlogs}:
                self.counters.audit.remove_queue(name)

    def build_context_for(self, upstream: UpstreamSession) -> BuildContext:
        """Return what parts need besides their settings."""
        return BuildContext(
            self.clocks.monotonic,
            self.clocks.now,
            self.tasks,
            upstream.side.reviewer.client,
            self.counters.core,
            self.counters.tokens,
            self._breaker_for(upstream),
            self.counters.shadow,
        )

    def _breaker_for(self, upstream: UpstreamSession) -> CircuitBreaker:
        breaker = self._breakers.get(upstream)
        if breaker is None:
            probing = upstream.side.reachability
            breaker = self._breakers[upstream] = CircuitBreaker(probing.request_probe)
            probing.add_listener(breaker.on_probe)
        return breaker

    async def _upstream(
        self, settings: Settings, current: Components | None, undo: AsyncExitStack
    ) -> UpstreamSession:
        if current is not None and settings.upstream == current.settings.upstream:
            return current.upstream
        upstream = await open_session(
            settings.upstream,
            clocks=self.clocks,
            metrics=self.counters.upstream,
            on_failure=self._on_failure,
        )
        undo.push_async_callback(upstream.close)
        if current is not None:
            undo.callback(self._announce, current.upstream, upstream)
            upstream.start(self.on_identity_known)
            await upstream.verify()
        return upstream

    def _announce(self, staying: UpstreamSession, leaving: UpstreamSession) -> None:
        """Show the credentials that are in use, and none of those that are not."""
        roles = {account.role for account in staying.side.accounts}
        for account in leaving.side.accounts:
            if account.role not in roles:
                self.counters.upstream.remove(account.role)
        for account in staying.side.accounts:
            account.refresher.publish_expiry()

    async def _trust(
        self, settings: Settings, upstream: UpstreamSession, current: Components | None
    ) -> ClientTrustReloader:
        where = trust_sources_from(settings)
        if (
            current is not None
            and upstream is current.upstream
            and where == trust_sources_from(current.settings)
        ):
            await current.trust.reload()
            return current.trust
        source = TrustLoader(where, upstream.side.reviewer.client)
        trust = ClientTrustReloader(source, counter=self.counters.serving)
        await trust.load()
        if current is not None and not trust.trust.is_known:
            raise ClientCAError("authentication: the cluster does not tell its client CAs")
        return trust

    async def _audit(
        self, settings: Settings, current: Components | None, undo: AsyncExitStack
    ) -> AuditBackends:
        running = current.audit if current is not None else None
        before = (current.settings.audit, current.audit) if current is not None else None
        audit = build_audit_backends(
            settings.audit, self.counters.audit, self.clocks.now, current=before
        )
        undo.push_async_callback(audit.close, 0.0, beside=running)
        await audit.start(beside=running)
        return audit


async def _tracing(settings: Settings, current: Components | None) -> Tracing | None:
    if current is not None and settings.tracing == current.settings.tracing:
        return current.tracing
    return await start_tracing_from(settings.tracing)


async def _certificates(settings: Settings, current: Components | None) -> LoadedCertificates:
    files = certificate_files(settings)
    if current is None:
        return await asyncio.to_thread(load_certificates, files)
    return await asyncio.to_thread(load_again, files, current.certificates)


def _authenticates_alike(
    settings: Settings, trust: ClientTrustReloader, current: Components
) -> bool:
    """Tell whether callers are found out as before: then tokens need not be reviewed again."""
    return trust is current.trust and settings.authentication == current.settings.authentication


def _decides_alike(settings: Settings, upstream: UpstreamSession, current: Components) -> bool:
    """Tell whether nothing that a decision depends on has changed."""
    return upstream is current.upstream and _decided_by(settings) == _decided_by(current.settings)


def _decided_by(settings: Settings) -> tuple[object, ...]:
    return settings.impersonation, settings.authentication, settings.serving.limits.selector_terms
