"""The proxy's own user names, resolved by the API server; bounded calls of the proxy's own."""

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
from cryptography import x509
from cryptography.x509.oid import NameOID
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.core.errors import UpstreamUnavailable
from proxy.upstream.credentials.credentials import CredentialState

_AUTHENTICATION = "authentication.k8s.io/v1"
_SECONDS = 5.0
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
# The first version that reads Impersonate-Uid; earlier ones ignore it.
_FIRST_VERSION_WITH_UID = (1, 22)
# Statuses of a server that denies the proxy its version. Other errors are temporary.
_VERSION_DENIED = frozenset((HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND))
# The call failed, or its response is malformed.
CALL_ERRORS = (aiohttp.ClientError, OSError, AttributeError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class ProxyUser:
    """The user name and groups of one of the proxy's identities, as the API server reports them."""

    name: str
    groups: frozenset[str] = frozenset()


async def whoami(client: ApiClient, credential: CredentialState, reviewer: ApiClient) -> ProxyUser:
    """Return the user that the API server authenticates the proxy's credential as.

    Servers before 1.28 have no SelfSubjectReview. For these a token is reviewed with a
    TokenReview, and a certificate's subject is read as the API server reads it.
    """
    try:
        try:
            review = await self_subject_review(client)
            user = review["status"]["userInfo"]
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            user = await _user_of(credential, reviewer)
        name = user["username"]
        groups = frozenset(user.get("groups") or ())
    except (ApiException, *CALL_ERRORS) as error:
        raise UpstreamUnavailable("SelfSubjectReview returned no user name") from error
    if not isinstance(name, str) or not name:
        raise UpstreamUnavailable("SelfSubjectReview returned no user name")
    return ProxyUser(name, groups)


async def supports_impersonate_uid(client: ApiClient) -> bool:
    """Return whether the API server reads Impersonate-Uid; False if its version is denied."""
    try:
        version = await call(client, "GET", "/version")
        reported = tuple(_number(version[part]) for part in ("major", "minor"))
    except ApiException as error:
        if error.status in _VERSION_DENIED:
            return False
        raise UpstreamUnavailable("cannot read the API server's version") from error
    except (KeyError, TypeError, ValueError):
        return False
    except CALL_ERRORS as error:
        raise UpstreamUnavailable("cannot read the API server's version") from error
    return reported >= _FIRST_VERSION_WITH_UID


async def self_subject_review(client: ApiClient, host: str | None = None) -> Any:
    """Send a SelfSubjectReview to any endpoint, or to the one at `host`, with a timeout."""
    review = {"apiVersion": _AUTHENTICATION, "kind": "SelfSubjectReview"}
    path = f"/apis/{_AUTHENTICATION}/selfsubjectreviews"
    return await call(client, "POST", path, review, host=host)


async def call(
    client: ApiClient, method: str, path: str, body: object = None, *, host: str | None = None
) -> Any:
    """Make a call of the proxy's own, with a timeout, and return the JSON of the response.

    It carries the proxy's credential only: no impersonation, and none of a client's headers.
    """
    return await client.call_api(
        path,
        method,
        body=body,
        auth_settings=["BearerToken"],
        response_types_map={200: "object", 201: "object"},
        _return_http_data_only=True,
        _request_timeout=_SECONDS,
        _host=host,
    )


async def _user_of(credential: CredentialState, reviewer: ApiClient) -> Any:
    if credential.authorization is None:
        return _subject(credential.certificate or b"")
    token = credential.authorization.decode().partition(" ")[2]
    review = {"apiVersion": _AUTHENTICATION, "kind": "TokenReview", "spec": {"token": token}}
    status = (await call(reviewer, "POST", f"/apis/{_AUTHENTICATION}/tokenreviews", review))[
        "status"
    ]
    if status.get("authenticated") is not True:
        raise ValueError("the proxy's own token was rejected by TokenReview")
    return status["user"]


def _subject(certificate: bytes) -> dict[str, object]:
    """Return the user that a certificate names: its last CN, and each O as a group."""
    subject = x509.load_pem_x509_certificate(certificate).subject
    names = [str(name.value) for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return {
        "username": names[-1] if names else "",
        "groups": [str(group.value) for group in groups],
    }


def _number(text: str) -> int:
    """Return the leading number of a version part, such as 21 of a managed cluster's `21+`."""
    match = _NUMBER.match(text)
    if match is None:
        raise ValueError("not a version")
    return int(match[0])
