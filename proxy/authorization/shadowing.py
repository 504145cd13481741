"""A gate whose legacy admissions are judged a second time, beside the request's way."""

from kubernetes_asyncio.client import ApiClient

from proxy.authorization.access_reviews import KubernetesAccessReviewer
from proxy.authorization.gate import DecisionWitness
from proxy.authorization.placement import DecidingGate
from proxy.authorization.review_desk import ReviewDesk, ReviewLimits
from proxy.authorization.shadow import Shadow, ShadowedRequest, ShadowLimits, ShadowTools
from proxy.core.action import Action
from proxy.core.admission import Admission
from proxy.core.identity import Caller, Identity
from proxy.core.modes import Mode
from proxy.core.repeatable_decision import RepeatableDecision
from proxy.fairness.rationing import Ration, Rationing
from proxy.settings.decisions import decision_rules
from proxy.settings.impersonation import ImpersonationSettings
from proxy.telemetry.shadow_metrics import ShadowMetrics

_TOO_MANY_REVIEWS = "too many access reviews for this caller"


class ShadowingGate:
    """Decides nothing: it hands over what legacy impersonation has allowed, and goes on."""

    def __init__(self, gate: DecidingGate, shadow: Shadow) -> None:
        self._gate = gate
        self._shadow = shadow

    async def admit(
        self,
        caller: Caller,
        wanted: Identity | None,
        action: Action,
        *,
        is_upgrade: bool = False,
        witness: DecisionWitness | None = None,
    ) -> Admission:
        """Return the permit to forward or refuse."""
        admission = await self._gate.admit(
            caller, wanted, action, is_upgrade=is_upgrade, witness=witness
        )
        if admission.mode is Mode.LEGACY and wanted is not None:
            audit_id = b"" if witness is None else witness.audit_id
            self._shadow.offer(ShadowedRequest(caller, wanted, action, is_upgrade), audit_id)
        return admission

    def repeatable(
        self, caller: Caller, wanted: Identity | None, action: Action
    ) -> RepeatableDecision | None:
        """Return by what an equal request can be admitted again; never what we hand over."""
        known = self._gate.repeatable(caller, wanted, action)
        return None if known is None or known.admission.mode is Mode.LEGACY else known

    def admit_again(self, known: RepeatableDecision) -> Admission | None:
        """Return the permit for an equal request if it would come out the same; None in doubt."""
        return self._gate.admit_again(known)


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
