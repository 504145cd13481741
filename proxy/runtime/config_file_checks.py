"""Checks of the files that a config names. All problems are reported together, by setting.

The checks change nothing: they create no file and run no credential plugin.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from proxy.admin.server import admin_files
from proxy.admin.tls import AdminCertificate
from proxy.audit.backends.log_file import STANDARD_OUTPUT
from proxy.audit.backends.webhook_config import WebhookConfigLoader
from proxy.authentication.ca_bundle import ClientCAError, PEMBundle
from proxy.authentication.client_trust import build_trust
from proxy.authentication.client_trust_sources import ClientTrustConfig, FrontProxyTrustConfig
from proxy.core.errors import OperatorError
from proxy.core.http.front_proxy import FrontProxyHeaderNames
from proxy.kubeclient.kubeconfig import KubeconfigSource, uses_exec_plugin
from proxy.serving.certificates import (
    CertificateFiles,
    load_certificates,
    read_certificate,
    read_key,
)
from proxy.settings.audit_policy import load_audit_policy
from proxy.settings.model import Settings
from proxy.upstream.credentials.credentials import load_credentials

_NO_HEADERS = FrontProxyHeaderNames((), (), (), ())


class InvalidConfigFiles(OperatorError):
    """Files that a config names cannot be used; `problems` has one line for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems

    @property
    def lines(self) -> list[str]:
        """One line per problem, with the setting that names the file."""
        return self.problems


def find_file_problems(settings: Settings) -> list[str]:
    """Return one line for each file that cannot be used. Blocks on file I/O."""
    return [
        *_serving_problems(settings),
        *_authentication_problems(settings),
        *_upstream_problems(settings),
        *_audit_problems(settings),
        *_admin_problems(settings),
    ]


def _serving_problems(settings: Settings) -> Iterator[str]:
    serving = settings.serving
    alone = [
        *_problems("serving.certificateFile", lambda: read_certificate(serving.certificate_file)),
        *_problems("serving.keyFile", lambda: read_key(serving.key_file)),
    ]
    if alone:
        yield from alone
        return
    files = CertificateFiles(
        serving.certificate_file, serving.key_file, requests_client_certificate=False
    )
    yield from _problems("serving", lambda: load_certificates(files))


def _authentication_problems(settings: Settings) -> Iterator[str]:
    """Check each CA alone and then both: two valid CAs may not be valid together."""
    clients = settings.authentication.client_certificate.ca_file
    front_proxy = settings.authentication.front_proxy
    alone: list[str] = []
    for path, file in (
        ("authentication.clientCertificate.caFile", clients),
        ("authentication.frontProxy.caFile", front_proxy.ca_file),
    ):
        if file is not None:
            alone += _problems(path, partial(_check_ca, file))
    yield from alone
    if not alone and clients is not None and front_proxy.ca_file is not None:
        both = ClientTrustConfig(
            _ca(clients),
            FrontProxyTrustConfig(_ca(front_proxy.ca_file), front_proxy.allowed_names, _NO_HEADERS),
        )
        yield from _problems("authentication.frontProxy", lambda: build_trust(both))


def _admin_problems(settings: Settings) -> Iterator[str]:
    files = admin_files(settings.admin)
    if files is not None:
        yield from _problems("admin.certificateFile", lambda: AdminCertificate.check(files))


def _check_ca(file: Path) -> None:
    build_trust(ClientTrustConfig(_ca(file)))


def _ca(file: Path) -> PEMBundle:
    try:
        return PEMBundle(file.read_bytes(), str(file))
    except OSError as error:
        raise ClientCAError(f"cannot read {file}: {error.strerror}") from error


def _upstream_problems(settings: Settings) -> Iterator[str]:
    upstream = settings.upstream
    for path, file in (
        ("upstream.kubeconfig", upstream.kubeconfig),
        ("upstream.reviewer.kubeconfig", upstream.reviewer.kubeconfig),
    ):
        if file is not None:
            yield from _problems(path, _credential_check(file, upstream.endpoints))


def _credential_check(file: Path, endpoints: tuple[tuple[str, int], ...]) -> Callable[[], object]:
    def check() -> None:
        source = KubeconfigSource(file, _now)
        if _can_be_read(source, file):
            asyncio.run(load_credentials(source, endpoints))

    return check


def _can_be_read(source: KubeconfigSource, file: Path) -> bool:
    """Return whether a credential can be read without running a program."""
    try:
        return not uses_exec_plugin(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OperatorError(f"cannot use {source}: {reason}") from error


def _audit_problems(settings: Settings) -> Iterator[str]:
    audit = settings.audit
    if audit.log.path is not None and audit.log.path != STANDARD_OUTPUT:
        yield from _log_path_problems(audit.log.path)
    receiver = audit.webhook.kubeconfig
    if receiver is not None:
        yield from _problems("audit.webhook.kubeconfig", _receiver_check(receiver))
    if audit.policy_file is not None:
        yield from _problems("audit.policyFile", lambda: load_audit_policy(audit.policy_file))


def _receiver_check(file: Path) -> Callable[[], object]:
    def check() -> None:
        source = KubeconfigSource(file, _now)
        if _can_be_read(source, file):
            asyncio.run(WebhookConfigLoader(source).read())

    return check


def _log_path_problems(path: Path) -> Iterator[str]:
    if path.is_dir():
        yield f"audit.log.path: cannot write {path}: Is a directory"
    elif path.exists():
        if not os.access(path, os.W_OK):
            yield f"audit.log.path: cannot write {path}: Permission denied"
    elif not path.parent.is_dir():
        yield f"audit.log.path: cannot write {path}: No such file or directory"
    elif not os.access(path.parent, os.W_OK):
        yield f"audit.log.path: cannot write {path}: Permission denied"


def _problems(path: str, check: Callable[[], object]) -> list[str]:
    try:
        check()
    except OperatorError as error:
        return [f"{path}: {line}" for line in error.lines]
    return []


def _now() -> datetime:
    return datetime.now(UTC)
