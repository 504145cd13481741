"""The components built from one state of the config file, replaced together on a reload.

One generation of components serves a request from its head to its end. A component is reused if
nothing that it is built from has changed. Otherwise a new one is built alongside the old one.
Every step that can fail is done before any old component is changed.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry

from proxy.audit.backends.union import AuditBackends
from proxy.audit.context import RequestRecorder
from proxy.audit.request_record import RequestTelemetry
from proxy.audit.state import AuditState, NullSink
from proxy.authentication.authenticator import Authenticator
from proxy.authentication.ca_bundle import ClientCAError
from proxy.authentication.client_trust import ClientTrustReloader
from proxy.authentication.client_trust_sources import TrustLoader
from proxy.authorization.impersonation import ImpersonationAuthorizer, ImpersonationStage
from proxy.concurrency.circuit_breaker import CircuitBreaker
from proxy.concurrency.task_set import Failure, TaskSet
from proxy.core.audit.policy import AuditPolicy
from proxy.pipeline.pipeline import Pipeline
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
from proxy.serving.certificates import LoadedCertificates, load_certificates, load_if_changed
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


class MetricsSet:
    """All metrics, shared by every generation; each series is registered once."""

    def __init__(self, *, kep_names: bool) -> None:
        self.registry = CollectorRegistry()
        self.impersonation = ImpersonationMetrics(self.registry, kep_names=kep_names)
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
    """The components of one state of the config file."""

    settings: Settings
    upstream: UpstreamSession
    certificates: LoadedCertificates
    trust: ClientTrustReloader
    policy: AuditPolicy
    audit_backends: AuditBackends
    tracing: Tracing | None
    authenticator: Authenticator
    authorizer: ImpersonationAuthorizer
    impersonation_stage: ImpersonationStage
    pipeline: Pipeline


class ComponentFactory:
    """Builds generations of components, and owns the state that all of them share."""

    def __init__(
        self, counters: MetricsSet, clocks: Clocks, *, tasks: TaskSet, on_failure: Failure
    ) -> None:
        self.metrics = counters
        self.clocks = clocks
        self.tasks = tasks
        self._on_failure = on_failure
        # Shared by all generations: events of a long-running request go to the current sink, so
        # that a backend which was closed is not written to.
        self.state = AuditState(
            NullSink(),
            AuditPolicy([]),
            body_bytes=0,
            when_truncated=counters.audit.event_truncated,
        )
        self._telemetry = RequestTelemetry(counters.requests, time.time_ns)
        self._audited = RequestRecorder(self._telemetry, self.state)
        self._unaudited = RequestRecorder(self._telemetry, None)
        self.in_flight = MaxInFlightLimiter(reads=0, writes=0, counter=counters.serving)
        # Shared by every listener; `Proxy` applies the limits of the settings in force.
        unauthenticated = counters.serving.unauthenticated
        budget = self.budget = UnauthenticatedMemoryBudget(
            0, 0, when_rejected=unauthenticated.unauthenticated_rejected
        )
        unauthenticated.watch_budget(lambda: budget.used_bytes, lambda: budget.limit_bytes)
        # One breaker per API server: whether reviews are answered does not depend on the rules.
        # A breaker disappears with its session, which a reload may replace.
        breakers = self._breakers = WeakKeyDictionary[UpstreamSession, CircuitBreaker]()
        counters.impersonation.watch_breakers(
            lambda: any(breaker.is_open for breaker in breakers.values())
        )
        # Called whenever the proxy's own identity becomes known or changes.
        self.on_identity_known: Callable[[], None] = lambda: None

    def apply_tracing(self, new: Components) -> None:
        """Use a generation's tracing; requests in flight end their spans with the new one."""
        self._telemetry.tracing = new.tracing
        new.upstream.components.forwarder.decorate_head = trace_header_injector(new.tracing)

    async def check_files(self, settings: Settings) -> None:
        """Raise InvalidConfigFiles with every problem of the files that the settings name."""
        problems = await asyncio.to_thread(find_file_problems, settings)
        if any(problem.startswith("audit.policyFile: ") for problem in problems):
            self.metrics.policy.audit_policy_read(used=False)
        if problems:
            raise InvalidConfigFiles(problems)

    async def build(
        self,
        settings: Settings,
        current: Components | None = None,
        *,
        discard_decisions: bool = True,
    ) -> Components:
        """Build the components for these settings; on OperatorError nothing was changed.

        Without `discard_decisions`, cached decisions are kept if no setting that affects them
        has changed. An upstream session that replaces another one is verified and running.
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
        context = self._build_context(upstream)
        if current is not None and _has_same_authentication(settings, trust, current):
            authenticator = current.authenticator
        else:
            authenticator = build_authenticator(settings, context, trust)
        if (
            current is not None
            and not discard_decisions
            and _has_same_rules(settings, upstream, current)
        ):
            authorizer, decisions = current.authorizer, current.impersonation_stage
        else:
            authorizer = build_authorizer(settings, context)
            decisions = build_impersonation_stage(settings, authorizer)
        pipeline = Pipeline(
            recorder=self._unaudited if audit.sink is None else self._audited,
            authenticator=authenticator,
            in_flight=self.in_flight,
            impersonation=decisions,
            forwarder=upstream.components.forwarder,
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
        """Close components that were built and are not used."""
        await unused.audit_backends.close(0.0, shared_with=current.audit_backends)
        if unused.tracing is not None and unused.tracing is not current.tracing:
            await asyncio.to_thread(unused.tracing.stop)
        if unused.upstream is not current.upstream:
            self._publish_credentials(current.upstream, unused.upstream)
            await unused.upstream.close()

    def remove_metrics_of(self, old: Components, *, by: Components) -> None:
        """Remove the metrics of components that are no longer in use."""
        if old.upstream is not by.upstream:
            self._publish_credentials(by.upstream, old.upstream)
        for name in {backlog.name for backlog in old.audit_backends.buffers}:
            if name not in {backlog.name for backlog in by.audit_backends.buffers}:
                self.metrics.audit.remove_queue(name)

    def _build_context(self, upstream: UpstreamSession) -> BuildContext:
        """Return the dependencies of components besides their settings."""
        return BuildContext(
            self.clocks.monotonic,
            self.clocks.now,
            self.tasks,
            upstream.components.reviewer.client,
            self.metrics.impersonation,
            self.metrics.tokens,
            self._breaker_for(upstream),
            self.metrics.shadow,
        )

    def _breaker_for(self, upstream: UpstreamSession) -> CircuitBreaker:
        breaker = self._breakers.get(upstream)
        if breaker is None:
            reachability = upstream.components.health
            breaker = self._breakers[upstream] = CircuitBreaker(reachability.request_probe)
            reachability.add_breaker(breaker)
        return breaker

    async def _upstream(
        self, settings: Settings, current: Components | None, undo: AsyncExitStack
    ) -> UpstreamSession:
        if current is not None and settings.upstream == current.settings.upstream:
            return current.upstream
        upstream = await open_session(
            settings.upstream,
            clocks=self.clocks,
            metrics=self.metrics.upstream,
            on_failure=self._on_failure,
        )
        undo.push_async_callback(upstream.close)
        if current is not None:
            undo.callback(self._publish_credentials, current.upstream, upstream)
            upstream.start(self.on_identity_known)
            await upstream.verify()
        return upstream

    def _publish_credentials(self, staying: UpstreamSession, leaving: UpstreamSession) -> None:
        """Publish the metrics of credentials in use, and remove those of the others."""
        roles = {account.role for account in staying.components.accounts}
        for account in leaving.components.accounts:
            if account.role not in roles:
                self.metrics.upstream.remove_identity(account.role)
        for account in staying.components.accounts:
            account.refresher.publish_expiry()

    async def _trust(
        self, settings: Settings, upstream: UpstreamSession, current: Components | None
    ) -> ClientTrustReloader:
        sources = trust_sources_from(settings)
        if (
            current is not None
            and upstream is current.upstream
            and sources == trust_sources_from(current.settings)
        ):
            await current.trust.reload()
            return current.trust
        loader = TrustLoader(sources, upstream.components.reviewer.client)
        trust = ClientTrustReloader(loader, counter=self.metrics.serving)
        await trust.load()
        if current is not None and not trust.trust.is_known:
            raise ClientCAError("authentication: the cluster does not publish its client CAs")
        return trust

    async def _audit(
        self, settings: Settings, current: Components | None, undo: AsyncExitStack
    ) -> AuditBackends:
        running = current.audit_backends if current is not None else None
        before = (current.settings.audit, current.audit_backends) if current is not None else None
        audit = build_audit_backends(
            settings.audit, self.metrics.audit, self.clocks.now, current=before
        )
        undo.push_async_callback(audit.close, 0.0, shared_with=running)
        await audit.start(shared_with=running)
        return audit


async def _tracing(settings: Settings, current: Components | None) -> Tracing | None:
    if current is not None and settings.tracing == current.settings.tracing:
        return current.tracing
    return await start_tracing_from(settings.tracing)


async def _certificates(settings: Settings, current: Components | None) -> LoadedCertificates:
    files = certificate_files(settings)
    if current is None:
        return await asyncio.to_thread(load_certificates, files)
    return await asyncio.to_thread(load_if_changed, files, current.certificates)


def _has_same_authentication(
    settings: Settings, trust: ClientTrustReloader, current: Components
) -> bool:
    """Return whether authentication has not changed, so that reviewed tokens stay cached."""
    return trust is current.trust and settings.authentication == current.settings.authentication


def _has_same_rules(settings: Settings, upstream: UpstreamSession, current: Components) -> bool:
    """Return whether nothing that a decision depends on has changed."""
    return upstream is current.upstream and _decision_settings(settings) == _decision_settings(
        current.settings
    )


def _decision_settings(settings: Settings) -> tuple[object, ...]:
    return settings.impersonation, settings.authentication, settings.serving.limits.selector_terms
