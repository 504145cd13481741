"""What we know of ourselves at the API server, learned again with every new credential.

Nobody is admitted before we know whom nobody may be here: us. For the same reason a new credential
is used for nothing before its name is known and guarded.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from proxy.core.errors import Refusal
from proxy.telemetry.logs import fields
from proxy.upstream.canary import Canary
from proxy.upstream.credentials import CredentialState
from proxy.upstream.own_account import OwnAccount
from proxy.upstream.own_denials import OwnDenials
from proxy.upstream.own_identity import OwnUser, own_user, takes_uids
from proxy.upstream.self_check import SelfCheck

log = logging.getLogger(__name__)

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
