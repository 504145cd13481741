"""Authenticator: tries the credentials of a request in the order of kube-apiserver.

The order is front proxy headers, client certificate, bearer token, WebSocket token. An invalid
credential does not prevent another one from being valid. Without any valid one the request is
rejected. Only a request without any credential may be anonymous, and only if that is allowed.
"""

import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from proxy.authentication.client_trust import ClientTrustReloader, FrontProxyTrust
from proxy.authentication.token_authenticator import CachedTokenAuthenticator
from proxy.core.errors import (
    BadRequest,
    StatusError,
    Unauthorized,
    UpstreamUnavailable,
)
from proxy.core.gocompat.url import split_target
from proxy.core.http.front_proxy import parse_front_proxy_user
from proxy.core.http.headers import Header, check_caller_forwardable
from proxy.core.http.websocket import TOKEN_PREFIX, parse_offered_protocols
from proxy.core.userinfo import (
    ANONYMOUS,
    UNAUTHENTICATED,
    AuthenticationResult,
    Caller,
    UserInfo,
)
from proxy.wire.exchange import Peer

_BASE64URL = re.compile(rb"[A-Za-z0-9_-]*")
_STANDARD_ALPHABET = bytes.maketrans(b"-_", b"+/")


def websocket_token(headers: Sequence[Header], *, upgrade: bytes | None) -> bytes | None:
    """Return the token among the WebSocket subprotocols, parsed as in kube-apiserver, or None.

    It is used only if the request is a WebSocket upgrade. Raises Unauthorized unless there is one
    token, at least one real subprotocol besides it, and the token is UTF-8 in unpadded base64url.
    """
    if upgrade is None or upgrade.lower() != b"websocket":
        return None
    offered = parse_offered_protocols(headers)
    if len(offered.tokens) > 1:
        raise Unauthorized
    if not offered.tokens or not offered.tokens[0].startswith(TOKEN_PREFIX):
        return None
    token = _decode_token(offered.tokens[0][len(TOKEN_PREFIX) :])
    if token and not offered.protocols:
        raise Unauthorized
    return token or None


def _decode_token(encoded: bytes) -> bytes:
    # The pattern is checked first: the decoder skips unknown characters, so that several texts
    # would decode to the same token.
    if _BASE64URL.fullmatch(encoded) is None:
        raise Unauthorized
    padding = b"=" * (-len(encoded) % 4)
    try:
        token = binascii.a2b_base64(encoded.translate(_STANDARD_ALPHABET) + padding)
        token.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Unauthorized from error
    return token


_HEADER_NAME = b"authorization"
_HEADER_NAME_LENGTH = len(_HEADER_NAME)
ANONYMOUS_CALLER = Caller(UserInfo(ANONYMOUS, groups=(UNAUTHENTICATED,)))


@dataclass(frozen=True, slots=True)
class AnonymousPolicy:
    """Which requests may be anonymous."""

    enabled: bool = False
    paths: frozenset[str] = frozenset()
    """Exactly these paths; all paths if empty."""

    def allows(self, target: bytes) -> bool:
        """Return whether a request without any credential is allowed."""
        return self.enabled and (not self.paths or split_target(target)[0] in self.paths)


ANONYMOUS_DISABLED = AnonymousPolicy()


