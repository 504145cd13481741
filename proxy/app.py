"""Wiring: settings in, a running proxy out; what starts and stops, and in which order."""

import asyncio
import itertools
import logging
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
from proxy.serving.certificates import (
    CertificateFiles,
    LoadedCertificates,
    ServingCertificates,
    load_certificates,
)
from proxy.serving.in_flight import InFlight
from proxy.serving.limits import ConnectionLimits
from proxy.serving.listener import Listener
from proxy.serving.open_files import allow_open_files
from proxy.settings.decisions import decision_rules, impersonation_limits
from proxy.settings.model import Settings
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.serving_metrics import ServingMetrics
from proxy.upstream.own_identity import own_name
from proxy.upstream.side import Clocks, UpstreamSide, upstream_side
from proxy.wire.tasks import Tasks

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_SWEEPS_PER_DEAD_PEER_SEARCH = 10
_OWN_NAME_SECONDS = 1.0


@asynccontextmanager
async def running_proxy(settings: Settings) -> AsyncIterator["Proxy"]:
    """Run the proxy for the time of the context."""
    certificates = await asyncio.to_thread(load_certificates, _certificate_files(settings))
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
        # Of the settings in force: our name may become known only after a reload.
        self._guards = _nameless_guards(settings)
        self._metrics = Metrics(CollectorRegistry(), kep_names=settings.admin.kep_metric_names)
        self._serving_metrics = ServingMetrics(self._metrics.registry)
        self._admin = AdminServer(self._metrics.registry)
        audit_path = settings.audit.log.path
        self._audit_file = AuditFile(audit_path) if audit_path is not None else None
        self._gate = self._build_gate(settings)
        self._pipeline = self._build_pipeline(settings)
        self._listener = Listener(
            context=certificates.context,
            handler=self._pipeline,
            limits=_connection_limits(settings),
            clock=self._clock,
        )
        self._certificates = ServingCertificates(
            certificates, listening=self._listener, counter=self._serving_metrics
        )

    async def start(self, settings: Settings) -> None:
        """Listen, and keep house."""
        allow_open_files(settings.serving.limits.connections)
        if settings.admin.address is not None:
            await self._admin.start(*settings.admin.address)
        self.address = await self._listener.start(*settings.serving.address)
        self._tasks.keep(self._learn_own_name())
        self._tasks.keep(self._sweep())
        self._tasks.keep(self._upstream.keeper.run())
        self._tasks.keep(
            self._certificates.keep_fresh(settings.serving.certificate_refresh_seconds)
        )
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
        Certificate, key and client CA are looked at, too, a moment later.
        """
        self._gate = self._build_gate(settings)
        self._guards = _nameless_guards(settings)
        self._guard()
        self._pipeline.decisions = self._decisions(settings)
        log.info("decisions reloaded")
        self._tasks.keep(self._certificates.look(_certificate_files(settings)))

    def _build_pipeline(self, settings: Settings) -> Pipeline:
        return Pipeline(
            recorder=Recorder(_wall_clock, self._audit_file),
            authenticator=self._build_authenticator(settings),
            in_flight=InFlight(
                reads=settings.serving.limits.reads_in_flight,
                writes=settings.serving.limits.writes_in_flight,
                counter=self._serving_metrics,
            ),
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
        certificates = CertificateAuthenticator(_wall_clock)
        return Authenticator(certificates, tokens if reviews.enabled else None)

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

    async def _sweep(self) -> None:
        for turn in itertools.count(1):
            await asyncio.sleep(_SWEEP_SECONDS)
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


def _certificate_files(settings: Settings) -> CertificateFiles:
    return CertificateFiles(
        settings.serving.certificate_file,
        settings.serving.key_file,
        settings.authentication.client_certificate.ca_file,
    )


def _connection_limits(settings: Settings) -> ConnectionLimits:
    limits = settings.serving.limits
    return ConnectionLimits(
        handshake_seconds=limits.handshake_timeout_seconds,
        head_seconds=limits.head_timeout_seconds,
        idle_seconds=limits.idle_timeout_seconds,
        unread_head_bytes=limits.unread_head_bytes,
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
    )


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _nameless_guards(settings: Settings) -> Guards:
    return Guards(
        protected_groups=frozenset(settings.impersonation.protected_groups),
        tells_original_user=settings.upstream.original_user_extra,
    )


def _report_failure(error: BaseException) -> None:
    if isinstance(error, Refusal):
        return  # An answer for whoever awaits the task, not a fault of it.
    log.error("background work failed", exc_info=error)
