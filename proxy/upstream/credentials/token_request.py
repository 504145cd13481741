"""The forwarder's credential as a token of its service account, which the reviewer asks for.

So the pod has the reviewer's credential alone: whoever steals that can ask questions, and has to
come back to the API server, and into its audit log, for anything more.
"""

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from kubernetes_asyncio.client import ApiClient, ApiException, Configuration

from proxy.kubeclient.kubeconfig import LoadedKubeconfig
from proxy.telemetry.logs import fields
from proxy.upstream.identity.account import Clocks
from proxy.upstream.identity.whoami import CALL_ERRORS, call

log = logging.getLogger(__name__)

_LIFETIME_SECONDS = 3600
# As the kubelet does it: time for many failed tries before the old one ends.
_RENEWED_AT = 0.8
# Before the first token came, this stands in for it. It is nobody's, so the API server refuses
# whatever might be sent with it, and a refused credential is renewed at once.
_NOT_ISSUED = "not-issued-yet"


class Source(Protocol):
    """Where server and CA are written."""

    async def read(self, last: LoadedKubeconfig | None = None) -> LoadedKubeconfig:
        """Return what is written now."""
        ...


@dataclass(frozen=True, slots=True)
class _Token:
    value: str = field(repr=False)
    expires: datetime
    renewed_from: float
    """By the monotonic clock: a step of the wall clock neither keeps a token nor ends it."""


class TokenRequestSource:
    """A credential source: what another one says of the server, and a token of our own."""

    def __init__(
        self,
        base: Source,
        account: tuple[str, str],
        client: ApiClient,
        *,
        clocks: Clocks,
    ) -> None:
        """`account` is namespace and name; `client` may ask for its tokens."""
        self._base = base
        self._account = account
        self._client = client
        self._clocks = clocks
        self._written: LoadedKubeconfig | None = None
        self._token: _Token | None = None

    def __str__(self) -> str:
        return f"a token of service account {':'.join(self._account)}"

    async def read(self, last: LoadedKubeconfig | None = None) -> LoadedKubeconfig:
        """Return what is written now, with a token that is good for a while.

        Without `last` a new token is asked for. ValueError if none is issued; a first one may come
        later.
        """
        self._written = await self._base.read(self._written)
        token = self._token
        if last is None or token is None or self._clocks.monotonic() >= token.renewed_from:
            token = await self._renew()
        reading = _without_credential(self._written)
        reading.configuration.api_key = {
            "BearerToken": f"Bearer {token.value if token else _NOT_ISSUED}"
        }
        return replace(reading, expires=token.expires if token else None)

    async def _renew(self) -> _Token | None:
        try:
            self._token = await self._request()
        except (ApiException, *CALL_ERRORS) as error:
            reason = f"status {error.status}" if isinstance(error, ApiException) else repr(error)
            if self._token is not None:
                raise ValueError(f"it is not issued: {reason}") from error
            account = ":".join(self._account)
            log.warning("proxy token not issued", extra=fields(account=account, error=reason))
        return self._token

    async def _request(self) -> _Token:
        namespace, name = self._account
        asked_at, now = self._clocks.monotonic(), self._clocks.now()
        answer = await call(
            self._client,
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": _LIFETIME_SECONDS},
            },
        )
        status = answer["status"]
        value, expires = status["token"], datetime.fromisoformat(status["expirationTimestamp"])
        if not isinstance(value, str) or not value:
            raise ValueError("no token")
        # By what the API server grants, which may be less than what was asked for. Where our clock
        # is behind it looks like more, and would keep the token in use after its end.
        lifetime_seconds = min(max((expires - now).total_seconds(), 0.0), _LIFETIME_SECONDS)
        return _Token(value, expires, asked_at + _RENEWED_AT * lifetime_seconds)


def _without_credential(written: LoadedKubeconfig) -> LoadedKubeconfig:
    """Return server and CA alone.

    A certificate that stayed would speak for the reviewer: the API server looks at it first.
    """
    configuration = Configuration()
    for name in ("host", "ssl_ca_cert", "tls_server_name", "verify_ssl", "proxy"):
        setattr(configuration, name, getattr(written.configuration, name))
    return LoadedKubeconfig(configuration)
