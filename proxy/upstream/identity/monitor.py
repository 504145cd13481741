"""The proxy's own user names and permissions, checked again with every new credential.

No request is authorized until the proxy knows its own user names, because impersonating the proxy
itself must be rejected. For the same reason a new credential is not used before its user name is
known and protected.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.concurrency.refresh_loop import Delay, RefreshLoop
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import StatusError
from proxy.core.selfcheck.permissions import (
    FORBIDDEN_PERMISSIONS,
    FORWARDING_PERMISSIONS,
    IMPERSONATION_PERMISSIONS,
    REVIEW_PERMISSIONS,
    Permission,
)
from proxy.core.userinfo import MASTERS
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.auth_errors import ProxyDenialDetector
from proxy.upstream.credentials.credentials import CredentialState
from proxy.upstream.health import AuthorizerCanary
from proxy.upstream.identity.account import ProxyAccount
from proxy.upstream.identity.whoami import (
    CALL_ERRORS,
    ProxyUser,
    call,
    supports_impersonate_uid,
    whoami,
)

log = logging.getLogger(__name__)

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class RequiredPermissions:
    """The permissions that an identity needs, and those that it must not have."""

    required: tuple[Permission, ...]
    forbidden: tuple[Permission, ...]


def reviewer_permissions(*requests: Permission) -> RequiredPermissions:
    """Return the permissions of the reviewer; `requests` are those to request tokens."""
    return RequiredPermissions(
        (*REVIEW_PERMISSIONS, *requests), (*FORBIDDEN_PERMISSIONS, *IMPERSONATION_PERMISSIONS)
    )


def forwarder_permissions(*extras: Permission) -> RequiredPermissions:
    """Return the permissions of the forwarder; `extras` are beyond the standard ones."""
    return RequiredPermissions(
        (*FORWARDING_PERMISSIONS, *extras), (*FORBIDDEN_PERMISSIONS, *REVIEW_PERMISSIONS)
    )


def shared_permissions(*extras: Permission) -> RequiredPermissions:
    """Return the permissions of one identity that both reviews and forwards."""
    return RequiredPermissions(
        (*REVIEW_PERMISSIONS, *FORWARDING_PERMISSIONS, *extras), FORBIDDEN_PERMISSIONS
    )


async def has_permission(client: ApiClient, permission: Permission) -> bool:
    """Return whether the client's account has a permission, by a SelfSubjectAccessReview."""
    attributes = {
        "verb": permission.verb,
        "group": permission.group,
        "resource": permission.resource,
        "subresource": permission.subresource,
        "namespace": permission.namespace,
        "name": permission.name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: text for key, text in attributes.items() if text}},
    }
    response = await call(client, "POST", _PATH, review)
    return response["status"]["allowed"] is True


class PermissionSelfCheck:
    """Checks the permissions of one identity, and logs each changed result once."""

    def __init__(
        self,
        role: str,
        client: ApiClient,
        required_permissions: RequiredPermissions,
        counter: UpstreamMetrics,
    ) -> None:
        self._role = role
        self._client = client
        self._required = required_permissions
        self._counter = counter
        self._reported: tuple[list[str], list[str]] | None = None
        self._missing: list[str] = []

    def missing_review(self) -> str | None:
        """Return a missing permission without which no request can be decided; else None."""
        essential = map(str, REVIEW_PERMISSIONS)
        return next((name for name in essential if name in self._missing), None)

    async def run(self, user: ProxyUser) -> None:
        """Check every permission in sequence; without a response nothing is reported."""
        try:
            missing = await self._matching(self._required.required, allowed=False)
            excessive = await self._matching(self._required.forbidden, allowed=True)
        except (ApiException, *CALL_ERRORS) as error:
            log.warning(
                "proxy permissions not checked",
                extra=fields(identity=self._role, error=type(error).__name__),
            )
            return
        self._missing = missing
        if MASTERS in user.groups:
            excessive.insert(0, f"member of {MASTERS}")
        self._counter.permissions_checked(
            self._role, missing=len(missing), excessive=len(excessive)
        )
        if (missing, excessive) != self._reported:
            self._reported = (missing, excessive)
            self._log(missing, excessive)

    async def _matching(self, permissions: Iterable[Permission], *, allowed: bool) -> list[str]:
        """Return the permissions whose review has this result."""
        return [
            str(permission)
            for permission in permissions
            if await has_permission(self._client, permission) is allowed
        ]

    def _log(self, missing: list[str], excessive: list[str]) -> None:
        if missing:
            log.warning(
                "proxy permissions missing", extra=fields(identity=self._role, rights=missing)
            )
        if excessive:
            log.warning(
                "proxy permissions excessive", extra=fields(identity=self._role, rights=excessive)
            )
        if not missing and not excessive:
            log.info("proxy permissions verified", extra=fields(identity=self._role))


_RETRY_SECONDS = 1.0
_UNSETTLED_SECONDS = 5.0
# Grants and authorizers change without notice.
_RECHECK_SECONDS = 600.0
_SHARED_IDENTITY_HINT = (
    "configure separate identities: see upstream.reviewer and upstream.forwarder"
)


