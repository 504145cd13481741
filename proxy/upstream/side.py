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

from proxy.core.own_rights import NAMING_ORIGINAL_USERS, token_request
from proxy.settings.upstream import UpstreamSettings
from proxy.telemetry.upstream_metrics import UpstreamMetrics
from proxy.upstream.canary import Canary
from proxy.upstream.credential_source import CredentialSource
from proxy.upstream.forwarder import Forwarder
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
from proxy.upstream.requested_token import RequestedToken
from proxy.upstream.self_check import (
    SelfCheck,
    forwarder_duties,
    reviewer_duties,
    shared_duties,
)
from proxy.upstream.self_knowledge import SelfKnowledge
from proxy.wire.tasks import Tasks


@dataclass(frozen=True, slots=True)
class UpstreamSide:
    """What the rest of the proxy needs of the API server side."""

    accounts: tuple[OwnAccount, ...]
    """The reviewer first and the forwarder last; one for both if they are one."""
    forwarder: Forwarder
    pool: Pool
    knowledge: SelfKnowledge

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
    denials = OwnDenials(counter=metrics, clock=clocks.monotonic)
    async with AsyncExitStack() as stack:
        accounts = await _accounts(surroundings, stack)
        reviewer, ours = accounts[0], accounts[-1]
        pool = Pool(
            ours.endpoints,
            connect_timeout_seconds=settings.connect_timeout_seconds,
            clock=clocks.monotonic,
            tasks=tasks,
        )
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
            [(account, _check(account, settings, metrics)) for account in accounts],
            canary=Canary(reviewer.client, metrics),
            denials=denials,
            changed=changed,
        )
        yield UpstreamSide(accounts, forwarder, pool, knowledge)


async def _accounts(surroundings: Surroundings, stack: AsyncExitStack) -> tuple[OwnAccount, ...]:
    settings, now = surroundings.settings, surroundings.clocks.now
    written = CredentialSource(settings.kubeconfig, now)
    account, apart = settings.forwarder.service_account, settings.reviewer.kubeconfig
    if account is None and apart is None:
        return (await stack.enter_async_context(own_account(SHARED, written, surroundings)),)
    source = written if apart is None else CredentialSource(apart, now)
    reviewer = await stack.enter_async_context(own_account(REVIEWER, source, surroundings))
    forwarding = (
        written if account is None else RequestedToken(written, account, reviewer.client, now=now)
    )
    forwarder = await stack.enter_async_context(own_account(FORWARDER, forwarding, surroundings))
    return reviewer, forwarder


def _check(account: OwnAccount, settings: UpstreamSettings, metrics: UpstreamMetrics) -> SelfCheck:
    extras = NAMING_ORIGINAL_USERS if settings.original_user_extra else ()
    asked_for = settings.forwarder.service_account
    if account.role == REVIEWER:
        duties = reviewer_duties(*([token_request(*asked_for)] if asked_for else []))
    elif account.role == FORWARDER:
        duties = forwarder_duties(*extras)
    else:
        duties = shared_duties(*extras)
    return SelfCheck(account.role, account.client, duties, metrics)
