"""The API server side as a whole: who we are there, and everything that uses it.

We are two there. The reviewer asks questions and can do nothing else; the forwarder carries out
what was admitted, as somebody else, and can do nothing in its own name. They share no connection
and no credential, so no mistake in one of the two makes it do the other's work.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from proxy.core.own_rights import NAMING_ORIGINAL_USERS, Right, token_request
from proxy.settings.upstream import UpstreamSettings
from proxy.telemetry.upstream_metrics import UpstreamMetrics
from proxy.upstream.canary import Canary
from proxy.upstream.credential_source import CredentialSource, pod_namespace
from proxy.upstream.credentials import CredentialsError, Source
from proxy.upstream.forwarder import Forwarder
from proxy.upstream.missing_rights import MissingRights
from proxy.upstream.own_account import (
    FORWARDER,
    REVIEWER,
    SHARED,
    Clocks,
    OwnAccount,
    Surroundings,
    own_account,
)
from proxy.upstream.own_denials import OwnDenials
from proxy.upstream.own_standing import OwnStanding, probe
from proxy.upstream.pool import Pool
from proxy.upstream.reachability import Reachability
from proxy.upstream.requested_token import RequestedToken
from proxy.upstream.self_check import (
    Duties,
    SelfCheck,
    forwarder_duties,
    has_right,
    reviewer_duties,
    shared_duties,
)
from proxy.upstream.self_knowledge import SelfKnowledge
from proxy.wire.tasks import Tasks

_FORWARDER_ACCOUNT = "understudy-forwarder"


@dataclass(frozen=True, slots=True)
class UpstreamSide:
    """What the rest of the proxy needs of the API server side."""

    accounts: tuple[OwnAccount, ...]
    """The reviewer first and the forwarder last; one for both if they are one."""
    forwarder: Forwarder
    pool: Pool
    knowledge: SelfKnowledge
    reachability: Reachability

    @property
    def reviewer(self) -> OwnAccount:
        """Return who asks questions."""
        return self.accounts[0]

    def credential_fault(self) -> str | None:
        """Tell what is wrong with our credentials, for who asks whether we are ready."""
        faults = [
            f"{account.role}: {fault}"
            for account in self.accounts
            if (fault := account.keeper.fault()) is not None
        ]
        return "; ".join(faults) or None


@asynccontextmanager
async def upstream_side(
    settings: UpstreamSettings, *, clocks: Clocks, metrics: UpstreamMetrics, tasks: Tasks
) -> AsyncIterator[UpstreamSide]:
    """Yield the API server side; SetupError when our identity cannot be read.

    Its connections, and what runs as tasks, are the owner's to stop.
    """
    changed = asyncio.Event()
    surroundings = Surroundings(settings, clocks, metrics, changed.set, tasks)
    async with AsyncExitStack() as stack:
        accounts, requests = await _accounts(surroundings, stack)
        reviewer, ours = accounts[0], accounts[-1]
        pool = Pool(
            ours.endpoints,
            connect_timeout_seconds=settings.connect_timeout_seconds,
            clock=clocks.monotonic,
            tasks=tasks,
            counter=metrics,
        )
        metrics.watch_connections(pool)
        rights = MissingRights(partial(has_right, ours.client), clock=clocks.monotonic, tasks=tasks)
        denials = OwnDenials(rights, counter=metrics, clock=clocks.monotonic)
        standing = OwnStanding(
            partial(probe, ours.client),
            ours.credentials,
            denials=denials,
            clock=clocks.monotonic,
            tasks=tasks,
        )
        forwarder = Forwarder(
            pool,
            ours.credentials,
            standing,
            response_timeout_seconds=settings.response_timeout_seconds,
            tasks=tasks,
        )
        knowledge = SelfKnowledge(
            [
                (account, SelfCheck(account.role, account.client, duties, metrics))
                for account, duties in zip(accounts, _duties(settings, requests), strict=True)
            ],
            canary=Canary(reviewer.client, metrics),
            denials=denials,
            changed=changed,
        )
        for account in accounts:
            account.credentials.introduce = partial(knowledge.introduce, account)
        reachability = Reachability(knowledge.canary.ask, metrics)
        yield UpstreamSide(accounts, forwarder, pool, knowledge, reachability)


async def _accounts(
    surroundings: Surroundings, stack: AsyncExitStack
) -> tuple[tuple[OwnAccount, ...], list[Right]]:
    """Return who we are, and which tokens the first of us may have to ask for."""
    settings, now = surroundings.settings, surroundings.clocks.now
    written = CredentialSource(settings.kubeconfig, now)
    apart = settings.reviewer.kubeconfig
    if _is_shared(settings):
        return (await stack.enter_async_context(own_account(SHARED, written, surroundings)),), []
    source = written if apart is None else CredentialSource(apart, now)
    reviewer = await stack.enter_async_context(own_account(REVIEWER, source, surroundings))
    forwarding: Source = written
    requests = []
    account = settings.forwarder.service_account
    if account is None and apart is None:
        account = await _pods_forwarder()
    if account is not None:
        forwarding = RequestedToken(written, account, reviewer.client, clocks=surroundings.clocks)
        requests = [token_request(*account)]
    forwarder = await stack.enter_async_context(own_account(FORWARDER, forwarding, surroundings))
    return (reviewer, forwarder), requests


def _is_shared(settings: UpstreamSettings) -> bool:
    if settings.forwarder.same_as_reviewer:
        return True
    is_apart = settings.forwarder.service_account or settings.reviewer.kubeconfig
    return settings.kubeconfig is not None and is_apart is None


async def _pods_forwarder() -> tuple[str, str]:
    """Return the account that our manifests put beside the pod's own."""
    try:
        return await asyncio.to_thread(pod_namespace), _FORWARDER_ACCOUNT
    except (OSError, ValueError) as error:
        raise CredentialsError(f"cannot tell the pod's namespace: {error}") from error


def _duties(settings: UpstreamSettings, requests: list[Right]) -> tuple[Duties, ...]:
    """Return what each of us has to be able to do, in their order."""
    extras = NAMING_ORIGINAL_USERS if settings.original_user_extra else ()
    if _is_shared(settings):
        return (shared_duties(*extras),)
    return reviewer_duties(*requests), forwarder_duties(*extras)
