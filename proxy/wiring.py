"""Settings in, the parts of each room out: who is built from what, and nothing that runs."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from kubernetes_asyncio.client import ApiClient

from proxy.audit.backlog import BufferLimits, Mode
from proxy.audit.log_backend import LogBackend
from proxy.audit.log_file import STANDARD_OUTPUT, LogFile
from proxy.audit.old_log_files import Keeping, OldLogFiles
from proxy.audit.sinks import AuditBackends
from proxy.audit.webhook import Batching, WebhookBackend
from proxy.audit.webhook_target import WebhookTarget
from proxy.authentication.authenticator import AnonymousPolicy, Authenticator
from proxy.authentication.bearer_token import KubernetesTokenReviewer, TokenAuthenticator
from proxy.authentication.token_desk import TokenDesk
from proxy.authentication.trust import Trust, TrustKeeper, header_names
from proxy.authentication.trust_sources import FrontProxyFile, WhereTrustIs
from proxy.authorization.access_reviews import KubernetesAccessReviewer
from proxy.authorization.bound_pods import BoundPods, KubernetesPodReader
from proxy.authorization.breaker import Breaker
from proxy.authorization.decision_memory import DecisionMemory, Memory, ModeMemory
from proxy.authorization.gate import Gate
from proxy.authorization.placement import PlacingGate
from proxy.authorization.review_desk import ReviewDesk
from proxy.core.admission import Guards
from proxy.core.extra_policy import ExtraPolicy
from proxy.core.forwarding_headers import NO_RULES, ForwardingRules, folded_name
from proxy.core.impersonation_headers import read_wanted_identity
from proxy.core.remote_headers import RemoteHeaders
from proxy.fairness.rationing import Ration, Rationing
from proxy.pipeline import Decisions
from proxy.serving.certificates import CertificateFiles
from proxy.serving.drain_schedule import DrainTimes
from proxy.serving.limits import ConnectionLimits
from proxy.settings.audit import AuditSettings
from proxy.settings.audit_backends import AuditLogSettings, AuditWebhookSettings
from proxy.settings.decisions import decision_rules, impersonation_limits
from proxy.settings.model import Settings
from proxy.telemetry.audit_metrics import AuditMetrics
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.token_metrics import TokenMetrics
from proxy.upstream.credential_source import CredentialSource
from proxy.wire.tasks import Tasks

log = logging.getLogger(__name__)

_TOO_MANY_TOKENS = "too many unknown tokens from this address, please try again later"
_TOO_MANY_LOOKUPS = "too many pods looked up for this caller, please try again later"
_TOO_MANY_REVIEWS = "too many access reviews for this caller, please try again later"
_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Tools:
    """What parts need besides their settings."""

    clock: Callable[[], float]
    now: Callable[[], datetime]
    tasks: Tasks
    client: ApiClient
    """For our own calls."""
    metrics: Metrics


def build_authenticator(settings: Settings, tools: Tools, trust: TrustKeeper) -> Authenticator:
    """Return what finds out who is calling."""
    reviews = settings.authentication.token_review
    ration = Ration(reviews.per_address_per_second, reviews.per_address_burst)
    metrics = TokenMetrics(tools.metrics.registry)
    desk = TokenDesk(
        KubernetesTokenReviewer(tools.client, audiences=reviews.audiences),
        rationing=Rationing(ration, tools.clock, refusal=_TOO_MANY_TOKENS),
        counter=metrics,
        limits=(reviews.in_flight, reviews.timeout_seconds),
        clock=tools.clock,
    )
    tokens = TokenAuthenticator(
        desk,
        success_ttl_seconds=reviews.success_ttl_seconds,
        clock=tools.clock,
        tasks=tools.tasks,
    )
    metrics.watch_memory(lambda: (tokens.remembered, tokens.asked))
    return Authenticator(
        trust,
        tokens if reviews.enabled else None,
        clock=tools.now,
        anonymous=anonymous_policy(settings),
    )


def anonymous_policy(settings: Settings) -> AnonymousPolicy:
    """Return where nobody in particular may call."""
    anonymous = settings.authentication.anonymous
    return AnonymousPolicy(anonymous.enabled, frozenset(anonymous.paths))


def where_trust_is(settings: Settings) -> WhereTrustIs:
    """Return where the CAs of clients and of front proxies are read from."""
    clients = settings.authentication.client_certificate
    front_proxy = settings.authentication.front_proxy
    file = None
    if front_proxy.ca_file is not None:
        headers = RemoteHeaders(
            header_names(front_proxy.username_headers),
            header_names(front_proxy.uid_headers),
            header_names(front_proxy.group_headers),
            header_names(front_proxy.extra_header_prefixes),
        )
        file = FrontProxyFile(front_proxy.ca_file, front_proxy.allowed_names, headers)
    return WhereTrustIs(clients.ca_file, clients.from_cluster, file, front_proxy.from_cluster)


def forwarding_rules(trust: Trust) -> ForwardingRules:
    """Return which headers a client may not send on, besides those that nobody may."""
    if trust.front_proxies is None:
        return NO_RULES
    headers = trust.front_proxies.headers
    return ForwardingRules(
        dropped_names=frozenset(map(folded_name, headers.names)),
        dropped_prefixes=tuple(map(folded_name, headers.extra_prefixes)),
    )


def build_gate(settings: Settings, tools: Tools) -> Gate:
    """Return what decides who may act as whom; it remembers nothing yet."""
    impersonation = settings.impersonation
    reviews = impersonation.reviews
    ration = Ration(reviews.per_caller_per_second, reviews.per_caller_burst)
    breaker = Breaker(tools.clock)
    tools.metrics.watch_breaker(lambda: breaker.is_open)
    desk = ReviewDesk(
        KubernetesAccessReviewer(tools.client),
        rationing=Rationing(ration, tools.clock, refusal=_TOO_MANY_REVIEWS),
        breaker=breaker,
        counter=tools.metrics,
        limits=(reviews.in_flight, reviews.timeout_seconds),
        tasks=tools.tasks,
    )
    decisions = DecisionMemory(
        ttl_seconds=impersonation.success_ttl_seconds,
        legacy_ttl_seconds=impersonation.legacy_ttl_seconds,
        entries=impersonation.cache_entries,
        clock=tools.clock,
    )
    return Gate(
        rules=decision_rules(impersonation),
        reviewer=desk,
        memory=Memory(decisions, ModeMemory(enabled=impersonation.mode_memory)),
        counter=tools.metrics,
        clock=tools.clock,
        tasks=tools.tasks,
    )


def decisions_by(settings: Settings, gate: Gate, tools: Tools) -> Decisions:
    """Return how requests are judged."""
    read_wanted = partial(
        read_wanted_identity,
        limits=impersonation_limits(settings.impersonation),
        constrained=settings.impersonation.constrained,
    )
    if settings.impersonation.bound_pod_lookup:
        return Decisions(read_wanted, PlacingGate(gate, _bound_pods(settings, tools)))
    return Decisions(read_wanted, gate)


def _bound_pods(settings: Settings, tools: Tools) -> BoundPods:
    reviews = settings.impersonation.reviews
    ration = Ration(reviews.per_caller_per_second, reviews.per_caller_burst)
    return BoundPods(
        KubernetesPodReader(tools.client),
        rationing=Rationing(ration, tools.clock, refusal=_TOO_MANY_LOOKUPS),
        counter=tools.metrics,
        limits=(reviews.in_flight, reviews.timeout_seconds),
        clock=tools.clock,
        tasks=tools.tasks,
    )


def nameless_guards(settings: Settings) -> Guards:
    """Return what holds for every identity, but for our own name: the API server tells that."""
    return Guards(
        protected_groups=frozenset(settings.impersonation.protected_groups),
        tells_original_user=settings.upstream.original_user_extra,
        extras=_extra_policy(settings),
    )


def _extra_policy(settings: Settings) -> ExtraPolicy | None:
    keys: dict[str, set[str]] = {"forward": set(), "drop": set(), "refuse": set()}
    for key, action in settings.upstream.extras.items():
        keys[action].add(key)
    policy = ExtraPolicy(dropped=frozenset(keys["drop"]), refused=frozenset(keys["refuse"]))
    return None if policy == ExtraPolicy() else policy


def certificate_files(settings: Settings) -> CertificateFiles:
    """Return where what clients meet in the handshake is read from."""
    return CertificateFiles(
        settings.serving.certificate_file,
        settings.serving.key_file,
        where_trust_is(settings).believes_certificates,
    )


def connection_limits(settings: Settings) -> ConnectionLimits:
    """Return what clients are held to."""
    limits = settings.serving.limits
    return ConnectionLimits(
        handshake_seconds=limits.handshake_timeout_seconds,
        head_seconds=limits.head_timeout_seconds,
        idle_seconds=limits.idle_timeout_seconds,
        age_seconds=settings.serving.connection_age_seconds,
        unread_head_bytes=limits.unread_head_bytes,
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
    )


def drain_times(settings: Settings) -> DrainTimes:
    """Return how long each part of a shutdown takes."""
    shutdown = settings.serving.shutdown
    return DrainTimes(
        shutdown.delay_seconds, shutdown.watch_window_seconds, shutdown.grace_period_seconds
    )


def build_audit(
    settings: AuditSettings, metrics: AuditMetrics, now: Callable[[], datetime]
) -> AuditBackends:
    """Return where audit events go; SetupError when the file cannot be opened."""
    backends = AuditBackends(
        _build_audit_log(settings.log, metrics),
        _build_audit_webhook(settings.webhook, metrics, now),
        when_refused=metrics.request_rejected,
    )
    for backlog in backends.backlogs:
        metrics.watch_waiting(backlog.name, backlog.__len__)
    return backends


def _build_audit_log(settings: AuditLogSettings, metrics: AuditMetrics) -> LogBackend | None:
    if settings.path is None:
        return None
    limits = BufferLimits(Mode(settings.mode), settings.buffer_size, settings.buffer_bytes)
    return LogBackend(partial(_open_audit_log, settings, settings.path, metrics), limits, metrics)


def _open_audit_log(settings: AuditLogSettings, path: Path, metrics: AuditMetrics) -> LogFile:
    def failed(reason: str, error: OSError) -> None:
        metrics.backend_failed("log", reason)
        text = error.strerror or str(error)
        log.warning("audit file not rotated", extra=fields(step=reason, reason=text))

    keeping = Keeping(settings.max_age_days, settings.max_backups, settings.compress)
    old_files = OldLogFiles(path, keeping, when_failed=partial(failed, "tidy"))
    file = LogFile(
        path,
        most_bytes=settings.max_size_megabytes * _MEGABYTE,
        when_put_aside=old_files.tidy,
        when_rotation_fails=partial(failed, "rotate"),
    )
    if path != STANDARD_OUTPUT:
        old_files.tidy()  # what a predecessor could not finish
    return file


def _build_audit_webhook(
    settings: AuditWebhookSettings, metrics: AuditMetrics, now: Callable[[], datetime]
) -> WebhookBackend | None:
    if settings.kubeconfig is None:
        return None
    return WebhookBackend(
        WebhookTarget(CredentialSource(settings.kubeconfig, now)),
        BufferLimits(Mode(settings.mode), settings.buffer_size, settings.buffer_bytes),
        Batching(
            most_events=settings.batch_max_size,
            longest_wait_seconds=settings.batch_max_wait_seconds,
            calls_per_second=settings.throttle_qps,
            burst=settings.throttle_burst,
            initial_backoff_seconds=settings.initial_backoff_seconds,
        ),
        metrics,
    )
