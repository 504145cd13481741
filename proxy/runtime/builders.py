"""Builders that turn settings into components. They start nothing."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kubernetes_asyncio.client import ApiClient

from proxy.authentication.authenticator import AnonymousPolicy, Authenticator
from proxy.authentication.client_trust import ClientTrust, ClientTrustReloader
from proxy.authentication.client_trust_sources import (
    FrontProxyFile,
    TrustSourceConfig,
    header_names,
)
from proxy.authentication.token_authenticator import CachedTokenAuthenticator
from proxy.authentication.token_review import KubernetesTokenReviewer, TokenReviewQueue
from proxy.authorization.access_review import (
    AccessReviewQueue,
    KubernetesAccessReviewer,
    ReviewLimits,
)
from proxy.authorization.decision_cache import DecisionCache, ImpersonationCaches, ModeCache
from proxy.authorization.impersonation import (
    AuthorizerDependencies,
    ImpersonationAuthorizer,
    ImpersonationStage,
)
from proxy.authorization.pod_nodes import KubernetesPodReader, PodNodeResolver
from proxy.authorization.shadow import ShadowDependencies, ShadowEvaluator, ShadowLimits
from proxy.concurrency.circuit_breaker import CircuitBreaker
from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.concurrency.task_set import TaskSet
from proxy.core.forwarding import DEFAULT_FORWARDING_RULES, ForwardingRules, normalize_header_name
from proxy.core.http.front_proxy import FrontProxyHeaderNames
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.impersonation.headers import ImpersonationHeaderParser, ImpersonationLimits
from proxy.core.impersonation.permit import IdentityRestrictions
from proxy.core.impersonation.policy import ExtraPolicy, LegacyAction, LegacyPolicy, LegacyRule
from proxy.serving.certificates import CertificateFiles
from proxy.serving.drain_schedule import DrainTimes
from proxy.serving.limits.connections import ConnectionLimits
from proxy.settings.impersonation import ImpersonationSettings
from proxy.settings.model import Settings
from proxy.telemetry.metrics.authentication import TokenMetrics
from proxy.telemetry.metrics.impersonation import ImpersonationMetrics, ShadowMetrics


def decision_rules(settings: ImpersonationSettings) -> ImpersonationRules:
    """Return the settings that affect an impersonation decision."""
    return ImpersonationRules(
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
        caches_legacy=settings.legacy_ttl_seconds > 0,
        upgrade_needs_create=settings.upgrade_needs_create,
        warns_on_discovery=settings.discovery_warning,
    )


def impersonation_limits(settings: ImpersonationSettings) -> ImpersonationLimits:
    """Return the limits on the impersonation headers of one request."""
    limits = settings.limits
    return ImpersonationLimits(
        groups=limits.groups,
        extra_values=limits.extra_values,
        value_bytes=limits.value_bytes,
    )


_TOO_MANY_TOKENS = "too many unknown tokens from this address, please try again later"
_TOO_MANY_LOOKUPS = "too many pods looked up for this caller, please try again later"
_TOO_MANY_REVIEWS = "too many access reviews for this caller, please try again later"


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Dependencies of components besides their settings."""

    clock: Callable[[], float]
    now: Callable[[], datetime]
    tasks: TaskSet
    client: ApiClient
    """Sends the proxy's own requests, such as reviews."""
    metrics: ImpersonationMetrics
    token_metrics: TokenMetrics
    breaker: CircuitBreaker
    """Fails access reviews at once while the API server does not answer them."""
    shadow_metrics: ShadowMetrics


def build_authenticator(
    settings: Settings, context: BuildContext, trust: ClientTrustReloader
) -> Authenticator:
    """Return the authenticator of callers."""
    reviews = settings.authentication.token_review
    rate_limit = RateLimit(reviews.per_address_per_second, reviews.per_address_burst)
    queue = TokenReviewQueue(
        KubernetesTokenReviewer(context.client, audiences=reviews.audiences),
        buckets=KeyedTokenBucket(rate_limit, context.clock, rejection=_TOO_MANY_TOKENS),
        counter=context.token_metrics,
        limits=(reviews.in_flight, reviews.timeout_seconds),
        clock=context.clock,
    )
    tokens = CachedTokenAuthenticator(
        queue,
        token_bytes=reviews.token_bytes,
        success_ttl_seconds=reviews.success_ttl_seconds,
        clock=context.clock,
        tasks=context.tasks,
        metrics=context.token_metrics,
    )
    return Authenticator(
        trust,
        tokens if reviews.enabled else None,
        clock=context.now,
        anonymous=anonymous_policy(settings),
    )


