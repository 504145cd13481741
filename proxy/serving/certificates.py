"""Serving certificate and key, with reload, and whether a client certificate is requested.

The files are checked periodically. New contents are loaded into a new context, which is used only
if all of it is valid. Client certificates are verified with each request, in `authentication`.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from OpenSSL import SSL

from proxy.concurrency.refresh_loop import Delay, RefreshLoop
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError
from proxy.telemetry.logs import fields
from proxy.wire.tls_server import build_server_context

if TYPE_CHECKING:  # The sidecar has no metrics, and does not load their library.
    from proxy.telemetry.metrics.serving import ServingMetrics

log = logging.getLogger(__name__)

_Key = (
    ec.EllipticCurvePrivateKey
    | ed448.Ed448PrivateKey
    | ed25519.Ed25519PrivateKey
    | rsa.RSAPrivateKey
)


class CertificateError(OperatorError):
    """A certificate or key file cannot be used."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Paths of certificate and key, and whether a client certificate is requested."""

    certificate: Path
    key: Path
    requests_client_certificate: bool


@dataclass(frozen=True, slots=True)
class LoadedCertificates:
    """A context, its files, and the digests of their contents."""

    files: CertificateFiles
    context: SSL.Context
    digests: tuple[bytes, ...]
    expires_at: float
    """Expiry of the serving certificate, in seconds since 1970."""


class ServingCertificates:
    """Keeps a listener's TLS context in step with the files."""

    def __init__(
        self,
        loaded: LoadedCertificates,
        *,
        use_context: Callable[[SSL.Context], None],
        counter: "ServingMetrics",
    ) -> None:
        """`use_context` uses a TLS context for new connections."""
        self._loaded = loaded
        self._use_context = use_context
        self._counter = counter
        # One reload at a time: an older result must not replace a newer one.
        self._reload_lock = asyncio.Lock()
        self._logged_problem: str | None = None
        counter.certificate_expires(loaded.expires_at)

    async def run(self, every_seconds: float, tasks: TaskSet) -> None:
        """Reload the files periodically."""
        await RefreshLoop(self.reload, delay=lambda: Delay(every_seconds), tasks=tasks).run()

    @property
    def loaded(self) -> LoadedCertificates:
        """The certificates in use."""
        return self._loaded

    async def reload(self) -> None:
        """Use the current contents of the files, if they are new and valid."""
        async with self._reload_lock:
            current = self._loaded
            try:
                loaded = await asyncio.to_thread(load_if_changed, current.files, current)
            except CertificateError as error:
                self._reject(str(error))
                return
            self._logged_problem = None
            if current is self._loaded:  # otherwise other files were configured meanwhile
                self.use(loaded)

    def use(self, loaded: LoadedCertificates) -> None:
        """Use the loaded certificates, and follow their files from now on."""
        is_new, self._loaded = loaded.context is not self._loaded.context, loaded
        if is_new:
            self._use_context(loaded.context)
            self._counter.certificates_reloaded(used=True)
            self._counter.certificate_expires(loaded.expires_at)
            log.info("certificates reloaded")

    def _reject(self, problem: str) -> None:
        self._counter.certificates_reloaded(used=False)
        if problem != self._logged_problem:  # once, not at every reload
            log.warning("certificates not reloaded", extra=fields(error=problem))
        self._logged_problem = problem


def load_certificates(files: CertificateFiles) -> LoadedCertificates:
    """Load certificate and key, or raise CertificateError."""
    contents = _read_files(files)
    own, *others = _parse_certificates(contents[0], files.certificate)
    context = _build_context(own, others, _parse_key(contents[1], files.key), files)
    expires_at = own.not_valid_after_utc.timestamp()
    return LoadedCertificates(files, context, _hash_contents(contents), expires_at)


def read_certificate(file: Path) -> None:
    """Raise CertificateError unless this file has usable certificates."""
    _parse_certificates(_read_file(file), file)


def read_key(file: Path) -> None:
    """Raise CertificateError unless this file has a usable key."""
    _parse_key(_read_file(file), file)


def build_context(certificate_pem: bytes, key_pem: bytes) -> SSL.Context:
    """Return a context with this certificate that requests none; or raise CertificateError.

    For a certificate that is not in a file.
    """
    files = CertificateFiles(Path("certificate"), Path("key"), requests_client_certificate=False)
    own, *others = _parse_certificates(certificate_pem, files.certificate)
    return _build_context(own, others, _parse_key(key_pem, files.key), files)


def _build_context(
    own: x509.Certificate, others: list[x509.Certificate], key: _Key, files: CertificateFiles
) -> SSL.Context:
    context = build_server_context(requests_client_certificate=files.requests_client_certificate)
    try:
        context.use_certificate(own)
        for certificate in others:
            context.add_extra_chain_cert(certificate)
        context.use_privatekey(key)
        context.check_privatekey()
    except SSL.Error as error:
        names = f"{files.certificate} and {files.key}"
        raise CertificateError(f"cannot use {names}: {_first_reason(error)}") from error
    return context


def _parse_certificates(content: bytes, file: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise CertificateError(f"cannot use {file}: not PEM certificates") from error


def _parse_key(content: bytes, file: Path) -> _Key:
    try:
        key = serialization.load_pem_private_key(content, None)
    except (TypeError, UnsupportedAlgorithm, ValueError) as error:
        # TypeError: the key is encrypted. Passwords are not supported.
        raise CertificateError(f"cannot use {file}: not an unencrypted PEM private key") from error
    if not isinstance(key, _Key):
        raise CertificateError(f"cannot use {file}: unsupported key type for TLS")
    return key


def load_if_changed(files: CertificateFiles, current: LoadedCertificates) -> LoadedCertificates:
    """Load the current contents; keep the context if they equal those in use."""
    requests_as_before = (
        files.requests_client_certificate == current.files.requests_client_certificate
    )
    if requests_as_before and _hash_contents(_read_files(files)) == current.digests:
        return replace(current, files=files)
    return load_certificates(files)


def _read_files(files: CertificateFiles) -> tuple[bytes, bytes]:
    return _read_file(files.certificate), _read_file(files.key)


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot read {file}: {error.strerror}") from error


def _hash_contents(contents: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(hashlib.sha256(content).digest() for content in contents)


def _first_reason(error: SSL.Error) -> str:
    """Return the first of OpenSSL's reasons, which is the most specific one."""
    reasons = error.args[0] if error.args else []
    return str(reasons[0][-1]) if reasons else "no reason given"
