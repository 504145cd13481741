"""The forwarder's credential: a token of its service account, requested by the reviewer.

So the pod holds the reviewer's credential only. An attacker that steals it can only send reviews.
For anything more it must request a token from the API server, which its audit log records.
"""

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime

from kubernetes_asyncio.client import ApiClient, ApiException, Configuration

from proxy.kubeclient.kubeconfig import KubeconfigSource, LoadedKubeconfig
from proxy.telemetry.logs import fields
from proxy.upstream.identity.account import Clocks
from proxy.upstream.identity.whoami import CALL_ERRORS, call

log = logging.getLogger(__name__)

_LIFETIME_SECONDS = 3600
# As the kubelet does: this leaves time for many failed attempts before the old token expires.
_RENEWAL_FRACTION = 0.8
# A placeholder until the first token is issued. It belongs to no user, so the API server rejects
# whatever is sent with it, and a rejected credential is renewed at once.
_NOT_ISSUED = "not-issued-yet"


@dataclass(frozen=True, slots=True)
class _Token:
    value: str = field(repr=False)
    expires: datetime
    renew_at: float
    """By the monotonic clock, so a step of the wall clock neither extends nor ends its use."""


class TokenRequestSource:
    """A credential source: server and CA of another source, with a requested token."""

    def __init__(
        self,
        base: KubeconfigSource,
        account: tuple[str, str],
        client: ApiClient,
        *,
        clocks: Clocks,
    ) -> None:
        """`account` is namespace and name; `client` is allowed to request its tokens."""
        self._base = base
        self._account = account
        self._client = client
        self._clocks = clocks
        self._loaded: LoadedKubeconfig | None = None
        self._token: _Token | None = None

    def __str__(self) -> str:
        return f"a token of service account {':'.join(self._account)}"

    async def read(self, last: LoadedKubeconfig | None = None) -> LoadedKubeconfig:
        """Return the current server and CA, with a token that is not close to its expiry.

        Without `last` a new token is requested. Raises ValueError if none is issued; before the
        first token a placeholder is returned instead.
        """
        self._loaded = await self._base.read(self._loaded)
        token = self._token
        if last is None or token is None or self._clocks.monotonic() >= token.renew_at:
            token = await self._renew()
        result = _without_credential(self._loaded)
        result.configuration.api_key = {
            "BearerToken": f"Bearer {token.value if token else _NOT_ISSUED}"
        }
        return replace(result, expires=token.expires if token else None)

    async def _renew(self) -> _Token | None:
        try:
            self._token = await self._request()
        except (ApiException, *CALL_ERRORS) as error:
            reason = f"status {error.status}" if isinstance(error, ApiException) else repr(error)
            if self._token is not None:
                raise ValueError(f"no token was issued: {reason}") from error
            account = ":".join(self._account)
            log.warning("proxy token not issued", extra=fields(account=account, error=reason))
        return self._token

    async def _request(self) -> _Token:
        namespace, name = self._account
        requested_at, now = self._clocks.monotonic(), self._clocks.now()
        response = await call(
            self._client,
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": _LIFETIME_SECONDS},
            },
        )
        status = response["status"]
        value, expires = status["token"], datetime.fromisoformat(status["expirationTimestamp"])
        if not isinstance(value, str) or not value:
            raise ValueError("no token")
        # The API server may grant a shorter lifetime than requested. With a slow local clock it
        # looks longer, and the token would stay in use after its expiry.
        lifetime_seconds = min(max((expires - now).total_seconds(), 0.0), _LIFETIME_SECONDS)
        return _Token(value, expires, requested_at + _RENEWAL_FRACTION * lifetime_seconds)


def _without_credential(written: LoadedKubeconfig) -> LoadedKubeconfig:
    """Return the server and CA only.

    A remaining certificate would authenticate as the reviewer: the API server checks it first.
    """
    configuration = Configuration()
    for name in ("host", "ssl_ca_cert", "tls_server_name", "verify_ssl", "proxy"):
        setattr(configuration, name, getattr(written.configuration, name))
    return LoadedKubeconfig(configuration)
