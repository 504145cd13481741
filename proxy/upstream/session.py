"""The API server side from its opening to its end: it may be replaced while requests are served."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from proxy.concurrency.task_set import Failure, Tasks
from proxy.core.selfcheck.permissions import NAMING_ORIGINAL_USERS, Right, token_request
from proxy.kubeclient.kubeconfig import CredentialSource, pod_namespace
from proxy.settings.upstream import UpstreamSettings
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.auth_errors import OwnDenials
from proxy.upstream.credential_prober import OwnStanding, probe
from proxy.upstream.credentials.credentials import CredentialsError, Source
from proxy.upstream.credentials.token_request import RequestedToken
from proxy.upstream.forwarder import Forwarder
from proxy.upstream.health import Canary, Reachability
from proxy.upstream.identity.account import (
    FORWARDER,
    REVIEWER,
    SHARED,
    Clocks,
    OwnAccount,
    Surroundings,
    own_account,
)
from proxy.upstream.identity.missing_permissions import MissingRights
from proxy.upstream.identity.monitor import (
    Duties,
    SelfCheck,
    SelfKnowledge,
    forwarder_duties,
    has_right,
    reviewer_duties,
    shared_duties,
)
from proxy.upstream.pool import Pool

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


_LEARNING_SECONDS = 10.0


class Tenure:
    """One API server side, and everything that runs for it."""

    def __init__(self, side: UpstreamSide, stack: AsyncExitStack, tasks: Tasks) -> None:
        self.side = side
        self._stack = stack
        self._tasks = tasks
        self._keeping: list[asyncio.Task[None]] = []
        self.is_dismissed = False

    def run(self, when_known: Callable[[], None]) -> None:
        """Learn who we are, and keep our credentials fresh; `when_known` hears of every lesson."""
        self._keeping = [
            self._tasks.start(self.side.knowledge.run(when_known)),
            self._tasks.start(self.side.reachability.run()),
        ]
        self._keeping += [self._tasks.start(one.keeper.run()) for one in self.side.accounts]

    async def learn(self, seconds: float) -> None:
        """Wait until the API server has told who we are, or that it does not."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.side.knowledge.first_lesson.wait(), seconds)

    async def prove(self) -> None:
        """Return when the API server knows us by our credentials; CredentialsError if it does not.

        For a side that is to replace one that works: nobody is to be refused meanwhile.
        """
        await self.learn(_LEARNING_SECONDS)
        if not self.side.knowledge.own_names:
            servers = ", ".join(one.address for one in self.side.accounts[-1].endpoints.all)
            raise CredentialsError(f"upstream: the API server at {servers} does not know us")

    def retire(self) -> None:
        """Serve only whom we serve already: keep nothing, learn nothing, renew nothing."""
        self.side.pool.retire()
        for task in self._keeping:
            task.cancel()

    async def dismiss(self) -> None:
        """End all but the exchanges that are under way: nobody will ask anything any more."""
        self.is_dismissed = True
        await self._tasks.stop()
        await self._stack.aclose()

    async def end(self) -> None:
        """End everything."""
        self.side.pool.close()
        await self.dismiss()


async def begin_tenure(
    settings: UpstreamSettings, *, clocks: Clocks, metrics: UpstreamMetrics, on_failure: Failure
) -> Tenure:
    """Open the API server side; SetupError when our identity cannot be read."""
    tasks = Tasks(on_failure)
    async with AsyncExitStack() as stack:
        side = await stack.enter_async_context(
            upstream_side(settings, clocks=clocks, metrics=metrics, tasks=tasks)
        )
        return Tenure(side, stack.pop_all(), tasks)