class RecheckSignal:
    """Requests a permission check when a review is denied, once per regular interval.

    Otherwise a permission that stays missing would cause a check with every review.
    """

    def __init__(self) -> None:
        self.when_requested: Callable[[], None] = lambda: None
        self._is_allowed = True

    def review_denied(self) -> None:
        """Request a check, because the API server has denied a review."""
        if self._is_allowed:
            self._is_allowed = False
            self.when_requested()

    def allow(self) -> None:
        """Allow the next request, because the regular interval has passed."""
        self._is_allowed = True


class IdentityMonitor:
    """Resolves the proxy's user names and checks its permissions until cancelled."""

    def __init__(
        self,
        accounts: Sequence[tuple[ProxyAccount, PermissionSelfCheck]],
        *,
        canary: AuthorizerCanary,
        denials: ProxyDenialDetector,
        recheck: RecheckSignal,
        tasks: TaskSet,
    ) -> None:
        """Monitor the accounts, of which the first reviews and the last forwards."""
        self._accounts = accounts
        self._denials = denials
        self._recheck = recheck
        self._users: dict[str, ProxyUser] = {}
        self._when_known: Callable[[], None] = lambda: None
        self._is_failing = False
        self._loop = RefreshLoop(
            self._check_regularly, when_triggered=self._check, delay=self._delay, tasks=tasks
        )
        self.canary = canary
        self.supports_uid = False
        self.first_attempt_done = asyncio.Event()
        """Set when the user names were resolved, or the first attempt failed."""

    @property
    def usernames(self) -> frozenset[str]:
        """Return every user name of the proxy; empty until all of them are known."""
        is_complete = len(self._users) == len(self._accounts)
        return frozenset(user.name for user in self._users.values() if is_complete)

    def health_error(self) -> str | None:
        """Return an error until the user names are known, for the readiness check."""
        return None if self.usernames else "the proxy's user names are not known yet"

    def permission_error(self) -> str | None:
        """Return which review the proxy cannot create, for the readiness check; else None."""
        for account, check in self._accounts:
            if missing := check.missing_review():
                lacking = f"the {account.role} identity cannot {missing}"
                return f"{lacking}: apply manifests/base/reviewer.yaml"
        return None

    async def run(self, when_known: Callable[[], None]) -> None:
        """Resolve and check periodically; `when_known` is called after each relevant change."""
        self._when_known = when_known
        await self._loop.run(starts_at_once=True)

    def check_soon(self) -> None:
        """Resolve and check again, because a credential is new or a review was denied."""
        self._loop.trigger()

    async def resolve_new_credential(self, account: ProxyAccount, state: CredentialState) -> None:
        """Resolve and protect the user name of an account's new credential.

        Raises UpstreamUnavailable if it cannot be resolved.
        """
        reviewer = self._accounts[0][0]
        user = await account.resolve_user(state, None if account is reviewer else reviewer.client)
        # The caller uses the credential next, without awaiting anything in between.
        self._apply({**self._users, account.role: user}, supports_uid=self.supports_uid)

    async def _check_regularly(self) -> None:
        self._recheck.allow()
        await self._check()

    async def _check(self) -> None:
        try:
            await self._resolve()
        except StatusError as error:
            if not self._is_failing:  # once per outage, not every second
                log.warning("proxy identity unknown", extra=fields(reason=error.message))
            self._is_failing = True
            return
        finally:
            self.first_attempt_done.set()
        self._is_failing = False
        for account, check in self._accounts:
            await check.run(self._users[account.role])

    def _delay(self) -> Delay:
        if self._is_failing:
            return Delay(0.0, pause_seconds=_RETRY_SECONDS)
        is_settled = self.canary.health_error() is None and self.permission_error() is None
        return Delay(_RECHECK_SECONDS if is_settled else _UNSETTLED_SECONDS)

    async def _resolve(self) -> None:
        reviewer = self._accounts[0][0]
        while True:
            versions = self._versions()
            users = {
                account.role: await whoami(
                    account.client, account.credentials.state, reviewer.client
                )
                for account, _ in self._accounts
            }
            supports_uid = await supports_impersonate_uid(reviewer.client)
            await self.canary.probe()  # a failure is reported by its own health check
            # A result for a credential that has been replaced meanwhile is discarded.
            if versions == self._versions():
                self._apply(users, supports_uid=supports_uid)
                return

    def _versions(self) -> list[int]:
        return [account.credentials.version for account, _ in self._accounts]

    def _apply(self, users: dict[str, ProxyUser], *, supports_uid: bool) -> None:
        """Replace the set of protected user names."""
        if users == self._users and supports_uid == self.supports_uid:
            return
        self._report(users)
        self._users, self.supports_uid = users, supports_uid
        forwarder = users.get(self._accounts[-1][0].role)
        if forwarder is not None:
            self._denials.add_username(forwarder.name)
        self._when_known()

    def _report(self, users: dict[str, ProxyUser]) -> None:
        for role, user in users.items():
            if user != self._users.get(role):
                log.info("proxy identity resolved", extra=fields(identity=role, user=user.name))
        names = {user.name for user in users.values()}
        if len(names) == 1 and len(users) == len(self._accounts):
            log.warning(
                "reviewer and forwarder share one identity",
                extra=fields(user=min(names), hint=_SHARED_IDENTITY_HINT),
            )
