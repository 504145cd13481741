"""What our own identities may do, held against what they need: too little, or too much."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.core.identity import MASTERS
from proxy.core.own_rights import FORWARDING, IMPERSONATING, NOBODY_NEEDS, REVIEWING, Right
from proxy.telemetry.logs import fields
from proxy.upstream.own_identity import NO_ANSWER, OwnUser, call

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
