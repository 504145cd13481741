"""What becomes of a denial that is about us: an error of ours, told to operators.

A denial is believed to be about us only if the API server itself is its author. Either nothing else
can have answered the request, or the API server confirms that a right is missing which the
identity of this very request needs. All other denials are their client's, whomever they name.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from proxy.core.action import outline_action
from proxy.core.errors import InternalError, Refusal
from proxy.core.identity import Identity
from proxy.core.own_denial import comes_from_api_server, missing_right, read_denial
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

# Every request may be denied for the same reason; it is told once in this time.
TOLD_AGAIN_SECONDS = 60.0
_MOST_TOLD = 100
_IMPERSONATING = "impersonate "


class DeniedRequest(NamedTuple):
    """What was denied, and the identity that it was forwarded with."""

    method: bytes
    target: bytes
    is_upgrade: bool
    acting: Identity


class DenialCounter(Protocol):
    """Counts."""

    def own_right_missing(self) -> None:
        """Count a request that failed because we may not do something."""
        ...


class RightsConfirmation(Protocol):
    """Asks the API server about the forwarder's rights."""

    def confirm(self, identity: Identity, name: str, tell: Callable[[bool], None]) -> None:
        """Tell whether a right to take this identity is missing; False in doubt."""
        ...


class OwnDenials:
    """Tells denials about us from denials about whom we speak for."""

    def __init__(
        self,
        rights: RightsConfirmation,
        *,
        counter: DenialCounter,
        clock: Callable[[], float],
    ) -> None:
        self._rights = rights
        self._counter = counter
        self._clock = clock
        self._own_names: frozenset[str] = frozenset()
        self._told: dict[str, float] = {}

    def know(self, own_name: str) -> None:
        """Learn a name under which we forward. Earlier ones count, too: requests are under way."""
        self._own_names |= {own_name}

    def is_own(self, name: str) -> bool:
        """Return whether we forward, or have forwarded, under this name."""
        return name in self._own_names

    def judge(
        self,
        media_type: str,
        body: bytes,
        request: DeniedRequest,
        tell: Callable[[Refusal | None], None],
    ) -> None:
        """Tell what a client is told in place of a denial about us; None if it is its own.

        At once, unless the API server has to be asked.
        """
        denial = read_denial(media_type, body)
        # No request acts as the forwarder, but one may act as what the forwarder once was.
        names = self._own_names - {request.acting.name}
        right = missing_right(denial, names) if denial is not None else None
        if denial is None or right is None:
            tell(None)
            return
        action = outline_action(request.method, request.target).action
        if denial.is_parsed and comes_from_api_server(action, is_upgrade=request.is_upgrade):
            tell(self._believed(right))
        elif right.startswith(_IMPERSONATING):
            # Every request carries an identity, so no other right of ours can be missing: with it
            # the API server judges whom we speak for.
            self._rights.confirm(
                request.acting,
                denial.name,
                lambda is_missing: tell(self._believed(right) if is_missing else None),
            )
        else:
            tell(None)

    def _believed(self, right: str) -> InternalError:
        self._counter.own_right_missing()
        self._tell(right)
        return InternalError(f"the proxy's own identity cannot {right}")

    def _tell(self, right: str) -> None:
        now = self._clock()
        if now < self._told.get(right, 0.0):
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[right] = now + TOLD_AGAIN_SECONDS
        log.error("own right missing", extra=fields(right=right))
