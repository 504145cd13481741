"""What we know of ourselves at the API server, learned again with every new credential.

Nobody is admitted before we know whom nobody may be here: us. For the same reason a new credential
is used for nothing before its name is known and guarded.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.core.errors import StatusError
from proxy.core.selfcheck.permissions import (
    FORBIDDEN_PERMISSIONS,
    FORWARDING,
    IMPERSONATING,
    REVIEWING,
    Permission,
)
from proxy.core.userinfo import MASTERS
from proxy.telemetry.logs import fields
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
    """What an identity needs, and what it has no use for."""

    needs: tuple[Permission, ...]
    excess: tuple[Permission, ...]


def reviewer_permissions(*requests: Permission) -> RequiredPermissions:
    """Return what who asks questions needs; `requests` are the tokens it may ask for."""
    return RequiredPermissions((*REVIEWING, *requests), (*FORBIDDEN_PERMISSIONS, *IMPERSONATING))


def forwarder_permissions(*extras: Permission) -> RequiredPermissions:
    """Return what who speaks for others needs; `extras` are beyond the standard ones."""
    return RequiredPermissions((*FORWARDING, *extras), (*FORBIDDEN_PERMISSIONS, *REVIEWING))


def shared_permissions(*extras: Permission) -> RequiredPermissions:
    """Return what one identity for everything needs."""
    return RequiredPermissions((*REVIEWING, *FORWARDING, *extras), FORBIDDEN_PERMISSIONS)


async def has_permission(client: ApiClient, right: Permission) -> bool:
    """Ask the API server whether the account that asks has a right; in bounded time."""
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: text for key, text in attributes.items() if text}},
    }
    answer = await call(client, "POST", _PATH, review)
    return answer["status"]["allowed"] is True


class RightsCounter(Protocol):
    """Learns what was found."""

    def permissions_checked(self, role: str, *, missing: int, excessive: int) -> None:
        """Tell how many rights are missing, and how many are too many."""
        ...


class PermissionSelfCheck:
    """Checks one identity, and tells operators what it finds, once."""

    def __init__(
        self, role: str, client: ApiClient, duties: RequiredPermissions, counter: RightsCounter
    ) -> None:
        self._role = role
        self._client = client
        self._duties = duties
        self._counter = counter
        self._told: tuple[list[str], list[str]] | None = None

    async def run(self, user: ProxyUser) -> None:
        """Ask about every right, one after the other; without an answer nothing is said of it."""
        try:
            missing = [str(one) for one in await self._asked(self._duties.needs, allowed=False)]
            excessive = [str(one) for one in await self._asked(self._duties.excess, allowed=True)]
        except (ApiException, *CALL_ERRORS) as error:
            log.warning(
                "proxy permissions not checked",
                extra=fields(identity=self._role, error=type(error).__name__),
            )
            return
        if MASTERS in user.groups:
            excessive.insert(0, f"member of {MASTERS}")
        self._counter.permissions_checked(
            self._role, missing=len(missing), excessive=len(excessive)
        )
        if (missing, excessive) != self._told:
            self._told = (missing, excessive)
            self._tell(missing, excessive)

    async def _asked(self, rights: Iterable[Permission], *, allowed: bool) -> list[Permission]:
        return [right for right in rights if await has_permission(self._client, right) is allowed]

    def _tell(self, missing: list[str], excessive: list[str]) -> None:
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


_UNKNOWN_SECONDS = 1.0
_UNSETTLED_SECONDS = 5.0
# Grants and authorizers change behind our back.
_AGAIN_SECONDS = 600.0
_ADVICE = "give reviews an identity of their own: see upstream.reviewer and upstream.forwarder"


class IdentityMonitor:
    """Asks who we are and what we may do, for as long as it runs."""

    def __init__(
        self,
        accounts: Sequence[tuple[ProxyAccount, PermissionSelfCheck]],
        *,
        canary: AuthorizerCanary,
        denials: ProxyDenialDetector,
        changed: asyncio.Event,
    ) -> None:
        """The first account reviews and the last one forwards; `changed` tells of credentials."""
        self._accounts = accounts
        self._denials = denials
        self._changed = changed
        self._users: dict[str, ProxyUser] = {}
        self._when_known: Callable[[], None] = lambda: None
        self.canary = canary
        self.supports_uid = False
        self.first_attempt_done = asyncio.Event()
        """Set when we know who we are, or that the API server does not tell."""

    @property
    def usernames(self) -> frozenset[str]:
        """Every name of ours; none until all of them are known."""
        is_complete = len(self._users) == len(self._accounts)
        return frozenset(user.name for user in self._users.values() if is_complete)

    def health_error(self) -> str | None:
        """Tell whether we know who we are, for who asks whether we are ready."""
        return None if self.usernames else "not known yet"

    async def run(self, when_known: Callable[[], None]) -> None:
        """Learn again and again; `when_known` hears of each change of what requests depend on."""
        self._when_known = when_known
        failed = False
        while True:
            self._changed.clear()
            try:
                await self._learn()
            except StatusError as refusal:
                if not failed:  # once, not every second of an outage
                    log.warning("proxy identity unknown", extra=fields(reason=refusal.message))
                failed = True
                self.first_attempt_done.set()
                await asyncio.sleep(_UNKNOWN_SECONDS)
                continue
            failed = False
            self.first_attempt_done.set()
            for account, check in self._accounts:
                await check.run(self._users[account.role])
            seconds = _AGAIN_SECONDS if self.canary.health_error() is None else _UNSETTLED_SECONDS
            await self._wait(seconds)

    async def introduce(self, account: ProxyAccount, state: CredentialState) -> None:
        """Learn whose a new credential of an account is; UpstreamUnavailable if nobody tells."""
        reviewer = self._accounts[0][0]
        user = await account.user_of(state, None if account is reviewer else reviewer.client)
        # Who calls this uses the credential next, without waiting for anything.
        self._take({**self._users, account.role: user}, supports_uid=self.supports_uid)

    async def _learn(self) -> None:
        reviewer = self._accounts[0][0]
        while True:
            versions = self._versions()
            users = {
                account.role: await whoami(account.client, account.credentials, reviewer.client)
                for account, _ in self._accounts
            }
            understands = await supports_impersonate_uid(reviewer.client)
            await self.canary.probe()  # whether it was answered, its own fault tells
            # What was told about a credential that is gone by now says nothing.
            if versions == self._versions():
                self._take(users, supports_uid=understands)
                return

    def _versions(self) -> list[int]:
        return [account.credentials.version for account, _ in self._accounts]

    def _take(self, users: dict[str, ProxyUser], *, supports_uid: bool) -> None:
        """Guard these names from now on, and no others."""
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
                extra=fields(user=min(names), hint=_ADVICE),
            )

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