def anonymous_policy(settings: Settings) -> AnonymousPolicy:
    """Return which paths anonymous callers may request."""
    anonymous = settings.authentication.anonymous
    return AnonymousPolicy(anonymous.enabled, frozenset(anonymous.paths))


def trust_sources_from(settings: Settings) -> TrustSourceConfig:
    """Return where the CAs of clients and of front proxies are read from."""
    clients = settings.authentication.client_certificate
    front_proxy = settings.authentication.front_proxy
    file = None
    if front_proxy.ca_file is not None:
        headers = FrontProxyHeaderNames(
            header_names(front_proxy.username_headers),
            header_names(front_proxy.uid_headers),
            header_names(front_proxy.group_headers),
            header_names(front_proxy.extra_header_prefixes),
        )
        file = FrontProxyFile(front_proxy.ca_file, front_proxy.allowed_names, headers)
    return TrustSourceConfig(clients.ca_file, clients.from_cluster, file, front_proxy.from_cluster)


def forwarding_rules(trust: ClientTrust) -> ForwardingRules:
    """Return the headers that are dropped in addition to those that are always dropped."""
    if trust.front_proxies is None:
        return DEFAULT_FORWARDING_RULES
    headers = trust.front_proxies.headers
    return ForwardingRules(
        dropped_names=frozenset(map(normalize_header_name, headers.names)),
        dropped_prefixes=tuple(map(normalize_header_name, headers.extra_prefixes)),
    )


def build_authorizer(settings: Settings, context: BuildContext) -> ImpersonationAuthorizer:
    """Return the impersonation authorizer, with empty caches."""
    impersonation = settings.impersonation
    reviews = impersonation.reviews
    rate_limit = RateLimit(reviews.per_caller_per_second, reviews.per_caller_burst)
    queue = AccessReviewQueue(
        KubernetesAccessReviewer(context.client),
        buckets=KeyedTokenBucket(rate_limit, context.clock, rejection=_TOO_MANY_REVIEWS),
        breaker=context.breaker,
        counter=context.metrics,
        limits=ReviewLimits(reviews.in_flight, reviews.timeout_seconds, reviews.document_bytes),
        tasks=context.tasks,
    )
    decisions = DecisionCache(
        ttl_seconds=impersonation.success_ttl_seconds,
        legacy_ttl_seconds=impersonation.legacy_ttl_seconds,
        entries=impersonation.cache_entries,
        clock=context.clock,
    )
    return ImpersonationAuthorizer(
        rules=decision_rules(impersonation),
        caches=ImpersonationCaches(decisions, ModeCache(enabled=impersonation.mode_cache)),
        dependencies=AuthorizerDependencies(
            queue,
            context.metrics,
            context.clock,
            context.tasks,
            _build_pod_node_resolver(settings, context) if impersonation.bound_pod_lookup else None,
            _build_shadow(impersonation, context) if impersonation.shadow.enabled else None,
        ),
    )


def build_impersonation_stage(
    settings: Settings, authorizer: ImpersonationAuthorizer
) -> ImpersonationStage:
    """Return the pipeline stage that authorizes impersonation."""
    impersonation = settings.impersonation
    parser = ImpersonationHeaderParser(
        impersonation_limits(impersonation), constrained=impersonation.constrained
    )
    return ImpersonationStage(parser.parse, authorizer, settings.serving.limits.selector_terms)


def _build_pod_node_resolver(settings: Settings, context: BuildContext) -> PodNodeResolver:
    reviews = settings.impersonation.reviews
    rate_limit = RateLimit(reviews.per_caller_per_second, reviews.per_caller_burst)
    return PodNodeResolver(
        KubernetesPodReader(context.client),
        buckets=KeyedTokenBucket(rate_limit, context.clock, rejection=_TOO_MANY_LOOKUPS),
        counter=context.metrics,
        limits=(reviews.in_flight, reviews.timeout_seconds),
        clock=context.clock,
        tasks=context.tasks,
    )


