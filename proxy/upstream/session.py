"""The lifecycle of the API server side, which can be replaced while requests are served."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from proxy.concurrency.task_set import Failure, TaskSet
from proxy.core.selfcheck.permissions import (
    ORIGINAL_USER_PERMISSIONS,
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
    RecheckSignal,
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
    """The components of the API server side that other packages use."""

    accounts: tuple[ProxyAccount, ...]
    """The reviewer first and the forwarder last; a single account if they are shared."""
    forwarder: Forwarder
    pool: ConnectionPool
    identity_monitor: IdentityMonitor
    health: UpstreamHealth

    def permission_error(self) -> str | None:
        """Return which permission of the proxy is missing, for the readiness check; else None."""
        return self.health.permission_error() or self.identity_monitor.permission_error()

    @property
    def reviewer(self) -> ProxyAccount:
        """Return the account that sends reviews."""
        return self.accounts[0]

    def credential_error(self) -> str | None:
        """Return what is wrong with the credentials, for the readiness check; else None."""
        errors = [
            f"{account.role}: {error}"
            for account in self.accounts
            if (error := account.refresher.health_error()) is not None
        ]
        return "; ".join(errors) or None


@asynccontextmanager
async def build_upstream(
    settings: UpstreamSettings, *, clocks: Clocks, metrics: UpstreamMetrics, tasks: TaskSet
) -> AsyncIterator[UpstreamComponents]:
    """Yield the API server side; OperatorError if the proxy's credential cannot be loaded.

    The caller has to close its connections and stop its tasks.
    """
    recheck = RecheckSignal()
    dependencies = AccountDependencies(settings, clocks, metrics, tasks, recheck.review_denied)
    async with AsyncExitStack() as stack:
        accounts, requests = await _open_accounts(dependencies, stack)
        reviewer, forwarding_account = accounts[0], accounts[-1]
        pool = ConnectionPool(
            forwarding_account.endpoints,
            connect_timeout_seconds=settings.connect_timeout_seconds,
            clock=clocks.monotonic,
            tasks=tasks,
            counter=metrics,
        )
        metrics.watch_connections(lambda: pool.idle, lambda: pool.busy)
        missing_permissions = MissingPermissionChecker(
            partial(has_permission, forwarding_account.client), clock=clocks.monotonic, tasks=tasks
        )
        denials = ProxyDenialDetector(missing_permissions, counter=metrics, clock=clocks.monotonic)
        prober = CredentialProber(
            partial(probe, forwarding_account.client),
            forwarding_account.credentials,
            denials=denials,
            clock=clocks.monotonic,
            tasks=tasks,
        )
        forwarder = Forwarder(
            pool,
            forwarding_account.credentials,
            prober,
            response_timeout_seconds=settings.response_timeout_seconds,
            tasks=tasks,
        )
        canary = AuthorizerCanary(reviewer.client, metrics)
        monitor = IdentityMonitor(
            [
                (account, PermissionSelfCheck(account.role, account.client, required, metrics))
                for account, required in zip(
                    accounts, _required_permissions(settings, requests), strict=True
                )
            ],
            canary=canary,
            denials=denials,
            recheck=recheck,
            tasks=tasks,
        )
        recheck.when_requested = monitor.check_soon
        for account in accounts:
            account.credentials.before_use = partial(monitor.resolve_new_credential, account)
            account.refresher.when_changed = monitor.check_soon
        health = UpstreamHealth(
            canary.probe, metrics, response_code=lambda: canary.response_code, tasks=tasks
        )
        yield UpstreamComponents(accounts, forwarder, pool, monitor, health)


async def _open_accounts(
    dependencies: AccountDependencies, stack: AsyncExitStack
) -> tuple[tuple[ProxyAccount, ...], list[Permission]]:
    """Open the accounts, and return them with the token permissions that the reviewer needs."""
    settings, now = dependencies.settings, dependencies.clocks.now
    main_source = KubeconfigSource(settings.kubeconfig, now)
    reviewer_kubeconfig = settings.reviewer.kubeconfig
    if _is_shared(settings):
        return (
            await stack.enter_async_context(open_account(SHARED, main_source, dependencies)),
        ), []
    source = (
        main_source if reviewer_kubeconfig is None else KubeconfigSource(reviewer_kubeconfig, now)
    )
    reviewer = await stack.enter_async_context(open_account(REVIEWER, source, dependencies))
    forwarder_source: CredentialSource = main_source
    requests = []
    account = settings.forwarder.service_account
    if account is None and reviewer_kubeconfig is None:
        account = await _default_forwarder_account()
    if account is not None:
        forwarder_source = TokenRequestSource(
            main_source, account, reviewer.client, clocks=dependencies.clocks
        )
        requests = [token_request_permission(*account)]
    forwarder = await stack.enter_async_context(
        open_account(FORWARDER, forwarder_source, dependencies)
    )
    return (reviewer, forwarder), requests


def _is_shared(settings: UpstreamSettings) -> bool:
    if settings.forwarder.same_as_reviewer:
        return True
    separate_identity = settings.forwarder.service_account or settings.reviewer.kubeconfig
    return settings.kubeconfig is not None and separate_identity is None


async def _default_forwarder_account() -> tuple[str, str]:
    """Return the forwarder account that the manifests create in the pod's namespace."""
    try:
        return await asyncio.to_thread(pod_namespace), _FORWARDER_ACCOUNT
    except (OSError, ValueError) as error:
        raise CredentialsError(f"cannot read the pod's namespace: {error}") from error