class Authenticator:
    """Authenticates the caller of a request."""

    def __init__(
        self,
        trust: ClientTrustReloader,
        tokens: CachedTokenAuthenticator | None,
        *,
        clock: Callable[[], datetime],
        anonymous: AnonymousPolicy = ANONYMOUS_DISABLED,
    ) -> None:
        self._trust = trust
        self._tokens = tokens
        self._clock = clock
        self.anonymous = anonymous

    async def authenticate(
        self,
        peer: Peer,
        headers: Sequence[Header],
        *,
        target: bytes = b"/",
        upgrade: bytes | None = None,
    ) -> AuthenticationResult:
        """Return the caller, which is safe to put into headers; raise a StatusError otherwise.

        `upgrade` is the protocol of the Upgrade header, if any.
        """
        token = bearer_token(headers)
        has_failed = False
        if peer.chain:
            caller, has_failed = self._by_certificate(peer, headers)
            if caller is not None:
                recheck = partial(self._is_still_certified, caller, peer, headers)
                return AuthenticationResult(caller, recheck)
        try:
            result = await self._by_token(token, peer, headers)
        except Unauthorized:
            result, has_failed = None, True
        if result is None and upgrade is not None:
            try:
                result = await self._by_websocket_token(peer, headers, upgrade)
            except Unauthorized:
                has_failed = True
        if result is None:
            return self._anonymous(peer, target, has_failed=has_failed)
        check_caller_forwardable(result.caller.user)
        return result

    def _by_certificate(self, peer: Peer, headers: Sequence[Header]) -> tuple[Caller | None, bool]:
        """Return the caller that a chain proves, and whether a verification failed.

        The chain is verified against each of the two CAs. If both accept it, front proxy headers
        come first; without them the certificate's subject is the caller.
        """
        trust, now = self._trust.trust, self._clock()
        caller, has_failed = None, not trust.is_known
        if trust.front_proxies is not None:
            if trust.front_proxies.bundle.verify(peer, now).verified:
                caller = _front_proxy_caller(trust.front_proxies, headers)
            else:
                has_failed = True
        if caller is None and trust.clients is not None:
            verification = trust.clients.verify(peer, now)
            caller, has_failed = verification.subject, has_failed or not verification.verified
        return caller, has_failed

    def _is_still_certified(
        self, caller: Caller | None, peer: Peer, headers: Sequence[Header]
    ) -> bool:
        """Return whether the peer's certificate still proves this caller; None: still no caller."""
        try:
            return self._by_certificate(peer, headers)[0] == caller
        except StatusError:
            return False

    async def _by_token(
        self, token: bytes | None, peer: Peer, headers: Sequence[Header]
    ) -> AuthenticationResult | None:
        if token is None or self._tokens is None:
            return None
        result = await self._tokens.authenticate(token, address=peer.address)
        if result.recheck is None or not peer.chain:
            return result
        # A certificate comes first. With other CAs this one may prove a caller.
        recheck = partial(self._is_still_token, result.recheck, peer, headers)
        return AuthenticationResult(result.caller, recheck)

    def _is_still_token(
        self, recheck: Callable[[], bool], peer: Peer, headers: Sequence[Header]
    ) -> bool:
        return self._is_still_certified(None, peer, headers) and recheck()

    async def _by_websocket_token(
        self, peer: Peer, headers: Sequence[Header], upgrade: bytes
    ) -> AuthenticationResult | None:
        token = websocket_token(headers, upgrade=upgrade)
        result = await self._by_token(token, peer, headers)
        return None if result is None else AuthenticationResult(result.caller)

    def _anonymous(self, peer: Peer, target: bytes, *, has_failed: bool) -> AuthenticationResult:
        if peer.chain and not self._trust.trust.is_known:
            # Never a 401: the client would discard a certificate that may be valid.
            raise UpstreamUnavailable("client certificates cannot be verified yet")
        if has_failed or not self.anonymous.allows(target):
            raise Unauthorized
        return AuthenticationResult(ANONYMOUS_CALLER)


def _front_proxy_caller(front_proxies: FrontProxyTrust, headers: Sequence[Header]) -> Caller | None:
    """Return the caller asserted by the headers of a verified front proxy, if any."""
    user = parse_front_proxy_user(headers, front_proxies.headers)
    if user is None:
        return None
    check_caller_forwardable(user)
    return Caller(user)


def bearer_token(headers: Sequence[Header]) -> bytes | None:
    """Return the token of the Authorization header, split as in kube-apiserver, or None."""
    # The length is compared first: it is cheaper, and most names already differ in it.
    values = [
        v
        for name, v in headers
        if len(name) == _HEADER_NAME_LENGTH and name.lower() == _HEADER_NAME
    ]
    if len(values) > 1:
        raise BadRequest("more than one Authorization header")
    parts = values[0].split(b" ", 2) if values else []
    if len(parts) < 2 or parts[0].lower() != b"bearer":  # noqa: PLR2004 - scheme and token
        return None
    return parts[1] or None
