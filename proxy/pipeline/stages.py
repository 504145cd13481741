"""What the request path needs of the rooms: each stage as a promise, and no room by its name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.core.errors import StatusError
from proxy.core.http.headers import Header, HeaderList
from proxy.core.impersonation.cache_keys import ReusableDecision
from proxy.core.impersonation.permit import Permit
from proxy.core.requestinfo.list_options import DEFAULT_SELECTOR_TERMS
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller, UserInfo
from proxy.wire.exchange import ClientExchange, ExchangeObserver, ExchangeOutcome, Peer
from proxy.wire.http1.message import RequestHead


class AuditContextProtocol(Protocol):
    """The record of one request; told each fact once, as soon as it is known."""

    audit_id: bytes

    @property
    def observer(self) -> ExchangeObserver | None:
        """Who is to hear what passes, if anybody."""
        ...

    def set_request_info(self, request_info: RequestInfo) -> None:
        """Learn what the request does."""
        ...

    def set_caller(self, caller: Caller) -> None:
        """Learn who is calling."""
        ...

    def add_reviews(self, count: int) -> None:
        """Learn how many reviews the decision took, if it took any."""
        ...

    def set_permit(self, permit: Permit) -> None:
        """Learn who the request becomes."""
        ...

    def set_cached_permit(self, request_info: RequestInfo, caller: Caller, permit: Permit) -> None:
        """Learn all of that at once."""
        ...

    def set_error(self, error: StatusError) -> None:
        """Learn why the request goes no further."""
        ...

    def finish(self, outcome: ExchangeOutcome) -> None:
        """Learn how it ended, and write it down."""
        ...


class RecorderProtocol(Protocol):
    """Keeps the trails."""

    @property
    def captures_bodies(self) -> bool:
        """Tell whether its trails may want to hear what passes."""
        ...

    def begin(
        self, request: RequestHead, peer: Peer, audit_id: bytes | None
    ) -> AuditContextProtocol:
        """Start a trail under the client's id or a new one."""
        ...


class AuthenticatorProtocol(Protocol):
    """Stage: who is calling?"""

    async def authenticate(
        self, peer: Peer, headers: HeaderList, *, target: bytes, upgrade: bytes | None
    ) -> Caller:
        """Return the caller or refuse."""
        ...

    def cached_caller_lookup(self, peer: Peer, headers: HeaderList) -> Callable[[], Caller | None]:
        """Return who tells the caller of equal plain requests if nobody has to be asked for it.

        It answers None in doubt.
        """
        ...


class InFlightProtocol(Protocol):
    """Stage: is there a place for one more?"""

    def acquire(self, exchange: ClientExchange, request_info: RequestInfo, caller: Caller) -> None:
        """Take a place until the exchange ends, or refuse."""
        ...


class BackpressureProtocol(Protocol):
    """Stage: can what happens be written down? Comes first: all that follows may be an event."""

    def has_capacity(self) -> bool:
        """Tell whether nobody has to wait."""
        ...

    async def wait(self) -> None:
        """Return when the request may go on, or refuse."""
        ...


class AuthorizerProtocol(Protocol):
    """Stage: may the caller act as that identity, for this action?"""

    async def authorize(
        self,
        caller: Caller,
        wanted_user: UserInfo | None,
        request_info: RequestInfo,
        *,
        is_upgrade: bool,
        witness: AuditContextProtocol,
    ) -> Permit:
        """Return the permit to forward or refuse."""
        ...

    def reusable_decision(
        self, caller: Caller, wanted_user: UserInfo | None, request_info: RequestInfo
    ) -> ReusableDecision | None:
        """Return by what an equal plain request can be admitted again, if at all."""
        ...

    def reauthorize(self, known: ReusableDecision) -> Permit | None:
        """Return the permit to forward if it would come out the same; None in doubt."""
        ...


@dataclass(frozen=True, slots=True)
class ImpersonationStage:
    """How requests are judged; replaced as a whole when the rules change."""

    parse_headers: Callable[[Sequence[Header]], UserInfo | None]
    authorizer: AuthorizerProtocol
    selector_terms: int = DEFAULT_SELECTOR_TERMS
    """How many requirements and values the selectors of one request may have together."""


class ForwarderProtocol(Protocol):
    """Stage: carry it out."""

    async def forward(
        self,
        exchange: ClientExchange,
        permit: Permit,
        *,
        audit_id: bytes,
        is_long_running: bool,
        refuse: Callable[[StatusError], None],
    ) -> None:
        """Start relaying; the answer flows without the pipeline."""
        ...

    def forward_at_once(
        self,
        exchange: ClientExchange,
        permit: Permit,
        *,
        audit_id: bytes,
        refuse: Callable[[StatusError], None],
    ) -> bool:
        """Start relaying a request that takes not long, unless something has to be waited for."""
        ...