def base_restrictions(settings: Settings) -> IdentityRestrictions:
    """Return the restrictions of every impersonation, without the proxy's own user names.

    The API server returns these names later.
    """
    return IdentityRestrictions(
        protected_groups=frozenset(settings.impersonation.protected_groups),
        adds_original_user=settings.upstream.original_user_extra,
        extras=_extra_policy(settings),
    )


def _extra_policy(settings: Settings) -> ExtraPolicy | None:
    keys: dict[str, set[str]] = {"forward": set(), "drop": set(), "refuse": set()}
    for key, action in settings.upstream.extras.items():
        keys[action].add(key)
    policy = ExtraPolicy(dropped=frozenset(keys["drop"]), rejected=frozenset(keys["refuse"]))
    return None if policy == ExtraPolicy() else policy


def certificate_files(settings: Settings) -> CertificateFiles:
    """Return the files that the TLS handshake with clients uses."""
    return CertificateFiles(
        settings.serving.certificate_file,
        settings.serving.key_file,
        trust_sources_from(settings).trusts_certificates,
    )


def connection_limits(settings: Settings) -> ConnectionLimits:
    """Return the limits of client connections."""
    limits = settings.serving.limits
    return ConnectionLimits(
        handshake_seconds=limits.handshake_timeout_seconds,
        handshake_bytes=limits.handshake_bytes,
        head_seconds=limits.read_header_timeout_seconds,
        idle_seconds=limits.idle_timeout_seconds,
        age_seconds=settings.serving.max_connection_age_seconds,
        header_lines=limits.header_lines,
        header_line_bytes=limits.header_line_bytes,
        target_bytes=limits.target_bytes,
        unauthenticated_idle_seconds=limits.unauthenticated_idle_timeout_seconds,
        response_progress_seconds=limits.response_progress_timeout_seconds,
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
        unauthenticated_slice_seconds=limits.unauthenticated_slice_seconds,
    )


def reserved_file_descriptors(settings: Settings) -> int:
    """Return how many file descriptors the admin port and reviews may need concurrently."""
    impersonation = settings.impersonation
    return (
        settings.admin.limits.connections
        + settings.authentication.token_review.in_flight
        # Access reviews and pod lookups have a limit each, with the same value.
        + impersonation.reviews.in_flight * 2
        + impersonation.shadow.in_flight
    )


def drain_times(settings: Settings) -> DrainTimes:
    """Return the duration of each phase of a shutdown."""
    shutdown = settings.serving.shutdown
    return DrainTimes(
        shutdown.delay_seconds, shutdown.watch_window_seconds, shutdown.grace_period_seconds
    )


def _build_shadow(settings: ImpersonationSettings, context: BuildContext) -> ShadowEvaluator:
    """Return the evaluator that applies these settings in shadow mode.

    Client and breaker are shared with real decisions. A failed shadow review alone cannot open the
    breaker: only a failed probe does, and a probe is part of neither kind of decision.
    """
    reviews, limits = settings.reviews, settings.shadow
    rate_limit = RateLimit(reviews.per_caller_per_second, reviews.per_caller_burst)
    queue = AccessReviewQueue(
        KubernetesAccessReviewer(context.client),
        buckets=KeyedTokenBucket(rate_limit, context.clock, rejection=_TOO_MANY_REVIEWS),
        breaker=context.breaker,
        counter=context.shadow_metrics,
        limits=ReviewLimits(limits.in_flight, reviews.timeout_seconds, reviews.document_bytes),
        tasks=context.tasks,
    )
    return ShadowEvaluator(
        decision_rules(settings),
        reviewer=queue,
        counter=context.shadow_metrics,
        limits=ShadowLimits(
            limits.sample,
            limits.queue_size,
            limits.in_flight,
            limits.per_second,
            settings.success_ttl_seconds,
        ),
        dependencies=ShadowDependencies(
            context.clock, random.random, context.breaker, context.tasks
        ),
    )
