"""The API server side from its opening to its end: it may be replaced while requests are served."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from proxy.concurrency.task_set import Failure, TaskSet
from proxy.core.selfcheck.permissions import (
    NAMING_ORIGINAL_USERS,
    Permission,
    token_request_permission,
)
from proxy.kubeclient.kubeconfig import KubeconfigSource, pod_namespace
from proxy.settings.upstream import UpstreamSettings
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.auth_errors import ProxyDenialDetector
from proxy.upstream.credential_prober import CredentialProber, probe
from proxy.upstream.credentials.credentials import CredentialsError, CredentialSource
from proxy.upstream.credentials.token_request import TokenRequestSource
from proxy.upstream.forwarder import Forwarder
from proxy.upstream.health import AuthorizerCanary, UpstreamHealth
from proxy.upstream.identity.account import (
    FORWARDER,
    REVIEWER,
    SHARED,
    AccountDependencies,
    Clocks,
    ProxyAccount,
    open_account,
)
from proxy.upstream.identity.missing_permissions import MissingPermissionChecker
from proxy.upstream.identity.monitor import (
    IdentityMonitor,
    PermissionSelfCheck,
    RequiredPermissions,
    forwarder_permissions,
    has_permission,
    reviewer_permissions,
    shared_permissions,
)
from proxy.upstream.pool import ConnectionPool

_FORWARDER_ACCOUNT = "understudy-forwarder"


@dataclass(frozen=True, slots=True)
class UpstreamComponents:
    """What the rest of the proxy needs of the API server side."""

    accounts: tuple[ProxyAccount, ...]
    """The reviewer first and the forwarder last; one for both if they are one."""
    forwarder: Forwarder
    pool: ConnectionPool
    knowledge: IdentityMonitor
    reachability: UpstreamHealth

    @property
    def reviewer(self) -> ProxyAccount:
        """Return who asks questions."""
        return self.accounts[0]

    def credential_error(self) -> str | None:
        """Tell what is wrong with our credentials, for who asks whether we are ready."""
        faults = [
            f"{account.role}: {fault}"
            for account in self.accounts
            if (fault := account.refresher.health_error()) is not None
        ]
        return "; ".join(faults) or None


@asynccontextmanager
async def build_upstream(
    settings: UpstreamSettings, *, clocks: Clocks, metrics: UpstreamMetrics, tasks: TaskSet
) -> AsyncIterator[UpstreamComponents]:
    """Yield the API server side; OperatorError when our identity cannot be read.

    Its connections, and what runs as tasks, are the owner's to stop.
    """
    changed = asyncio.Event()
    dependencies = AccountDependencies(settings, clocks, metrics, changed.set, tasks)
    async with AsyncExitStack() as stack:
        accounts, requests = await _accounts(dependencies, stack)
        reviewer, ours = accounts[0], accounts[-1]
        pool = ConnectionPool(
            ours.endpoints,
            connect_timeout_seconds=settings.connect_timeout_seconds,
            clock=clocks.monotonic,
            tasks=tasks,
            counter=metrics,
        )
        metrics.watch_connections(pool)
        rights = MissingPermissionChecker(
            partial(has_permission, ours.client), clock=clocks.monotonic, tasks=tasks
        )
        denials = ProxyDenialDetector(rights, counter=metrics, clock=clocks.monotonic)
        prober = CredentialProber(
            partial(probe, ours.client),
            ours.credentials,
            denials=denials,
            clock=clocks.monotonic,
            tasks=tasks,
        )
        forwarder = Forwarder(
            pool,
            ours.credentials,
            prober,
            response_timeout_seconds=settings.response_timeout_seconds,
            tasks=tasks,
        )
        knowledge = IdentityMonitor(
            [
                (account, PermissionSelfCheck(account.role, account.client, duties, metrics))
                for account, duties in zip(accounts, _duties(settings, requests), strict=True)
            ],
            canary=AuthorizerCanary(reviewer.client, metrics),
            denials=denials,
            changed=changed,
        )
        for account in accounts:
            account.credentials.introduce = partial(knowledge.introduce, account)
        reachability = UpstreamHealth(knowledge.canary.probe, metrics)
        yield UpstreamComponents(accounts, forwarder, pool, knowledge, reachability)


async def _accounts(
    dependencies: AccountDependencies, stack: AsyncExitStack
) -> tuple[tuple[ProxyAccount, ...], list[Permission]]:
    """Return who we are, and which tokens the first of us may have to ask for."""
    settings, now = dependencies.settings, dependencies.clocks.now
    written = KubeconfigSource(settings.kubeconfig, now)
    apart = settings.reviewer.kubeconfig
    if _is_shared(settings):
        return (await stack.enter_async_context(open_account(SHARED, written, dependencies)),), []
    source = written if apart is None else KubeconfigSource(apart, now)
    reviewer = await stack.enter_async_context(open_account(REVIEWER, source, dependencies))
    forwarding: CredentialSource = written
    requests = []
    account = settings.forwarder.service_account
    if account is None and apart is None:
        account = await _pods_forwarder()
    if account is not None:
        forwarding = TokenRequestSource(
            written, account, reviewer.client, clocks=dependencies.clocks
        )
        requests = [token_request_permission(*account)]
    forwarder = await stack.enter_async_context(open_account(FORWARDER, forwarding, dependencies))
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


def _duties(
    settings: UpstreamSettings, requests: list[Permission]
) -> tuple[RequiredPermissions, ...]:
    """Return what each of us has to be able to do, in their order."""
    extras = NAMING_ORIGINAL_USERS if settings.original_user_extra else ()
    if _is_shared(settings):
        return (shared_permissions(*extras),)
    return reviewer_permissions(*requests), forwarder_permissions(*extras)


_LEARNING_SECONDS = 10.0


class UpstreamSession:
    """One API server side, and everything that runs for it."""

    def __init__(self, side: UpstreamComponents, stack: AsyncExitStack, tasks: TaskSet) -> None:
        self.side = side
        self._stack = stack
        self._tasks = tasks
        self._keeping: list[asyncio.Task[None]] = []
        self.is_dismissed = False

    def start(self, when_known: Callable[[], None]) -> None:
        """Learn who we are, and keep our credentials fresh; `when_known` hears of every lesson."""
        self._keeping = [
            self._tasks.start(self.side.knowledge.run(when_known)),
            self._tasks.start(self.side.reachability.run()),
        ]
        self._keeping += [self._tasks.start(one.refresher.run()) for one in self.side.accounts]

    async def wait_for_identity(self, seconds: float) -> None:
        """Wait until the API server has told who we are, or that it does not."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.side.knowledge.first_attempt_done.wait(), seconds)

    async def verify(self) -> None:
        """Return when the API server knows us by our credentials; CredentialsError if it does not.

        For a side that is to replace one that works: nobody is to be refused meanwhile.
        """
        await self.wait_for_identity(_LEARNING_SECONDS)
        if not self.side.knowledge.usernames:
            servers = ", ".join(one.address for one in self.side.accounts[-1].endpoints.all)
            raise CredentialsError(f"upstream: the API server at {servers} does not know us")

    def retire(self) -> None:
        """Serve only whom we serve already: keep nothing, learn nothing, renew nothing."""
        self.side.pool.retire()
        for task in self._keeping:
            task.cancel()

    async def close_idle(self) -> None:
        """End all but the exchanges that are under way: nobody will ask anything any more."""
        self.is_dismissed = True
        await self._tasks.stop()
        await self._stack.aclose()

    async def close(self) -> None:
        """End everything."""
        self.side.pool.close()
        await self.close_idle()


async def open_session(
    settings: UpstreamSettings, *, clocks: Clocks, metrics: UpstreamMetrics, on_failure: Failure
) -> UpstreamSession:
    """Open the API server side; OperatorError when our identity cannot be read."""
    tasks = TaskSet(on_failure)
    async with AsyncExitStack() as stack:
        side = await stack.enter_async_context(
            build_upstream(settings, clocks=clocks, metrics=metrics, tasks=tasks)
        )
        return UpstreamSession(side, stack.pop_all(), tasks)
