"""How our credential stands at an API server, and who knows."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, Protocol

from proxy.core.errors import InternalError, StatusError
from proxy.core.requestinfo.request_info import parse_outline
from proxy.core.selfcheck.denial import (
    DENIAL_TYPES,
    LONGEST_START,
    is_from_api_server,
    may_become_denial,
    missing_permission,
    read_denial,
)
from proxy.core.userinfo import UserInfo
from proxy.telemetry.logs import fields
from proxy.upstream.endpoints import Endpoint
from proxy.wire.http1.body import BodyKind
from proxy.wire.http1.message import ResponseHead

# The API server's own denials are a few hundred bytes, and as long as the names in them.
MAX_DENIAL_BYTES = 64 * 1024


@dataclass(slots=True)
class HeldResponse:
    """A 401 or a 403 that waits, with what has come of its body.

    A 401 waits for an answer to a question of ours, and nothing more of it is read meanwhile. A
    403 waits for its own end, which comes at once if it is the API server's own word, and if it
    names us, for an answer to a question of ours.
    """

    head: ResponseHead
    chunks: list[bytes] = field(default_factory=list)
    has_ended: bool = False
    denial_type: str | None = None
    """The media type of a 403 that may be the API server's denial."""
    _size: int = 0

    @property
    def body(self) -> bytes:
        """Return what has come."""
        return b"".join(self.chunks)

    def append(self, payload: bytes) -> bool:
        """Keep a piece, and tell whether the answer still has to wait."""
        is_start = self._size < LONGEST_START
        self.chunks.append(payload)
        self._size += len(payload)
        if self.denial_type is None:
            return True
        if self._size > MAX_DENIAL_BYTES:
            return False
        # Its start is looked at while it grows, and no longer: whoever sends byte by byte must not
        # have all of it put together for each.
        return not is_start or may_become_denial(self.denial_type, self.body)


def denial_type(head: ResponseHead) -> str | None:
    """Return the media type of a 403 that may be the API server's own denial, else None."""
    framing = head.framing
    if framing.kind is BodyKind.LENGTH and not 0 < framing.length <= MAX_DENIAL_BYTES:
        return None
    if framing.kind not in (BodyKind.LENGTH, BodyKind.CHUNKED):
        return None
    media_type = None
    for name, value in head.headers:
        folded = name.lower()
        if folded == b"content-encoding":
            return None  # Only long answers are compressed.
        if folded == b"content-type":
            media_type = value.partition(b";")[0].strip().lower().decode("latin-1")
    return media_type if media_type in DENIAL_TYPES else None


log = logging.getLogger(__name__)

# Every request may be denied for the same reason; it is told once in this time.
REPORT_INTERVAL_SECONDS = 60.0
_MOST_TOLD = 100
_IMPERSONATING = "impersonate "


class DeniedRequest(NamedTuple):
    """What was denied, and the identity that it was forwarded with."""

    method: bytes
    target: bytes
    is_upgrade: bool
    impersonated_user: UserInfo


class DenialCounter(Protocol):
    """Counts."""

    def proxy_permission_missing(self) -> None:
        """Count a request that failed because we may not do something."""
        ...


class PermissionConfirmation(Protocol):
    """Asks the API server about the forwarder's rights."""

    def confirm(self, user: UserInfo, name: str, tell: Callable[[bool], None]) -> None:
        """Tell whether a right to take this identity is missing; False in doubt."""
        ...


class ProxyDenialDetector:
    """Tells denials about us from denials about whom we speak for."""

    def __init__(
        self,
        rights: PermissionConfirmation,
        *,
        counter: DenialCounter,
        clock: Callable[[], float],
    ) -> None:
        self._rights = rights
        self._counter = counter
        self._clock = clock
        self._own_names: frozenset[str] = frozenset()
        self._told: dict[str, float] = {}

    def add_username(self, own_name: str) -> None:
        """Learn a name under which we forward. Earlier ones count, too: requests are under way."""
        self._own_names |= {own_name}

    def is_proxy_denial(self, name: str) -> bool:
        """Return whether we forward, or have forwarded, under this name."""
        return name in self._own_names

    def resolve(
        self,
        media_type: str,
        body: bytes,
        request: DeniedRequest,
        tell: Callable[[StatusError | None], None],
    ) -> None:
        """Tell what a client is told in place of a denial about us; None if it is its own.

        At once, unless the API server has to be asked.
        """
        denial = read_denial(media_type, body)
        # No request acts as the forwarder, but one may act as what the forwarder once was.
        names = self._own_names - {request.impersonated_user.name}
        right = missing_permission(denial, names) if denial is not None else None
        if denial is None or right is None:
            tell(None)
            return
        request_info = parse_outline(request.method, request.target).request_info
        if denial.is_parsed and is_from_api_server(request_info, is_upgrade=request.is_upgrade):
            tell(self._believed(right))
        elif right.startswith(_IMPERSONATING):
            # Every request carries an identity, so no other right of ours can be missing: with it
            # the API server judges whom we speak for.
            self._rights.confirm(
                request.impersonated_user,
                denial.name,
                lambda is_missing: tell(self._believed(right) if is_missing else None),
            )
        else:
            tell(None)

    def _believed(self, right: str) -> InternalError:
        self._counter.proxy_permission_missing()
        self._tell(right)
        return InternalError(f"the proxy's own identity cannot {right}")

    def _tell(self, right: str) -> None:
        now = self._clock()
        if now < self._told.get(right, 0.0):
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[right] = now + REPORT_INTERVAL_SECONDS
        log.error("proxy permission missing", extra=fields(right=right))


class CredentialStatus(Enum):
    """What an API server thinks of our credential."""

    ACCEPTED = auto()
    REFUSED = auto()
    UNKNOWN = auto()


class Denials(Protocol):
    """Tells denials about us from denials about whom we speak for."""

    def is_proxy_denial(self, name: str) -> bool:
        """Return whether we forward under this name."""
        ...

    def resolve(
        self,
        media_type: str,
        body: bytes,
        request: DeniedRequest,
        tell: Callable[[StatusError | None], None],
    ) -> None:
        """Tell what a client is told in place of a denial about us; None if it is its own."""
        ...


class AuthErrorResolver(Protocol):
    """Finds out how our credential stands, and which denials are about us."""

    @property
    def denials(self) -> Denials:
        """Return who tells denials about us from others."""
        ...

    def check(
        self, endpoint: Endpoint, version: int, tell: Callable[[CredentialStatus], None]
    ) -> None:
        """Tell how an endpoint takes a version of our credential, now or later."""
        ...
