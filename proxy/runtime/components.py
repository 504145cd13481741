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
from proxy.audit.request_record import Recorder
from proxy.audit.state import AuditBook
from proxy.authentication.authenticator import Authenticator
from proxy.authentication.ca_bundle import TrustError
from proxy.authentication.client_trust import TrustKeeper
from proxy.authentication.client_trust_sources import FilesAndCluster
from proxy.authorization.impersonation import Gate
from proxy.concurrency.circuit_breaker import Breaker
from proxy.concurrency.task_set import Failure, Tasks
from proxy.core.audit.policy import AuditPolicy
from proxy.pipeline.pipeline import Pipeline
from proxy.pipeline.stages import Decisions
from proxy.runtime.admin_builder import VERSION, dressing_by, tracing_by
from proxy.runtime.audit_builder import build_audit
from proxy.runtime.builders import (
    Tools,
    build_authenticator,
    build_gate,
    certificate_files,
    decisions_by,
    where_trust_is,
)
from proxy.runtime.config_file_checks import UnusableFiles, file_problems
from proxy.serving.certificates import LoadedCertificates, load_again, load_certificates
from proxy.serving.limits.max_in_flight import InFlight
from proxy.serving.limits.unauthenticated_memory import UnauthenticatedBudget
from proxy.settings.audit_policy import load_audit_policy
from proxy.settings.model import Settings
from proxy.telemetry.loop_watchdog import BlockedLoopMetrics
from proxy.telemetry.metrics.audit import AuditMetrics, AuditPolicyMetrics
from proxy.telemetry.metrics.authentication import TokenMetrics
from proxy.telemetry.metrics.impersonation import Metrics, ShadowMetrics
from proxy.telemetry.metrics.process import ProgramMetrics
from proxy.telemetry.metrics.requests import RequestMetrics
from proxy.telemetry.metrics.serving import ServingMetrics
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.telemetry.tracing import Tracing
from proxy.upstream.identity.account import Clocks
from proxy.upstream.session import Tenure, begin_tenure


class Nowhere:
    """Takes the events of requests that were begun before auditing was switched off."""

    def write(self, line: bytes) -> None:
        """Forget it."""


class Counters:
    """What is counted, whichever generation counts it; each series is registered once."""

    def __init__(self, *, kep_names: bool) -> None:
        self.registry = CollectorRegistry()
        self.core = Metrics(self.registry, kep_names=kep_names)
        self.serving = ServingMetrics(self.registry)
        self.tokens = TokenMetrics(self.registry)
        self.upstream = UpstreamMetrics(self.registry)
        self.audit = AuditMetrics(self.registry)
        self.policy = AuditPolicyMetrics(self.registry)
        self.requests = RequestMetrics(self.registry)
        self.shadow = ShadowMetrics(self.registry)
        self.blocked_loop = BlockedLoopMetrics(self.registry)
        ProgramMetrics(self.registry, version=VERSION)


@dataclass(frozen=True, slots=True)
class Generation:
    """The parts that serve by one state of the config file."""

    settings: Settings
    upstream: Tenure
    certificates: LoadedCertificates
    trust: TrustKeeper
    policy: AuditPolicy
    audit: AuditBackends
    tracing: Tracing | None
    authenticator: Authenticator
    gate: Gate
    decisions: Decisions
    pipeline: Pipeline


