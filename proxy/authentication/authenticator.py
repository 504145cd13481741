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
from typing import Protocol

from proxy.authentication.client_trust import ClientTrust, FrontProxyTrust
from proxy.core.errors import (
    BadRequest,
    StatusError,
    Unauthorized,
    UpstreamUnavailable,
)
from proxy.core.gocompat.url import split_target
from proxy.core.http.front_proxy import parse_front_proxy_user
from proxy.core.http.headers import Header, HeaderList, check_caller_forwardable
from proxy.core.http.websocket import TOKEN_PREFIX, parse_offered_protocols
from proxy.core.userinfo import (
    ANONYMOUS,
    UNAUTHENTICATED,
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


class TrustProvider(Protocol):
    """Provides the certificates that are trusted now."""

    @property
    def trust(self) -> ClientTrust:
        """Return the current trust."""
        ...


class TokenAuthenticator(Protocol):
    """Authenticates bearer tokens."""

    async def authenticate(self, token: bytes, *, address: str) -> Caller:
        """Return the caller or raise Unauthorized; `address` is the source of the request."""
        ...

    def cache_key(self, token: bytes) -> bytes:
        """Return the cache key of a token."""
        ...

    def cached_caller(self, key: bytes) -> Caller | None:
        """Return the cached caller of a token, if any."""
        ...


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
        trust_provider: TrustProvider,
        tokens: TokenAuthenticator | None,
        *,
        clock: Callable[[], datetime],
        anonymous: AnonymousPolicy = ANONYMOUS_DISABLED,
    ) -> None:
        self._trust_provider = trust_provider
        self._tokens = tokens
        # Bound once: `HeaderList.memoize` uses the function itself as the key.
        self._token_key: Callable[[HeaderList], bytes | None] = self._token_cache_key
        self._clock = clock
        self.anonymous = anonymous

    def cached_caller(self, peer: Peer, headers: HeaderList) -> Caller | None:
        """Return the caller of a request that is not an upgrade, if it is known without a review.

        None says nothing about the caller. A returned caller is safe to put into headers only if
        `authenticate` has returned the same object before: only that method checks it.
        """
        if peer.chain:
            try:
                caller, _ = self._by_certificate(peer, headers)
            except StatusError:
                return None
            if caller is not None:
                return caller
        key = headers.memoize(self._token_key)
        return None if key is None or self._tokens is None else self._tokens.cached_caller(key)

    def cached_caller_lookup(self, peer: Peer, headers: HeaderList) -> Callable[[], Caller | None]:
        """Return a function that looks up the caller of equal requests on one connection."""
        key = headers.memoize(self._token_key)
        if peer.chain or key is None or self._tokens is None:
            return partial(self.cached_caller, peer, headers)
        # Without a certificate only the token has to be looked up.
        return partial(self._tokens.cached_caller, key)

    async def authenticate(
        self,
        peer: Peer,
        headers: HeaderList,
        *,
        target: bytes = b"/",
        upgrade: bytes | None = None,
    ) -> Caller:
        """Return the caller, which is safe to put into headers; raise a StatusError otherwise.

        `upgrade` is the protocol of the Upgrade header, if any.
        """
        token = headers.memoize(bearer_token)
        has_failed = False
        if peer.chain:
            caller, has_failed = self._by_certificate(peer, headers)
            if caller is not None:
                return caller
        try:
            caller = await self._by_token(token, peer)
        except Unauthorized:
            caller, has_failed = None, True
        if caller is None and upgrade is not None:
            try:
                caller = await self._by_token(websocket_token(headers, upgrade=upgrade), peer)
            except Unauthorized:
                has_failed = True
        if caller is None:
            return self._anonymous_caller(peer, target, has_failed=has_failed)
        check_caller_forwardable(caller.user)
        return caller

    def _by_certificate(self, peer: Peer, headers: HeaderList) -> tuple[Caller | None, bool]:
        """Return the caller that a chain proves, and whether a verification failed.

        The chain is verified against each of the two CAs. If both accept it, front proxy headers
        come first; without them the certificate's subject is the caller.
        """
        trust, now = self._trust_provider.trust, self._clock()
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

    def _token_cache_key(self, headers: HeaderList) -> bytes | None:
        token = headers.memoize(bearer_token)
        return None if token is None or self._tokens is None else self._tokens.cache_key(token)

    async def _by_token(self, token: bytes | None, peer: Peer) -> Caller | None:
        if token is None or self._tokens is None:
            return None
        return await self._tokens.authenticate(token, address=peer.address)

    def _anonymous_caller(self, peer: Peer, target: bytes, *, has_failed: bool) -> Caller:
        if peer.chain and not self._trust_provider.trust.is_known:
            # Never a 401: the client would discard a certificate that may be valid.
            raise UpstreamUnavailable("client certificates cannot be verified yet")
        if has_failed or not self.anonymous.allows(target):
            raise Unauthorized
        return ANONYMOUS_CALLER


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
