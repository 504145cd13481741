"""Who we are at the API server, by its own word."""

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import aiohttp
from cryptography import x509
from cryptography.x509.oid import NameOID
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.core.errors import UpstreamUnavailable

_AUTHENTICATION = "authentication.k8s.io/v1"
_SECONDS = 5.0
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
# The first version that reads Impersonate-Uid; the ones before ignore it.
_TAKES_UIDS = (1, 22)
# So a server answers that tells its version to nobody like us; others are to be asked again.
_SECRET = frozenset((HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND))
# No answer came, or one that does not look like one.
CALL_ERRORS = (aiohttp.ClientError, OSError, AttributeError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class ProxyUser:
    """One of us, as the API server knows it."""

    name: str
    groups: frozenset[str] = frozenset()


class ShownCredential(Protocol):
    """What we show to the API server."""

    @property
    def authorization(self) -> bytes | None:
        """Return the value of our Authorization header, if there is one."""
        ...

    @property
    def certificate(self) -> bytes | None:
        """Return our certificate as PEM, if one speaks for us."""
        ...


async def whoami(client: ApiClient, credential: ShownCredential, reviewer: ApiClient) -> ProxyUser:
    """Return who the API server knows us as.

    Servers before 1.28 have no question for it. There our token is reviewed like a client's, and
    a certificate is read as they read it.
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
        raise UpstreamUnavailable("the API server does not tell who we are") from error
    if not isinstance(name, str) or not name:
        raise UpstreamUnavailable("the API server does not tell who we are")
    return ProxyUser(name, groups)


async def supports_impersonate_uid(client: ApiClient) -> bool:
    """Tell whether the API server reads Impersonate-Uid; if it keeps its version secret, no."""
    try:
        version = await call(client, "GET", "/version")
        told = tuple(_number(version[part]) for part in ("major", "minor"))
    except ApiException as error:
        if error.status in _SECRET:
            return False
        raise UpstreamUnavailable("the API server does not tell its version") from error
    except (KeyError, TypeError, ValueError):
        return False
    except CALL_ERRORS as error:
        raise UpstreamUnavailable("the API server does not tell its version") from error
    return told >= _TAKES_UIDS


async def self_subject_review(client: ApiClient, host: str | None = None) -> Any:
    """Ask any endpoint, or the one that starts with this URL, who we are; in bounded time."""
    review = {"apiVersion": _AUTHENTICATION, "kind": "SelfSubjectReview"}
    path = f"/apis/{_AUTHENTICATION}/selfsubjectreviews"
    return await call(client, "POST", path, review, host=host)


async def call(
    client: ApiClient, method: str, path: str, body: object = None, *, host: str | None = None
) -> Any:
    """Make a call of our own, in bounded time, and return the JSON of its answer.

    Our credential goes alone: no identity is asked for, and none of a client's headers.
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


async def _user_of(credential: ShownCredential, reviewer: ApiClient) -> Any:
    if credential.authorization is None:
        return _subject(credential.certificate or b"")
    token = credential.authorization.decode().partition(" ")[2]
    review = {"apiVersion": _AUTHENTICATION, "kind": "TokenReview", "spec": {"token": token}}
    status = (await call(reviewer, "POST", f"/apis/{_AUTHENTICATION}/tokenreviews", review))[
        "status"
    ]
    if status.get("authenticated") is not True:
        raise ValueError("our own token is not accepted")
    return status["user"]


def _subject(certificate: bytes) -> dict[str, object]:
    """Return the user that a certificate names: its last CN, and each O as a group."""
    subject = x509.load_pem_x509_certificate(certificate).subject
    names = [str(one.value) for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return {"username": names[-1] if names else "", "groups": [str(one.value) for one in groups]}


def _number(text: str) -> int:
    """Return the number that a part of a version starts with: managed clusters say `21+`."""
    match = _NUMBER.match(text)
    if match is None:
        raise ValueError("not a version")
    return int(match[0])
