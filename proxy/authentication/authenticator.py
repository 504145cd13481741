"""The order in which credentials are tried, as the API server tries them.

A front proxy's word, a client certificate, a bearer token, the token of a WebSocket. A credential
that fails does not spoil another one that is good; without any good one the request is refused.
Only who has shown no credential at all may be anonymous, and only where that is allowed.
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
from proxy.core.http.headers import Header, HeaderList, check_caller
from proxy.core.http.websocket import TOKEN_PREFIX, offered_protocols
from proxy.core.userinfo import (
    ANONYMOUS,
    UNAUTHENTICATED,
    Caller,
    UserInfo,
)
from proxy.wire.exchange import Peer

_ENCODED = re.compile(rb"[A-Za-z0-9_-]*")
_STANDARD_ALPHABET = bytes.maketrans(b"-_", b"+/")


def websocket_token(headers: Sequence[Header], *, upgrade: bytes | None) -> bytes | None:
    """Return the token among the subprotocols, as the API server reads it; None if there is none.

    It counts only where the request asks for a WebSocket. Unauthorized, unless there is one token,
    at least one real protocol is left to choose, and the token is UTF-8 in base64url without
    padding.
    """
    if upgrade is None or upgrade.lower() != b"websocket":
        return None
    offered = offered_protocols(headers)
    if len(offered.tokens) > 1:
        raise Unauthorized
    if not offered.tokens or not offered.tokens[0].startswith(TOKEN_PREFIX):
        return None
    token = _decoded(offered.tokens[0][len(TOKEN_PREFIX) :])
    if token and not offered.protocols:
        raise Unauthorized
    return token or None


def _decoded(encoded: bytes) -> bytes:
    # The pattern first: the decoder would skip what it does not know, and so read many texts alike.
    if _ENCODED.fullmatch(encoded) is None:
        raise Unauthorized
    padding = b"=" * (-len(encoded) % 4)
    try:
        token = binascii.a2b_base64(encoded.translate(_STANDARD_ALPHABET) + padding)
        token.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Unauthorized from error
    return token


_NAME = b"authorization"
_NAME_LENGTH = len(_NAME)
ANONYMOUS_CALLER = Caller(UserInfo(ANONYMOUS, groups=(UNAUTHENTICATED,)))


class TrustProvider(Protocol):
    """Knows which certificates are believed now."""

    @property
    def trust(self) -> ClientTrust:
        """Return what is believed."""
        ...


class TokenAuthenticator(Protocol):
    """Knows whose a token is."""

    async def authenticate(self, token: bytes, *, address: str) -> Caller:
        """Return the caller or raise Unauthorized; `address` is where the token came from."""
        ...

    def key_of(self, token: bytes) -> bytes:
        """Return under what a token is remembered."""
        ...

    def cached_caller(self, key: bytes) -> Caller | None:
        """Return whose token this was a moment ago, if anybody's."""
        ...


@dataclass(frozen=True, slots=True)
class AnonymousPolicy:
    """Where nobody in particular may call."""

    enabled: bool = False
    paths: frozenset[str] = frozenset()
    """Only these, exactly; if there are none, everywhere."""

    def allows(self, target: bytes) -> bool:
        """Tell whether a request without any credential is served."""
        return self.enabled and (not self.paths or split_target(target)[0] in self.paths)


ANONYMOUS_DISABLED = AnonymousPolicy()


class Authenticator:
    """Finds out who is calling."""

    def __init__(
        self,
        believing: TrustProvider,
        tokens: TokenAuthenticator | None,
        *,
        clock: Callable[[], datetime],
        anonymous: AnonymousPolicy = ANONYMOUS_DISABLED,
    ) -> None:
        self._believing = believing
        self._tokens = tokens
        # One value, because header lines know a question by it.
        self._token_key: Callable[[HeaderList], bytes | None] = self._key_of_token
        self._clock = clock
        self.anonymous = anonymous

    def cached_caller(self, peer: Peer, headers: HeaderList) -> Caller | None:
        """Return the caller of a request that is no upgrade, if nobody has to be asked.

        None says nothing about who it is. That its identity is safe to put into headers was found
        out when the same value was returned by `authenticate`, and only then.
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
        """Return who recalls the caller of equal requests of one connection."""
        key = headers.memoize(self._token_key)
        if peer.chain or key is None or self._tokens is None:
            return partial(self.cached_caller, peer, headers)
        # Without a certificate there is but the token to ask for.
        return partial(self._tokens.cached_caller, key)

    async def authenticate(
        self,
        peer: Peer,
        headers: HeaderList,
        *,
        target: bytes = b"/",
        upgrade: bytes | None = None,
    ) -> Caller:
        """Return the caller, whose identity is safe to put into headers; else refuse.

        `upgrade` is the protocol the client wants to switch to, if any.
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
            return self._without_credential(peer, target, has_failed=has_failed)
        check_caller(caller.user)
        return caller

    def _by_certificate(self, peer: Peer, headers: HeaderList) -> tuple[Caller | None, bool]:
        """Return who is proven by a chain, and whether it failed to prove something.

        Each of the two CAs is asked for itself. One chain may satisfy both; then a front proxy's
        word comes first, and without one the certificate counts.
        """
        trust, now = self._believing.trust, self._clock()
        caller, has_failed = None, not trust.is_known
        if trust.front_proxies is not None:
            if trust.front_proxies.bundle.verify(peer, now).verified:
                caller = _spoken_for(trust.front_proxies, headers)
            else:
                has_failed = True
        if caller is None and trust.clients is not None:
            judgement = trust.clients.verify(peer, now)
            caller, has_failed = judgement.subject, has_failed or not judgement.verified
        return caller, has_failed

    def _key_of_token(self, headers: HeaderList) -> bytes | None:
        token = headers.memoize(bearer_token)
        return None if token is None or self._tokens is None else self._tokens.key_of(token)

    async def _by_token(self, token: bytes | None, peer: Peer) -> Caller | None:
        if token is None or self._tokens is None:
            return None
        return await self._tokens.authenticate(token, address=peer.address)

    def _without_credential(self, peer: Peer, target: bytes, *, has_failed: bool) -> Caller:
        if peer.chain and not self._believing.trust.is_known:
            # Never a 401: the client would throw away a certificate that may be good.
            raise UpstreamUnavailable("client certificates cannot be judged yet")
        if has_failed or not self.anonymous.allows(target):
            raise Unauthorized
        return ANONYMOUS_CALLER


def _spoken_for(front_proxies: FrontProxyTrust, headers: Sequence[Header]) -> Caller | None:
    """Return for whom a front proxy speaks, which was verified to be one."""
    user = parse_front_proxy_user(headers, front_proxies.headers)
    if user is None:
        return None
    check_caller(user)
    return Caller(user)


def bearer_token(headers: Sequence[Header]) -> bytes | None:
    """Return the token of the Authorization header, as the API server splits it; None if none."""
    # Most names differ in length already, which is seen sooner.
    values = [v for name, v in headers if len(name) == _NAME_LENGTH and name.lower() == _NAME]
    if len(values) > 1:
        raise BadRequest("more than one Authorization header")
    parts = values[0].split(b" ", 2) if values else []
    if len(parts) < 2 or parts[0].lower() != b"bearer":  # noqa: PLR2004 - scheme and token
        return None
    return parts[1] or None
