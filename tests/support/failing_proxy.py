"""`python -m tests.support.failing_proxy CONFIG`: a proxy with bugs that have secrets at hand.

A header `X-Fail` names the one to meet, or a token that says so. All of them raise what a careless
library might: an error that repeats everything it knows.
"""

import asyncio
import sys
import threading
from typing import Any

from proxy.authentication import token_review
from proxy.authentication.authenticator import Authenticator
from proxy.cli.main import main
from proxy.core.http.headers import HeaderList
from proxy.core.userinfo import AuthenticationResult
from proxy.upstream.forwarder import Forwarder
from proxy.wire.exchange import Peer
from tests.support.fault_injection import put

FAILURES = ("authenticator", "chained", "forwarder", "loop", "thread", "destructor")
REVIEW_FAILS_FOR = "fail-the-review"


class Careless(Exception):
    """An error of somebody else's."""


def _fail_with(*secrets: object) -> None:
    raise Careless(f"cannot cope with {secrets!r}")


def _fail_in_the_authenticator() -> None:
    original = Authenticator.authenticate

    async def authenticate(
        authenticator: Authenticator,
        peer: Peer,
        headers: HeaderList,
        *,
        target: bytes = b"/",
        upgrade: bytes | None = None,
    ) -> AuthenticationResult:
        lines = list(headers)
        wanted = next((value for name, value in lines if name == b"X-Fail"), b"")
        if wanted == b"authenticator":
            _fail_with(lines)
        if wanted == b"chained":
            try:
                _fail_with(lines)
            except Careless as careless:
                raise KeyError(lines) from careless
        if wanted == b"loop":
            asyncio.get_running_loop().call_soon(_fail_with, lines)
        if wanted == b"thread":
            threading.Thread(target=_fail_with, args=(lines,)).start()
        if wanted == b"destructor":
            _Fragile(lines)
        return await original(authenticator, peer, headers, target=target, upgrade=upgrade)

    put(Authenticator, "authenticate", authenticate)


class _Fragile:
    """Fails when it is thrown away."""

    def __init__(self, secrets: object) -> None:
        self._secrets = secrets

    def __del__(self) -> None:
        _fail_with(self._secrets)


def _fail_in_the_forwarder() -> None:
    original = Forwarder._head

    def head(forwarder: Forwarder, exchange: Any, admission: Any, audit_id: bytes) -> bytes:
        headers = list(exchange.request.headers)
        if (b"X-Fail", b"forwarder") in headers:
            _fail_with(headers, forwarder._credential.authorization)
        return original(forwarder, exchange, admission, audit_id)

    put(Forwarder, "_head", head)


def _fail_in_the_review() -> None:
    original = token_review.KubernetesTokenReviewer.review

    async def review(reviewer: token_review.KubernetesTokenReviewer, token: str) -> Any:
        if REVIEW_FAILS_FOR in token:
            _fail_with(token)
        return await original(reviewer, token)

    put(token_review.KubernetesTokenReviewer, "review", review)


if __name__ == "__main__":
    _fail_in_the_authenticator()
    _fail_in_the_forwarder()
    _fail_in_the_review()
    sys.exit(main(["serve", "--config", sys.argv[1]]))
