"""What of somebody's usage is granted already: asked of the cluster, check by check."""

from dataclasses import replace

from proxy.advice.cluster import Cluster
from proxy.advice.usage import Impersonator, Usage
from proxy.advice.usage_grants import Granted, Outlook, needed_by
from proxy.core.access_check import AccessCheck
from proxy.core.identity import Identity


async def granted_to(cluster: Cluster, usage: Usage) -> Granted:
    """Ask what everybody may already do in constrained modes, of all that legacy was used for."""
    return {
        name: await _granted(cluster, name, somebody)
        for name, somebody in usage.impersonators.items()
    }


async def _granted(cluster: Cluster, name: str, somebody: Impersonator) -> frozenset[AccessCheck]:
    needed = needed_by(name, somebody, Outlook())
    checks = list(dict.fromkeys(check for one in needed for check in one.checks))
    # With its groups, which may hold what its name does not.
    user = Identity(name, groups=somebody.groups)
    answers = await cluster.review_all([replace(check, user=user) for check in checks])
    return frozenset(check for check, answer in zip(checks, answers, strict=True) if answer.allowed)
