"""Sources of the CAs of clients and front proxies: files, or a ConfigMap of the cluster.

kube-apiserver publishes its own authentication flags in this ConfigMap, for extension API servers.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.authentication.ca_bundle import ClientCAError, PEMBundle
from proxy.core.http.front_proxy import FrontProxyHeaderNames

CONFIG_MAP = "ConfigMap kube-system/extension-apiserver-authentication"
_PATH = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_READ_SECONDS = 3.0
_READ_ERRORS = (
    ApiException,
    aiohttp.ClientError,
    AttributeError,
    KeyError,
    OSError,
    TimeoutError,
    TypeError,
    ValueError,
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class FrontProxyTrustConfig:
    """The front proxy configuration of a source."""

    ca: PEMBundle
    allowed_names: tuple[str, ...]
    headers: FrontProxyHeaderNames


@dataclass(frozen=True, slots=True)
class ClientTrustConfig:
    """The configuration of a source; equal if nothing has changed."""

    client_ca: PEMBundle | None = None
    front_proxy: FrontProxyTrustConfig | None = None


@dataclass(frozen=True, slots=True)
class FrontProxyFile:
    """Front proxies configured by a CA file of the proxy."""

    ca_file: Path
    allowed_names: tuple[str, ...]
    headers: FrontProxyHeaderNames


@dataclass(frozen=True, slots=True)
class TrustSourceConfig:
    """The source of each CA: a file, the cluster, or none; for clients and front proxies."""

    client_ca_file: Path | None = None
    clients_from_cluster: bool = False
    front_proxy: FrontProxyFile | None = None
    front_proxy_from_cluster: bool = False

    @property
    def reads_cluster(self) -> bool:
        """Return whether the ConfigMap is needed."""
        return self.clients_from_cluster or self.front_proxy_from_cluster

    @property
    def trusts_certificates(self) -> bool:
        """Return whether any source of CAs is configured."""
        return self.reads_cluster or self.client_ca_file is not None or self.front_proxy is not None


class TrustLoader:
    """Reads the configured sources."""

    def __init__(self, where: TrustSourceConfig, client: ApiClient) -> None:
        self._config = where
        self._client = client

    @property
    def is_retryable(self) -> bool:
        """Return whether a failed first read is retried instead of being fatal."""
        return self._config.reads_cluster

    async def read(self) -> ClientTrustConfig:
        """Return the current configuration of files and cluster, or raise ClientCAError."""
        files = await asyncio.to_thread(_read_files, self._config)
        if not self._config.reads_cluster:
            return files
        try:
            published = await self._client.call_api(
                _PATH,
                "GET",
                auth_settings=["BearerToken"],
                response_types_map={200: "object"},
                _return_http_data_only=True,
                _request_timeout=_READ_SECONDS,
            )
            return _with_published(files, self._config, published["data"])
        except _READ_ERRORS as error:
            raise ClientCAError(f"cannot use {CONFIG_MAP}: {_reason(error)}") from error


def _read_files(where: TrustSourceConfig) -> ClientTrustConfig:
    clients = None if where.client_ca_file is None else _read_file(where.client_ca_file)
    file = where.front_proxy
    if file is None:
        return ClientTrustConfig(clients)
    front_proxy = FrontProxyTrustConfig(_read_file(file.ca_file), file.allowed_names, file.headers)
    return ClientTrustConfig(clients, front_proxy)


def _read_file(file: Path) -> PEMBundle:
    try:
        return PEMBundle(file.read_bytes(), str(file))
    except OSError as error:
        raise ClientCAError(f"cannot read {file}: {error.strerror}") from error


def _with_published(
    files: ClientTrustConfig, where: TrustSourceConfig, data: dict[str, str]
) -> ClientTrustConfig:
    """Return the configuration of the files, completed by the ConfigMap.

    Raises ValueError if the ConfigMap is incomplete.
    """
    clients, front_proxy = files.client_ca, files.front_proxy
    if where.clients_from_cluster:
        clients = _pem(data, "client-ca-file")
    if where.front_proxy_from_cluster:
        front_proxy = _published_front_proxy(data)
    return ClientTrustConfig(clients, front_proxy)


def _published_front_proxy(data: dict[str, str]) -> FrontProxyTrustConfig | None:
    ca = _pem(data, "requestheader-client-ca-file")
    if ca is None:
        return None  # kube-apiserver trusts no front proxies, so neither does the proxy.
    users = _names(data, "requestheader-username-headers")
    if not users:
        raise ValueError("requestheader-username-headers names no header")
    headers = FrontProxyHeaderNames(
        users,
        _names(data, "requestheader-uid-headers"),
        _names(data, "requestheader-group-headers"),
        _names(data, "requestheader-extra-headers-prefix"),
    )
    return FrontProxyTrustConfig(ca, tuple(_strings(data, "requestheader-allowed-names")), headers)


def _pem(data: dict[str, str], key: str) -> PEMBundle | None:
    return PEMBundle(data[key].encode(), f"{key} of {CONFIG_MAP}") if data.get(key) else None


def _names(data: dict[str, str], key: str) -> tuple[bytes, ...]:
    names = _strings(data, key)
    if not all(_HEADER_NAME.fullmatch(name.strip()) for name in names):
        raise ValueError(f"{key} contains an invalid header name")
    return header_names(names)


def _strings(data: dict[str, str], key: str) -> list[str]:
    """Return a list of strings, or raise: a partial list of allowed names must not be used."""
    try:
        texts = json.loads(data[key]) if data.get(key) else []
    except RecursionError as error:
        raise ValueError(f"{key} is nested too deeply") from error
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{key} is not a list of strings")
    return texts


def _reason(error: Exception) -> str:
    """Return what failed, without the body of a response."""
    return f"{error.status} {error.reason}" if isinstance(error, ApiException) else str(error)


def header_names(names: Sequence[str]) -> tuple[bytes, ...]:
    """Return header names in the form in which they are compared."""
    return tuple(name.strip().lower().encode("ascii") for name in names)
