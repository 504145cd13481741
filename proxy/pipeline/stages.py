"""What the request path needs of the rooms: each stage as a promise, and no room by its name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.core.errors import Refusal
from proxy.core.http.headers import Header, HeaderLines
from proxy.core.impersonation.cache_keys import RepeatableDecision
from proxy.core.impersonation.permit import Admission
from proxy.core.requestinfo.list_options import DEFAULT_SELECTOR_TERMS
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import Caller, Identity
from proxy.wire.exchange import ClientExchange, ExchangeObserver, Outcome, Peer
from proxy.wire.http1.message import RequestHead


class Trail(Protocol):
    """The record of one request; told each fact once, as soon as it is known."""

    audit_id: bytes

    @property
    def observer(self) -> ExchangeObserver | None:
        """Who is to hear what passes, if anybody."""
        ...

    def acts(self, action: Action) -> None:
        """Learn what the request does."""
        ...

    def is_called_by(self, caller: Caller) -> None:
        """Learn who is calling."""
        ...

    def is_reviewed(self, count: int) -> None:
        """Learn how many reviews the decision took, if it took any."""
        ...

    def is_admitted(self, admission: Admission) -> None:
        """Learn who the request becomes."""
        ...

    def is_admitted_again(self, action: Action, caller: Caller, admission: Admission) -> None:
        """Learn all of that at once."""
        ...

    def is_refused(self, refusal: Refusal) -> None:
        """Learn why the request goes no further."""
        ...

    def ended(self, outcome: Outcome) -> None:
        """Learn how it ended, and write it down."""
        ...


class Recorder(Protocol):
    """Keeps the trails."""

    @property
    def observes(self) -> bool:
        """Tell whether its trails may want to hear what passes."""
        ...

    def open(self, request: RequestHead, peer: Peer, audit_id: bytes | None) -> Trail:
        """Start a trail under the client's id or a new one."""
        ...


class CallerFinder(Protocol):
    """Stage: who is calling?"""

    async def authenticate(
        self, peer: Peer, headers: HeaderLines, *, target: bytes, upgrade: bytes | None
    ) -> Caller:
        """Return the caller or refuse."""
        ...

    def recaller(self, peer: Peer, headers: HeaderLines) -> Callable[[], Caller | None]:
        """Return who tells the caller of equal plain requests if nobody has to be asked for it.

        It answers None in doubt.
        """
        ...


class Places(Protocol):
    """Stage: is there a place for one more?"""

    def enter(self, exchange: ClientExchange, action: Action, caller: Caller) -> None:
        """Take a place until the exchange ends, or refuse."""
        ...


class AuditRoom(Protocol):
    """Stage: can what happens be written down? Comes first: all that follows may be an event."""

    def is_free(self) -> bool:
        """Tell whether nobody has to wait."""
        ...

    async def wait(self) -> None:
        """Return when the request may go on, or refuse."""
        ...


class DecisionGate(Protocol):
    """Stage: may the caller act as that identity, for this action?"""

    async def admit(
        self,
        caller: Caller,
        wanted: Identity | None,
        action: Action,
        *,
        is_upgrade: bool,
        witness: Trail,
    ) -> Admission:
        """Return the permit to forward or refuse."""
        ...

    def repeatable(
        self, caller: Caller, wanted: Identity | None, action: Action
    ) -> RepeatableDecision | None:
        """Return by what an equal plain request can be admitted again, if at all."""
        ...

    def admit_again(self, known: RepeatableDecision) -> Admission | None:
        """Return the permit to forward if it would come out the same; None in doubt."""
        ...


@dataclass(frozen=True, slots=True)
class Decisions:
    """How requests are judged; replaced as a whole when the rules change."""

    read_wanted: Callable[[Sequence[Header]], Identity | None]
    gate: DecisionGate
    selector_terms: int = DEFAULT_SELECTOR_TERMS
    """How many requirements and values the selectors of one request may have together."""


class RequestForwarder(Protocol):
    """Stage: carry it out."""

    async def forward(
        self,
        exchange: ClientExchange,
        admission: Admission,
        *,
        audit_id: bytes,
        is_long_running: bool,
        refuse: Callable[[Refusal], None],
    ) -> None:
        """Start relaying; the answer flows without the pipeline."""
        ...

    def forward_at_once(
        self,
        exchange: ClientExchange,
        admission: Admission,
        *,
        audit_id: bytes,
        refuse: Callable[[Refusal], None],
    ) -> bool:
        """Start relaying a request that takes not long, unless something has to be waited for."""
        ...
