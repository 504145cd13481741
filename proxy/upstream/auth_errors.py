"""Upstream 401 and 403 responses that may concern the proxy's own identity.

Such a response is held until it is attributed to the client or to the proxy. A client must not
receive an error about the proxy's credential or permissions as if it were its own.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, Protocol

from proxy.core.errors import ProxyPermissionMissing, StatusError
from proxy.core.http.headers import parse_header_lines
from proxy.core.requestinfo.request_info import parse_partial_request_info
from proxy.core.selfcheck.denial import (
    DENIAL_TYPES,
    MAX_START_BYTES,
    is_from_api_server,
    may_become_denial,
    missing_permission,
    parse_denial,
)
from proxy.core.userinfo import UserInfo
from proxy.telemetry.logs import fields
from proxy.upstream.endpoints import Endpoint
from proxy.wire.http1.body import BodyKind
from proxy.wire.http1.message import ResponseHead

# A denial of the API server itself is a few hundred bytes, plus the names in it.
MAX_DENIAL_BYTES = 64 * 1024


@dataclass(slots=True)
class HeldResponse:
    """A held 401 or 403, with the part of its body that has been received.

    A 401 is held until the proxy's credential has been checked. Nothing more is read meanwhile.
    A 403 is held until its body ends, which is at once if the API server itself sent it. If it
    names the proxy, it is held until the missing permission has been checked.
    """

    head: ResponseHead
    chunks: list[bytes] = field(default_factory=list)
    has_ended: bool = False
    denial_type: str | None = None
    """The media type of a 403 that may be the API server's denial."""
    _size: int = 0

    @property
    def body(self) -> bytes:
        """Return the part of the body that has been received."""
        return b"".join(self.chunks)

    def append(self, payload: bytes) -> bool:
        """Append a part of the body, and return whether the response is still to be held."""
        is_start = self._size < MAX_START_BYTES
        self.chunks.append(payload)
        self._size += len(payload)
        if self.denial_type is None:
            return True
        if self._size > MAX_DENIAL_BYTES:
            return False
        # Only the start is inspected while it grows. A backend that sends byte by byte must not
        # make the proxy join the whole body for each byte.
        return not is_start or may_become_denial(self.denial_type, self.body)


def denial_type(head: ResponseHead) -> str | None:
    """Return the media type of a 403 that may be the API server's own denial, else None."""
    framing = head.framing
    if framing.kind is BodyKind.LENGTH and not 0 < framing.length <= MAX_DENIAL_BYTES:
        return None
    if framing.kind not in (BodyKind.LENGTH, BodyKind.CHUNKED):
        return None
    media_type = None
    for name, value in parse_header_lines(head.lines):
        folded = name.lower()
        if folded == b"content-encoding":
            return None  # Only long responses are compressed.
        if folded == b"content-type":
            media_type = value.partition(b";")[0].strip().lower().decode("latin-1")
    return media_type if media_type in DENIAL_TYPES else None


log = logging.getLogger(__name__)

# Every request may be denied for the same reason. It is logged once per interval.
REPORT_INTERVAL_SECONDS = 60.0
_MAX_REPORTED = 100
_IMPERSONATE_PREFIX = "impersonate "


class DeniedRequest(NamedTuple):
    """A denied request, and the user that it was forwarded as."""

    method: bytes
    target: bytes
    is_upgrade: bool
    impersonated_user: UserInfo


class DenialCounter(Protocol):
    """Counts missing permissions of the proxy."""

    def proxy_permission_missing(self) -> None:
        """Count a request that failed because the proxy lacks a permission."""
        ...


class PermissionConfirmation(Protocol):
    """Checks the forwarder's permissions at the API server."""

    def confirm(self, user: UserInfo, name: str, on_result: Callable[[bool], None]) -> None:
        """Report whether a permission to impersonate this user is missing; False in doubt."""
        ...


class ProxyDenialDetector:
    """Distinguishes denials of the proxy's own identity from denials of the impersonated user."""

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
        self._reported_until: dict[str, float] = {}

    def add_username(self, own_name: str) -> None:
        """Add a user name of the forwarder.

        Earlier names stay: requests that were forwarded with them may still be in flight.
        """
        self._own_names |= {own_name}

    def is_proxy_denial(self, name: str) -> bool:
        """Return whether this is a current or earlier user name of the forwarder."""
        return name in self._own_names

    def resolve(
        self,
        media_type: str,
        body: bytes,
        request: DeniedRequest,
        on_result: Callable[[StatusError | None], None],
    ) -> None:
        """Report the error that replaces a denial of the proxy; None if the client's own.

        The result is reported at once, unless a review at the API server is needed.
        """
        denial = parse_denial(media_type, body)
        # No request impersonates the forwarder, but one may impersonate an earlier name of it.
        names = self._own_names - {request.impersonated_user.name}
        permission = missing_permission(denial, names) if denial is not None else None
        if denial is None or permission is None:
            on_result(None)
            return
        request_info = parse_partial_request_info(request.method, request.target).request_info
        if denial.is_parsed and is_from_api_server(request_info, is_upgrade=request.is_upgrade):
            on_result(self._proxy_error(permission))
        elif permission.startswith(_IMPERSONATE_PREFIX):
            # Every request impersonates a user, so no other permission of the proxy can be missing:
            # all other checks of the API server are about the impersonated user.
            self._rights.confirm(
                request.impersonated_user,
                denial.name,
                lambda is_missing: on_result(self._proxy_error(permission) if is_missing else None),
            )
        else:
            on_result(None)

    def _proxy_error(self, permission: str) -> ProxyPermissionMissing:
        self._counter.proxy_permission_missing()
        self._report(permission)
        return ProxyPermissionMissing(f"the proxy's own identity cannot {permission}")

    def _report(self, permission: str) -> None:
        now = self._clock()
        if now < self._reported_until.get(permission, 0.0):
            return
        if len(self._reported_until) >= _MAX_REPORTED:
            self._reported_until.clear()
        self._reported_until[permission] = now + REPORT_INTERVAL_SECONDS
        log.error("proxy permission missing", extra=fields(right=permission))


class CredentialStatus(Enum):
    """Whether an API server accepts the proxy's credential."""

    ACCEPTED = auto()
    REJECTED = auto()
    UNKNOWN = auto()


class Denials(Protocol):
    """Distinguishes denials of the proxy's own identity from denials of the impersonated user."""

    def is_proxy_denial(self, name: str) -> bool:
        """Return whether this is a user name of the forwarder."""
        ...

    def resolve(
        self,
        media_type: str,
        body: bytes,
        request: DeniedRequest,
        on_result: Callable[[StatusError | None], None],
    ) -> None:
        """Report the error that replaces a denial of the proxy; None if the client's own."""
        ...


class AuthErrorResolver(Protocol):
    """Attributes upstream 401 and 403 responses to the client or to the proxy."""

    @property
    def denials(self) -> Denials:
        """Return the detector of denials of the proxy's own identity."""
        ...

    def check(
        self, endpoint: Endpoint, version: int, on_result: Callable[[CredentialStatus], None]
    ) -> None:
        """Report whether an endpoint accepts a version of the credential, now or later."""
        ...