def _required_permissions(
    settings: UpstreamSettings, requests: list[Permission]
) -> tuple[RequiredPermissions, ...]:
    """Return the required permissions of each account, in the order of the accounts."""
    extras = ORIGINAL_USER_PERMISSIONS if settings.original_user_extra else ()
    if _is_shared(settings):
        return (shared_permissions(*extras),)
    return reviewer_permissions(*requests), forwarder_permissions(*extras)


_VERIFY_SECONDS = 10.0


class UpstreamSession:
    """An open API server side, and the background tasks that run for it."""

    def __init__(self, side: UpstreamComponents, stack: AsyncExitStack, tasks: TaskSet) -> None:
        self.components = side
        self._stack = stack
        self._tasks = tasks
        self._background: list[asyncio.Task[None]] = []
        self.is_closed = False

    def start(self, when_known: Callable[[], None]) -> None:
        """Start identity checks and credential refresh; `when_known` is called on each change."""
        self._background = [
            self._tasks.start(self.components.identity_monitor.run(when_known)),
            self._tasks.start(self.components.health.run()),
        ]
        self._background += [
            self._tasks.start(account.refresher.run()) for account in self.components.accounts
        ]

    async def wait_for_identity(self, seconds: float) -> None:
        """Wait until the proxy's user names are resolved, or the first attempt has failed."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(
                self.components.identity_monitor.first_attempt_done.wait(), seconds
            )

    async def verify(self) -> None:
        """Return when the API server has accepted the credentials; CredentialsError otherwise.

        Used before this session replaces a working one, so that no request is rejected meanwhile.
        """
        await self.wait_for_identity(_VERIFY_SECONDS)
        if not self.components.identity_monitor.usernames:
            servers = ", ".join(
                endpoint.address for endpoint in self.components.accounts[-1].endpoints.all
            )
            raise CredentialsError(
                f"upstream: authentication to the API server at {servers} failed"
            )

    def retire(self) -> None:
        """Finish exchanges in flight only: keep no idle connection, stop all background tasks."""
        self.components.pool.retire()
        for task in self._background:
            task.cancel()

    async def close_idle(self) -> None:
        """Stop everything except exchanges in flight; no review is sent any more."""
        self.is_closed = True
        await self._tasks.stop()
        await self._stack.aclose()

    async def close(self) -> None:
        """Stop everything, including exchanges in flight."""
        self.components.pool.close()
        await self.close_idle()


async def open_session(
    settings: UpstreamSettings, *, clocks: Clocks, metrics: UpstreamMetrics, on_failure: Failure
) -> UpstreamSession:
    """Open the API server side; OperatorError if the proxy's credential cannot be loaded."""
    tasks = TaskSet(on_failure)
    async with AsyncExitStack() as stack:
        side = await stack.enter_async_context(
            build_upstream(settings, clocks=clocks, metrics=metrics, tasks=tasks)
        )
        return UpstreamSession(side, stack.pop_all(), tasks)
