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

from proxy.core.errors import Refusal
from proxy.core.selfcheck.permissions import (
    FORWARDING,
    IMPERSONATING,
    NOBODY_NEEDS,
    REVIEWING,
    Right,
)
from proxy.core.userinfo import MASTERS
from proxy.telemetry.logs import fields
from proxy.upstream.auth_errors import OwnDenials
from proxy.upstream.credentials.credentials import CredentialState
from proxy.upstream.health import Canary
from proxy.upstream.identity.account import OwnAccount
from proxy.upstream.identity.whoami import NO_ANSWER, OwnUser, call, own_user, takes_uids

log = logging.getLogger(__name__)

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Duties:
    """What an identity needs, and what it has no use for."""

    needs: tuple[Right, ...]
    excess: tuple[Right, ...]


def reviewer_duties(*requests: Right) -> Duties:
    """Return what who asks questions needs; `requests` are the tokens it may ask for."""
    return Duties((*REVIEWING, *requests), (*NOBODY_NEEDS, *IMPERSONATING))


def forwarder_duties(*extras: Right) -> Duties:
    """Return what who speaks for others needs; `extras` are beyond the standard ones."""
    return Duties((*FORWARDING, *extras), (*NOBODY_NEEDS, *REVIEWING))


def shared_duties(*extras: Right) -> Duties:
    """Return what one identity for everything needs."""
    return Duties((*REVIEWING, *FORWARDING, *extras), NOBODY_NEEDS)


async def has_right(client: ApiClient, right: Right) -> bool:
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

    def rights_checked(self, role: str, *, missing: int, excessive: int) -> None:
        """Tell how many rights are missing, and how many are too many."""
        ...


class SelfCheck:
    """Checks one identity, and tells operators what it finds, once."""

    def __init__(
        self, role: str, client: ApiClient, duties: Duties, counter: RightsCounter
    ) -> None:
        self._role = role
        self._client = client
        self._duties = duties
        self._counter = counter
        self._told: tuple[list[str], list[str]] | None = None

    async def run(self, user: OwnUser) -> None:
        """Ask about every right, one after the other; without an answer nothing is said of it."""
        try:
            missing = [str(one) for one in await self._asked(self._duties.needs, allowed=False)]
            excessive = [str(one) for one in await self._asked(self._duties.excess, allowed=True)]
        except (ApiException, *NO_ANSWER) as error:
            log.warning(
                "own rights not checked",
                extra=fields(identity=self._role, error=type(error).__name__),
            )
            return
        if MASTERS in user.groups:
            excessive.insert(0, f"member of {MASTERS}")
        self._counter.rights_checked(self._role, missing=len(missing), excessive=len(excessive))
        if (missing, excessive) != self._told:
            self._told = (missing, excessive)
            self._tell(missing, excessive)

    async def _asked(self, rights: Iterable[Right], *, allowed: bool) -> list[Right]:
        return [right for right in rights if await has_right(self._client, right) is allowed]

    def _tell(self, missing: list[str], excessive: list[str]) -> None:
        if missing:
            log.warning("own rights missing", extra=fields(identity=self._role, rights=missing))
        if excessive:
            log.warning("own rights excessive", extra=fields(identity=self._role, rights=excessive))
        if not missing and not excessive:
            log.info("own rights as they should be", extra=fields(identity=self._role))


_UNKNOWN_SECONDS = 1.0
_UNSETTLED_SECONDS = 5.0
# Grants and authorizers change behind our back.
_AGAIN_SECONDS = 600.0
_ADVICE = "give reviews an identity of their own: see upstream.reviewer and upstream.forwarder"


class SelfKnowledge:
    """Asks who we are and what we may do, for as long as it runs."""

    def __init__(
        self,
        accounts: Sequence[tuple[OwnAccount, SelfCheck]],
        *,
        canary: Canary,
        denials: OwnDenials,
        changed: asyncio.Event,
    ) -> None:
        """The first account reviews and the last one forwards; `changed` tells of credentials."""
        self._accounts = accounts
        self._denials = denials
        self._changed = changed
        self._users: dict[str, OwnUser] = {}
        self._when_known: Callable[[], None] = lambda: None
        self.canary = canary
        self.takes_uids = False
        self.first_lesson = asyncio.Event()
        """Set when we know who we are, or that the API server does not tell."""

    @property
    def own_names(self) -> frozenset[str]:
        """Every name of ours; none until all of them are known."""
        is_complete = len(self._users) == len(self._accounts)
        return frozenset(user.name for user in self._users.values() if is_complete)

    def fault(self) -> str | None:
        """Tell whether we know who we are, for who asks whether we are ready."""
        return None if self.own_names else "not known yet"

    async def run(self, when_known: Callable[[], None]) -> None:
        """Learn again and again; `when_known` hears of each change of what requests depend on."""
        self._when_known = when_known
        failed = False
        while True:
            self._changed.clear()
            try:
                await self._learn()
            except Refusal as refusal:
                if not failed:  # once, not every second of an outage
                    log.warning("own identity unknown", extra=fields(reason=refusal.message))
                failed = True
                self.first_lesson.set()
                await asyncio.sleep(_UNKNOWN_SECONDS)
                continue
            failed = False
            self.first_lesson.set()
            for account, check in self._accounts:
                await check.run(self._users[account.role])
            seconds = _AGAIN_SECONDS if self.canary.fault() is None else _UNSETTLED_SECONDS
            await self._wait(seconds)

    async def introduce(self, account: OwnAccount, state: CredentialState) -> None:
        """Learn whose a new credential of an account is; UpstreamUnavailable if nobody tells."""
        reviewer = self._accounts[0][0]
        user = await account.user_of(state, None if account is reviewer else reviewer.client)
        # Who calls this uses the credential next, without waiting for anything.
        self._take({**self._users, account.role: user}, takes_uids=self.takes_uids)

    async def _learn(self) -> None:
        reviewer = self._accounts[0][0]
        while True:
            versions = self._versions()
            users = {
                account.role: await own_user(account.client, account.credentials, reviewer.client)
                for account, _ in self._accounts
            }
            understands = await takes_uids(reviewer.client)
            await self.canary.ask()  # whether it was answered, its own fault tells
            # What was told about a credential that is gone by now says nothing.
            if versions == self._versions():
                self._take(users, takes_uids=understands)
                return

    def _versions(self) -> list[int]:
        return [account.credentials.version for account, _ in self._accounts]

    def _take(self, users: dict[str, OwnUser], *, takes_uids: bool) -> None:
        """Guard these names from now on, and no others."""
        if users == self._users and takes_uids == self.takes_uids:
            return
        self._report(users)
        self._users, self.takes_uids = users, takes_uids
        forwarder = users.get(self._accounts[-1][0].role)
        if forwarder is not None:
            self._denials.know(forwarder.name)
        self._when_known()

    def _report(self, users: dict[str, OwnUser]) -> None:
        for role, user in users.items():
            if user != self._users.get(role):
                log.info("own identity", extra=fields(identity=role, user=user.name))
        names = {user.name for user in users.values()}
        if len(names) == 1 and len(users) == len(self._accounts):
            log.warning("one identity for everything", extra=fields(user=min(names), hint=_ADVICE))

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
