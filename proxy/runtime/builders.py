"""Settings in, the parts of each room out: who is built from what, and nothing that runs."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial

from kubernetes_asyncio.client import ApiClient

from proxy.authentication.authenticator import AnonymousPolicy, Authenticator
from proxy.authentication.client_trust import Trust, TrustKeeper, header_names
from proxy.authentication.client_trust_sources import FrontProxyFile, WhereTrustIs
from proxy.authentication.token_review import KubernetesTokenReviewer, TokenAuthenticator
from proxy.authentication.token_review_queue import TokenDesk
from proxy.authorization.access_review import KubernetesAccessReviewer, ReviewDesk, ReviewLimits
from proxy.authorization.decision_cache import DecisionMemory, Memory, ModeMemory
from proxy.authorization.impersonation import Gate
from proxy.authorization.pod_nodes import BoundPods, DecidingGate, KubernetesPodReader, PlacingGate
from proxy.authorization.shadow import (
    Shadow,
    ShadowingGate,
    ShadowLimits,
    ShadowTools,
)
from proxy.concurrency.circuit_breaker import Breaker
from proxy.concurrency.rate_limit import Ration, Rationing
from proxy.concurrency.task_set import Tasks
from proxy.core.forwarding import NO_RULES, ForwardingRules, folded_name
from proxy.core.http.front_proxy import RemoteHeaders
from proxy.core.http.headers import Header
from proxy.core.impersonation.checks import DecisionRules
from proxy.core.impersonation.headers import ImpersonationLimits, read_wanted_identity
from proxy.core.impersonation.permit import Guards
from proxy.core.impersonation.policy import ExtraPolicy, LegacyAction, LegacyPolicy, LegacyRule
from proxy.core.userinfo import Identity
from proxy.pipeline.stages import Decisions
from proxy.serving.certificates import CertificateFiles
from proxy.serving.drain_schedule import DrainTimes
from proxy.serving.limits.connections import ConnectionLimits
from proxy.settings.impersonation import ImpersonationSettings
from proxy.settings.model import Settings
from proxy.telemetry.metrics.authentication import TokenMetrics
from proxy.telemetry.metrics.impersonation import Metrics, ShadowMetrics


def decision_rules(settings: ImpersonationSettings) -> DecisionRules:
    """Return the switches that change a decision."""
    return DecisionRules(
        constrained=settings.constrained,
        legacy=LegacyPolicy(
            LegacyAction(settings.legacy.default),
            tuple(
                LegacyRule(
                    LegacyAction(rule.action),
                    users=frozenset(rule.users),
                    groups=frozenset(rule.groups),
                    service_accounts=frozenset(rule.service_accounts),
                )
                for rule in settings.legacy.rules
            ),
        ),
        protected_groups=frozenset(settings.protected_groups),
        recalls_legacy=settings.legacy_ttl_seconds > 0,
        upgrade_needs_create=settings.upgrade_needs_create,
    )


def impersonation_limits(settings: ImpersonationSettings) -> ImpersonationLimits:
    """Return how much identity one request may ask for."""
    limits = settings.limits
    return ImpersonationLimits(
        groups=limits.groups,
        extra_values=limits.extra_values,
        value_bytes=limits.value_bytes,
    )


WantedReader = Callable[[Sequence[Header]], Identity | None]

_TOO_MANY_TOKENS = "too many unknown tokens from this address, please try again later"
_TOO_MANY_LOOKUPS = "too many pods looked up for this caller, please try again later"
_TOO_MANY_REVIEWS = "too many access reviews for this caller, please try again later"


@dataclass(frozen=True, slots=True)
class Tools:
    """What parts need besides their settings."""

    clock: Callable[[], float]
    now: Callable[[], datetime]
    tasks: Tasks
    client: ApiClient
    """For our own calls."""
    metrics: Metrics
    token_metrics: TokenMetrics
    breaker: Breaker
    """Whether access reviews are answered at all; whatever the rules are."""
    shadow_metrics: ShadowMetrics


def build_authenticator(settings: Settings, tools: Tools, trust: TrustKeeper) -> Authenticator:
    """Return what finds out who is calling."""
    reviews = settings.authentication.token_review
    ration = Ration(reviews.per_address_per_second, reviews.per_address_burst)
    desk = TokenDesk(
        KubernetesTokenReviewer(tools.client, audiences=reviews.audiences),
        rationing=Rationing(ration, tools.clock, refusal=_TOO_MANY_TOKENS),
        counter=tools.token_metrics,
        limits=(reviews.in_flight, reviews.timeout_seconds),
        clock=tools.clock,
    )
    tokens = TokenAuthenticator(
        desk,
        token_bytes=reviews.token_bytes,
        success_ttl_seconds=reviews.success_ttl_seconds,
        clock=tools.clock,
        tasks=tools.tasks,
        lookups=tools.token_metrics,
    )
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
    tools.metrics.watch_breaker(tools.breaker)
    desk = ReviewDesk(
        KubernetesAccessReviewer(tools.client),
        rationing=Rationing(ration, tools.clock, refusal=_TOO_MANY_REVIEWS),
        breaker=tools.breaker,
        counter=tools.metrics,
        limits=ReviewLimits(reviews.in_flight, reviews.timeout_seconds, reviews.document_bytes),
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
    impersonation = settings.impersonation
    read_wanted = _wanted_reader(impersonation_limits(impersonation), impersonation.constrained)
    deciding: DecidingGate = gate
    if impersonation.shadow.enabled:
        shadow = build_shadow(
            impersonation,
            tools.client,
            metrics=tools.shadow_metrics,
            tools=ShadowTools(tools.clock, random.random, tools.breaker, tools.tasks),
        )
        deciding = ShadowingGate(gate, shadow)
    if settings.impersonation.bound_pod_lookup:
        deciding = PlacingGate(deciding, _bound_pods(settings, tools))
    return Decisions(read_wanted, deciding, settings.serving.limits.selector_terms)


@lru_cache(maxsize=8)
def _wanted_reader(limits: ImpersonationLimits, constrained: bool) -> WantedReader:  # noqa: FBT001 - a key
    """Return the same reader for the same rules.

    Connections remember what each reader found in their headers: a new one with every reload would
    leave its traces there for as long as they stay open.
    """
    return partial(read_wanted_identity, limits=limits, constrained=constrained)


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
        handshake_bytes=limits.handshake_bytes,
        head_seconds=limits.head_timeout_seconds,
        idle_seconds=limits.idle_timeout_seconds,
        age_seconds=settings.serving.connection_age_seconds,
        header_lines=limits.header_lines,
        header_line_bytes=limits.header_line_bytes,
        target_bytes=limits.target_bytes,
        unauthenticated_idle_seconds=limits.unauthenticated_idle_timeout_seconds,
        response_progress_seconds=limits.response_progress_timeout_seconds,
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
        handshake_slice_seconds=limits.handshake_slice_seconds,
    )


def files_beside_clients(settings: Settings) -> int:
    """Return how many files the admin port and reviews may need at a time."""
    impersonation = settings.impersonation
    return (
        settings.admin.limits.connections
        + settings.authentication.token_review.in_flight
        # Reviews and look-ups of pods have a limit each, of the same number.
        + impersonation.reviews.in_flight * 2
        + impersonation.shadow.in_flight
    )


def drain_times(settings: Settings) -> DrainTimes:
    """Return how long each part of a shutdown takes."""
    shutdown = settings.serving.shutdown
    return DrainTimes(
        shutdown.delay_seconds, shutdown.watch_window_seconds, shutdown.grace_period_seconds
    )


def build_shadow(
    settings: ImpersonationSettings,
    client: ApiClient,
    *,
    metrics: ShadowMetrics,
    tools: ShadowTools,
) -> Shadow:
    """Return what judges by these settings.

    Client and breaker are shared with real decisions. A failure here cannot open the breaker: a
    probe does, which asks for neither.
    """
    reviews, limits = settings.reviews, settings.shadow
    ration = Ration(reviews.per_caller_per_second, reviews.per_caller_burst)
    desk = ReviewDesk(
        KubernetesAccessReviewer(client),
        rationing=Rationing(ration, tools.clock, refusal=_TOO_MANY_REVIEWS),
        breaker=tools.breaker,
        counter=metrics,
        limits=ReviewLimits(limits.in_flight, reviews.timeout_seconds, reviews.document_bytes),
        tasks=tools.tasks,
    )
    return Shadow(
        decision_rules(settings),
        reviewer=desk,
        counter=metrics,
        limits=ShadowLimits(
            limits.sample,
            limits.queue_size,
            limits.in_flight,
            limits.per_second,
            settings.success_ttl_seconds,
        ),
        tools=tools,
    )
