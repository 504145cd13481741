"""`python -m tests.support.blocking_proxy CONFIG`: a proxy that a header can block.

`X-Block: SECONDS` makes its event loop sleep for so long, in the middle of a request.
"""

import sys
import time

from proxy.authentication.authenticator import Authenticator
from proxy.cli.main import main
from proxy.core.http.headers import HeaderList
from proxy.core.userinfo import AuthenticationResult
from proxy.wire.exchange import Peer
from tests.support.fault_injection import put


def _block_in_the_authenticator() -> None:
    original = Authenticator.authenticate

    async def authenticate(
        authenticator: Authenticator,
        peer: Peer,
        headers: HeaderList,
        *,
        target: bytes = b"/",
        upgrade: bytes | None = None,
    ) -> AuthenticationResult:
        seconds = next((value for name, value in headers if name == b"X-Block"), b"0")
        time.sleep(float(seconds))  # noqa: ASYNC251 - the very mistake
        return await original(authenticator, peer, headers, target=target, upgrade=upgrade)

    put(Authenticator, "authenticate", authenticate)


if __name__ == "__main__":
    _block_in_the_authenticator()
    sys.exit(main(["serve", "--config", sys.argv[1]]))
