"""Protocols of the stages that the pipeline needs; their implementations are in other packages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from proxy.core.errors import StatusError
from proxy.core.http.headers import HeaderList
from proxy.core.impersonation.permit import AuthorizationResult, Permit
from proxy.core.requestinfo.list_options import DEFAULT_SELECTOR_TERMS
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import AuthenticationResult, Caller, UserInfo
from proxy.wire.exchange import ClientExchange, ExchangeObserver, ExchangeOutcome, Peer
from proxy.wire.http1.message import RequestHead


class AuditContextProtocol(Protocol):
    """The record of one request; each fact is set once, as soon as it is known."""

    audit_id: bytes

    @property
    def observer(self) -> ExchangeObserver | None:
        """Return the observer of the exchange, if any."""
        ...

    def set_request_info(self, request_info: RequestInfo) -> None:
        """Record the request info."""
        ...

    def set_caller(self, caller: Caller) -> None:
        """Record the caller."""
        ...

    def add_reviews(self, count: int) -> None:
        """Record how many access reviews the decision needed, if any."""
        ...

    def set_permit(self, permit: Permit) -> None:
        """Record the permit, and so the user the request is forwarded as."""
        ...

    def set_error(self, error: StatusError) -> None:
        """Record why the request is rejected."""
        ...

    def finish(self, outcome: ExchangeOutcome) -> None:
        """Record the outcome, and write the record."""
        ...


class RecorderProtocol(Protocol):
    """Starts the audit contexts."""

    def begin(
        self, request: RequestHead, peer: Peer, audit_id: bytes | None
    ) -> AuditContextProtocol:
        """Start an audit context with the client's audit ID, or a new one."""
        ...


class AuthenticatorProtocol(Protocol):
    """Stage: authenticate the caller."""

    async def authenticate(
        self, peer: Peer, headers: HeaderList, *, target: bytes, upgrade: bytes | None
    ) -> AuthenticationResult:
        """Return the caller; raise a StatusError if the request is rejected."""
        ...


class InFlightProtocol(Protocol):
    """Stage: limit the requests in flight."""

    def acquire(self, exchange: ClientExchange, request_info: RequestInfo, caller: Caller) -> None:
        """Take a slot until the exchange ends; raise a StatusError if there is none."""
        ...


class BackpressureProtocol(Protocol):
    """Stage: audit backpressure. It comes first, because all later stages may write events."""

    def has_capacity(self) -> bool:
        """Return whether no request has to wait."""
        ...

    async def wait(self) -> None:
        """Return when the request may proceed; raise a StatusError if it is rejected."""
        ...


class AuthorizerProtocol(Protocol):
    """Stage: authorize the impersonation of the wanted user for this request."""

    async def authorize(
        self,
        caller: Caller,
        wanted_user: UserInfo | None,
        request_info: RequestInfo,
        *,
        is_upgrade: bool,
        observer: AuditContextProtocol,
    ) -> AuthorizationResult:
        """Return the permit to forward; raise a StatusError if the request is rejected."""
        ...


@dataclass(frozen=True, slots=True)
class ImpersonationStage:
    """How requests are authorized; replaced as a whole when the rules change."""

    parse_headers: Callable[[HeaderList], UserInfo | None]
    authorizer: AuthorizerProtocol
    selector_terms: int = DEFAULT_SELECTOR_TERMS
    """The largest total of requirements and values in the selectors of one request."""


class ForwarderProtocol(Protocol):
    """Stage: forward the request."""

    async def forward(
        self,
        exchange: ClientExchange,
        permit: Permit,
        *,
        audit_id: bytes,
        is_long_running: bool,
        reject: Callable[[StatusError], None],
    ) -> None:
        """Start relaying; the response bypasses the pipeline."""
        ...

    def try_forward(
        self,
        exchange: ClientExchange,
        permit: Permit,
        *,
        audit_id: bytes,
        reject: Callable[[StatusError], None],
    ) -> bool:
        """Start relaying a short request; return False if something has to be awaited."""
        ...