class Workshop:
    """Builds generations, and has what all of them share."""

    def __init__(
        self, counters: Counters, clocks: Clocks, *, tasks: Tasks, on_failure: Failure
    ) -> None:
        self.counters = counters
        self.clocks = clocks
        self.tasks = tasks
        self._on_failure = on_failure
        # One for all generations: events of a request that lasts follow the sink of the moment,
        # so that a backend which is gone is not written to.
        self.book = AuditBook(
            Nowhere(),
            AuditPolicy([]),
            body_bytes=0,
            clock=time.monotonic,
            when_truncated=counters.audit.event_truncated,
        )
        self._audited = AuditRecorder(time.time_ns, self.book, counter=counters.requests)
        self._unaudited = Recorder(time.time_ns, counter=counters.requests)
        self.in_flight = InFlight(reads=0, writes=0, counter=counters.serving)
        # One for every listener there is; `Proxy` holds it to the settings in force.
        unauthenticated = counters.serving.unauthenticated
        budget = self.budget = UnauthenticatedBudget(0, 0, counter=unauthenticated)
        unauthenticated.watch_budget(lambda: budget.held_bytes, lambda: budget.limit_bytes)
        # Whether reviews are answered is a matter of an API server, not of the rules.
        self._breakers = WeakKeyDictionary[Tenure, Breaker]()
        # Hears of each change of what is known of ourselves.
        self.when_known: Callable[[], None] = lambda: None

    def trace_by(self, new: Generation) -> None:
        """Make spans as a generation does; those of requests under way end with another."""
        self._audited.tracing = self._unaudited.tracing = new.tracing
        new.upstream.side.forwarder.dress = dressing_by(new.tracing)

    async def check_files(self, settings: Settings) -> None:
        """Raise UnusableFiles with everything that is wrong with the files of new settings."""
        problems = await asyncio.to_thread(file_problems, settings)
        if any(problem.startswith("audit.policyFile: ") for problem in problems):
            self.counters.policy.audit_policy_read(used=False)
        if problems:
            raise UnusableFiles(problems)

    async def build(
        self, settings: Settings, current: Generation | None = None, *, forgets: bool = True
    ) -> Generation:
        """Return what serves by these settings, or SetupError, and nothing was changed.

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
        tools = self.tools_for(upstream)
        if current is not None and _authenticates_alike(settings, trust, current):
            authenticator = current.authenticator
        else:
            authenticator = build_authenticator(settings, tools, trust)
        if current is not None and not forgets and _decides_alike(settings, upstream, current):
            gate, decisions = current.gate, current.decisions
        else:
            gate = build_gate(settings, tools)
            decisions = decisions_by(settings, gate, tools)
        pipeline = Pipeline(
            recorder=self._unaudited if audit.sink is None else self._audited,
            authenticator=authenticator,
            in_flight=self.in_flight,
            decisions=decisions,
            forwarder=upstream.side.forwarder,
            tasks=self.tasks,
        )
        return Generation(
            settings,
            upstream,
            certificates,
            trust,
            policy,
            audit,
            tracing,
            authenticator,
            gate,
            decisions,
            pipeline,
        )

    async def discard(self, unused: Generation, *, current: Generation) -> None:
        """Let go of what was built and is not used."""
        await unused.audit.close(0.0, beside=current.audit)
        if unused.tracing is not None and unused.tracing is not current.tracing:
            await asyncio.to_thread(unused.tracing.stop)
        if unused.upstream is not current.upstream:
            self._announce(current.upstream, unused.upstream)
            await unused.upstream.end()

    def replaced(self, old: Generation, *, by: Generation) -> None:
        """Show nothing any more of what is gone."""
        if old.upstream is not by.upstream:
            self._announce(by.upstream, old.upstream)
        for name in {one.name for one in old.audit.backlogs}:
            if name not in {one.name for one in by.audit.backlogs}:
                self.counters.audit.forget_waiting(name)

    def tools_for(self, upstream: Tenure) -> Tools:
        """Return what parts need besides their settings."""
        return Tools(
            self.clocks.monotonic,
            self.clocks.now,
            self.tasks,
            upstream.side.reviewer.client,
            self.counters.core,
            self.counters.tokens,
            self._breaker_for(upstream),
            self.counters.shadow,
        )

    def _breaker_for(self, upstream: Tenure) -> Breaker:
        breaker = self._breakers.get(upstream)
        if breaker is None:
            probing = upstream.side.reachability
            breaker = self._breakers[upstream] = Breaker(probing.request_probe)
            probing.add_listener(breaker.on_probe)
        return breaker

    async def _upstream(
        self, settings: Settings, current: Generation | None, undo: AsyncExitStack
    ) -> Tenure:
        if current is not None and settings.upstream == current.settings.upstream:
            return current.upstream
        upstream = await begin_tenure(
            settings.upstream,
            clocks=self.clocks,
            metrics=self.counters.upstream,
            on_failure=self._on_failure,
        )
        undo.push_async_callback(upstream.end)
        if current is not None:
            undo.callback(self._announce, current.upstream, upstream)
            upstream.run(self.when_known)
            await upstream.prove()
        return upstream

    def _announce(self, staying: Tenure, leaving: Tenure) -> None:
        """Show the credentials that are in use, and none of those that are not."""
        roles = {account.role for account in staying.side.accounts}
        for account in leaving.side.accounts:
            if account.role not in roles:
                self.counters.upstream.forget(account.role)
        for account in staying.side.accounts:
            account.keeper.announce()

    async def _trust(
        self, settings: Settings, upstream: Tenure, current: Generation | None
    ) -> TrustKeeper:
        where = where_trust_is(settings)
        if (
            current is not None
            and upstream is current.upstream
            and where == where_trust_is(current.settings)
        ):
            await current.trust.look()
            return current.trust
        source = FilesAndCluster(where, upstream.side.reviewer.client)
        trust = TrustKeeper(source, counter=self.counters.serving)
        await trust.begin()
        if current is not None and not trust.trust.is_known:
            raise TrustError("authentication: the cluster does not tell its client CAs")
        return trust

    async def _audit(
        self, settings: Settings, current: Generation | None, undo: AsyncExitStack
    ) -> AuditBackends:
        running = current.audit if current is not None else None
        before = (current.settings.audit, current.audit) if current is not None else None
        audit = build_audit(settings.audit, self.counters.audit, self.clocks.now, current=before)
        undo.push_async_callback(audit.close, 0.0, beside=running)
        await audit.start(beside=running)
        return audit


async def _tracing(settings: Settings, current: Generation | None) -> Tracing | None:
    if current is not None and settings.tracing == current.settings.tracing:
        return current.tracing
    return await tracing_by(settings.tracing)


async def _certificates(settings: Settings, current: Generation | None) -> LoadedCertificates:
    files = certificate_files(settings)
    if current is None:
        return await asyncio.to_thread(load_certificates, files)
    return await asyncio.to_thread(load_again, files, current.certificates)


def _authenticates_alike(settings: Settings, trust: TrustKeeper, current: Generation) -> bool:
    """Tell whether callers are found out as before: then tokens need not be reviewed again."""
    return trust is current.trust and settings.authentication == current.settings.authentication


def _decides_alike(settings: Settings, upstream: Tenure, current: Generation) -> bool:
    """Tell whether nothing that a decision depends on has changed."""
    return upstream is current.upstream and _decided_by(settings) == _decided_by(current.settings)


def _decided_by(settings: Settings) -> tuple[object, ...]:
    return settings.impersonation, settings.authentication, settings.serving.limits.selector_terms
