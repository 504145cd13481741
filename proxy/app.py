"""Wiring: settings in, a running proxy out; what starts and stops, and in which order."""

import asyncio
import itertools
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from prometheus_client import CollectorRegistry

from proxy.admin.server import AdminServer
from proxy.audit.recorder import Recorder
from proxy.audit.sinks import AuditFile
from proxy.authentication.authenticator import Authenticator
from proxy.authentication.bearer_token import KubernetesTokenReviewer, TokenAuthenticator
from proxy.authentication.client_certificate import CertificateAuthenticator
from proxy.authorization.access_reviews import KubernetesAccessReviewer
from proxy.authorization.breaker import Breaker
from proxy.authorization.decision_memory import DecisionMemory, Memory, ModeMemory
from proxy.authorization.gate import Gate
from proxy.authorization.rationing import Ration, Rationing
from proxy.authorization.review_desk import ReviewDesk
from proxy.core.admission import Guards
from proxy.core.errors import Refusal
from proxy.core.impersonation_headers import read_wanted_identity
from proxy.pipeline import Decisions, Pipeline
from proxy.serving.certificates import serving_context
from proxy.serving.connection import ConnectionLimits
from proxy.serving.listener import Listener
from proxy.settings.decisions import decision_rules, impersonation_limits
from proxy.settings.model import Settings
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics import Metrics
from proxy.upstream.own_identity import own_name
from proxy.upstream.pool import Pool
from proxy.upstream.side import Clocks, UpstreamSide, upstream_side
from proxy.wire.tasks import Tasks

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_SWEEPS_PER_DEAD_PEER_SEARCH = 10
_OWN_NAME_SECONDS = 1.0


@asynccontextmanager
async def running_proxy(settings: Settings) -> AsyncIterator["Proxy"]:
    """Run the proxy for the time of the context."""
    context = serving_context(
        certificate_file=settings.serving.certificate_file,
        key_file=settings.serving.key_file,
        client_ca_file=settings.authentication.client_certificate.ca_file,
    )
    tasks = Tasks(_report_failure)
    clocks = Clocks(asyncio.get_running_loop().time, _wall_clock)
    async with upstream_side(settings.upstream, clocks=clocks, tasks=tasks) as upstream:
        proxy = Proxy(settings, context, upstream, tasks)
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
        context: ssl.SSLContext,
        upstream: UpstreamSide,
        tasks: Tasks,
    ) -> None:
        self.address = settings.serving.address
        self._clock = asyncio.get_running_loop().time
        self._tasks = tasks
        self._upstream = upstream
        self._own_name: str | None = None
        # Of the settings in force: our name may become known only after a reload.
        self._guards = _nameless_guards(settings)
        self._metrics = Metrics(CollectorRegistry(), kep_names=settings.admin.kep_metric_names)
        self._admin = AdminServer(self._metrics.registry)
        audit_path = settings.audit.log.path
        self._audit_file = AuditFile(audit_path) if audit_path is not None else None
        self._gate = self._build_gate(settings)
        self._pipeline = self._build_pipeline(settings)
        self._listener = Listener(
            context=context,
            handler=self._pipeline,
            limits=ConnectionLimits(),
            clock=self._clock,
        )

    async def start(self, settings: Settings) -> None:
        """Listen, and keep house."""
        if settings.admin.address is not None:
            await self._admin.start(*settings.admin.address)
        self.address = await self._listener.start(*settings.serving.address)
        self._tasks.keep(self._learn_own_name())
        self._tasks.keep(_sweep(self._listener, self._upstream.pool))
        self._tasks.keep(self._upstream.keeper.run())
        log.info("serving", extra=fields(address=f"{self.address[0]}:{self.address[1]}"))

    async def stop(self) -> None:
        """Close everything, clients first."""
        await self._listener.stop()
        self._upstream.pool.close()
        await self._tasks.stop()
        await self._admin.stop()
        if self._audit_file is not None:
            # Last, when every exchange has ended and so every event was handed over.
            await asyncio.to_thread(self._audit_file.close)

    def reload(self, settings: Settings) -> None:
        """Decide by these settings from the next request on.

        The new gate's memory is empty: nothing that was allowed under the old rules is allowed by
        memory under the new ones. A request that is being decided is finished by the old gate.
        """
        self._gate = self._build_gate(settings)
        self._guards = _nameless_guards(settings)
        self._guard()
        self._pipeline.decisions = self._decisions(settings)
        log.info("decisions reloaded")

    def _build_pipeline(self, settings: Settings) -> Pipeline:
        return Pipeline(
            recorder=Recorder(_wall_clock, self._audit_file),
            authenticator=self._build_authenticator(settings),
            decisions=self._decisions(settings),
            forwarder=self._upstream.forwarder,
            tasks=self._tasks,
        )

    def _build_authenticator(self, settings: Settings) -> Authenticator:
        reviews = settings.authentication.token_review
        tokens = TokenAuthenticator(
            KubernetesTokenReviewer(self._upstream.client, audiences=reviews.audiences),
            success_ttl_seconds=reviews.success_ttl_seconds,
            clock=self._clock,
            tasks=self._tasks,
        )
        return Authenticator(CertificateAuthenticator(), tokens if reviews.enabled else None)

    def _decisions(self, settings: Settings) -> Decisions:
        read_wanted = partial(
            read_wanted_identity,
            limits=impersonation_limits(settings.impersonation),
            constrained=settings.impersonation.constrained,
        )
        return Decisions(read_wanted, self._gate)

    def _build_gate(self, settings: Settings) -> Gate:
        impersonation = settings.impersonation
        reviews = impersonation.reviews
        ration = Ration(reviews.per_caller_per_second, reviews.per_caller_burst)
        desk = ReviewDesk(
            KubernetesAccessReviewer(self._upstream.client),
            rationing=Rationing(ration, self._clock),
            breaker=Breaker(self._clock),
            counter=self._metrics,
            limits=(reviews.in_flight, reviews.timeout_seconds),
            tasks=self._tasks,
        )
        decisions = DecisionMemory(
            ttl_seconds=impersonation.success_ttl_seconds,
            legacy_ttl_seconds=impersonation.legacy_ttl_seconds,
            entries=impersonation.cache_entries,
            clock=self._clock,
        )
        return Gate(
            rules=decision_rules(impersonation),
            reviewer=desk,
            memory=Memory(decisions, ModeMemory(enabled=impersonation.mode_memory)),
            counter=self._metrics,
            clock=self._clock,
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
                await asyncio.sleep(_OWN_NAME_SECONDS)
                continue
            if name != self._own_name:
                self._own_name = name
                log.info("own identity", extra=fields(user=name))
                self._guard()
            await self._upstream.credential_changed.wait()

    def _guard(self) -> None:
        if self._own_name is not None:
            self._gate.guards = replace(self._guards, own_name=self._own_name)


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _nameless_guards(settings: Settings) -> Guards:
    return Guards(
        protected_groups=frozenset(settings.impersonation.protected_groups),
        tells_original_user=settings.upstream.original_user_extra,
    )


async def _sweep(listener: Listener, pool: Pool) -> None:
    for turn in itertools.count(1):
        await asyncio.sleep(_SWEEP_SECONDS)
        listener.close_late()
        pool.close_old()
        if turn % _SWEEPS_PER_DEAD_PEER_SEARCH == 0:
            pool.close_unreachable()


def _report_failure(error: BaseException) -> None:
    if isinstance(error, Refusal):
        return  # An answer for whoever awaits the task, not a fault of it.
    log.error("background work failed", exc_info=error)
