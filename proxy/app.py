"""Wiring: settings in, a running proxy out; what starts and stops, and in which order."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

from kubernetes_asyncio.client import ApiClient
from prometheus_client import CollectorRegistry

from proxy.admin.health import HealthCheck, Heartbeat
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
from proxy.serving.drain import Drain
from proxy.serving.drain_schedule import DrainTimes
from proxy.serving.listener import Listener
from proxy.settings.decisions import decision_rules, impersonation_limits
from proxy.settings.model import Settings
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics import Metrics
from proxy.upstream.credentials import CredentialsError, UpstreamCredentials, load_credentials
from proxy.upstream.forwarder import Forwarder
from proxy.upstream.own_identity import own_name
from proxy.upstream.pool import Pool
from proxy.upstream.review_client import review_client
from proxy.wire.tasks import Tasks

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_CREDENTIAL_REFRESH_SECONDS = 30.0
_OWN_NAME_SECONDS = 1.0
_FIRST_LESSON_SECONDS = 3.0
_SILENCE_SECONDS = 30.0


@asynccontextmanager
async def running_proxy(settings: Settings) -> AsyncIterator["Proxy"]:
    """Run the proxy for the time of the context."""
    context = serving_context(
        certificate_file=settings.serving.certificate_file,
        key_file=settings.serving.key_file,
        client_ca_file=settings.authentication.client_certificate.ca_file,
    )
    credentials = await load_credentials(settings.upstream.kubeconfig)
    async with review_client(credentials) as client:
        proxy = Proxy(settings, context, credentials, client)
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
        credentials: UpstreamCredentials,
        client: ApiClient,
    ) -> None:
        self.address = settings.serving.address
        self._clock = asyncio.get_running_loop().time
        self._tasks = Tasks(_report_failure)
        self._credentials = credentials
        self._client = client
        self._own_name: str | None = None
        self._first_lesson = asyncio.Event()
        # Of the settings in force: our name may become known only after a reload.
        self._protected_groups = frozenset(settings.impersonation.protected_groups)
        self._metrics = Metrics(CollectorRegistry(), kep_names=settings.admin.kep_metric_names)
        self._heartbeat = Heartbeat(self._clock, silence_seconds=_SILENCE_SECONDS)
        self._admin = AdminServer(
            self._metrics.registry,
            live=[HealthCheck("event-loop", self._heartbeat.fault)],
            ready=[
                HealthCheck("shutdown", lambda: "draining" if self.drain.has_begun else None),
                HealthCheck("own-identity", lambda: None if self._own_name else "not known yet"),
            ],
        )
        self._pool = Pool(
            credentials.endpoint,
            connect_timeout_seconds=settings.upstream.connect_timeout_seconds,
            clock=self._clock,
            tasks=self._tasks,
        )
        audit_path = settings.audit.log.path
        self._audit_file = AuditFile(audit_path) if audit_path is not None else None
        self._gate = self._build_gate(settings)
        self._pipeline = self._build_pipeline(settings)
        self._listener = Listener(
            context=context,
            handler=self._pipeline,
            limits=ConnectionLimits(age_seconds=settings.serving.connection_age_seconds),
            clock=self._clock,
        )
        shutdown = settings.serving.shutdown
        times = DrainTimes(
            shutdown.delay_seconds, shutdown.watch_window_seconds, shutdown.grace_period_seconds
        )
        self.drain = Drain(self._listener, times, clock=self._clock)

    async def start(self, settings: Settings) -> None:
        """Listen, and keep house."""
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
        self._tasks.keep(self._keep_house())
        self._tasks.keep(_refresh(self._credentials))
        log.info("serving", extra=fields(address=f"{self.address[0]}:{self.address[1]}"))

    async def stop(self) -> None:
        """Close everything, clients first; whoever is to leave in peace was drained before."""
        await self._listener.stop()
        self._pool.close()
        await self._tasks.stop()
        await self._admin.stop()
        audit_file, self._audit_file = self._audit_file, None
        if audit_file is not None:
            # Last, when every exchange has ended and so every event was handed over.
            await asyncio.to_thread(audit_file.close)

    def reload(self, settings: Settings) -> None:
        """Decide by these settings from the next request on.

        The new gate's memory is empty: nothing that was allowed under the old rules is allowed by
        memory under the new ones. A request that is being decided is finished by the old gate.
        """
        self._gate = self._build_gate(settings)
        self._protected_groups = frozenset(settings.impersonation.protected_groups)
        self._guard()
        self._pipeline.decisions = self._decisions(settings)
        log.info("decisions reloaded")

    def _build_pipeline(self, settings: Settings) -> Pipeline:
        forwarder = Forwarder(
            self._pool,
            self._credentials,
            response_timeout_seconds=settings.upstream.response_timeout_seconds,
            tasks=self._tasks,
        )
        return Pipeline(
            recorder=Recorder(_wall_clock, self._audit_file),
            authenticator=self._build_authenticator(settings),
            decisions=self._decisions(settings),
            forwarder=forwarder,
            tasks=self._tasks,
        )

    def _build_authenticator(self, settings: Settings) -> Authenticator:
        reviews = settings.authentication.token_review
        tokens = TokenAuthenticator(
            KubernetesTokenReviewer(self._client, audiences=reviews.audiences),
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
            KubernetesAccessReviewer(self._client),
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
        """Ask who we are until the API server tells; nobody is admitted before that."""
        while self._own_name is None:
            try:
                self._own_name = await own_name(self._client)
            except Refusal as refusal:
                log.warning("own identity unknown", extra=fields(reason=refusal.message))
                self._first_lesson.set()
                await asyncio.sleep(_OWN_NAME_SECONDS)
        log.info("own identity", extra=fields(user=self._own_name))
        self._guard()
        self._first_lesson.set()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self._listener.close_late()
            self._pool.close_old()
            self._heartbeat.beat()

    def _guard(self) -> None:
        if self._own_name is not None:
            self._gate.guards = Guards(self._own_name, self._protected_groups)


def _wall_clock() -> datetime:
    return datetime.now(UTC)


async def _refresh(credentials: UpstreamCredentials) -> None:
    while True:
        await asyncio.sleep(_CREDENTIAL_REFRESH_SECONDS)
        try:
            await credentials.refresh()
        except CredentialsError as error:
            log.warning("own token not refreshed", extra=fields(error=str(error)))


def _report_failure(error: BaseException) -> None:
    if isinstance(error, Refusal):
        return  # An answer for whoever awaits the task, not a fault of it.
    log.error("background work failed", exc_info=error)
