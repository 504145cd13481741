"""The certificate of the admin port, reloaded periodically.

New contents are loaded into a new context, and every new handshake uses the newest context. Invalid
contents change nothing, and no handshake sees a certificate without its key.
"""

import asyncio
import hashlib
import logging
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from proxy.concurrency.refresh_loop import Delay, RefreshLoop
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics.serving import ServingMetrics

log = logging.getLogger(__name__)


class AdminCertificateError(OperatorError):
    """The certificate or key of the admin port cannot be used."""


class AdminTLSFiles(NamedTuple):
    """The paths of certificate and key."""

    certificate: Path
    key: Path


class AdminCertificate:
    """Keeps a TLS context with the current contents of the files."""

    def __init__(self, files: AdminTLSFiles, counter: ServingMetrics) -> None:
        self._files = files
        self._counter = counter
        self._loaded: _Loaded | None = None
        # One reload at a time: an older one must not overwrite a newer one.
        self._reloading = asyncio.Lock()
        self._logged_problem: str | None = None
        self.context = _new_context()
        self.context.sni_callback = self._use_newest

    @staticmethod
    def check(files: AdminTLSFiles) -> None:
        """Raise AdminCertificateError unless these files can be used. Blocks on file I/O."""
        _load(files, None)

    async def load(self) -> None:
        """Load the files for the first time; raise AdminCertificateError if they are unusable."""
        loaded = await asyncio.to_thread(_load, self._files, None)
        if loaded is not None:
            self._use(loaded)

    async def run(self, every_seconds: float, tasks: TaskSet) -> None:
        """Reload the files periodically."""
        await RefreshLoop(self.reload, delay=lambda: Delay(every_seconds), tasks=tasks).run()

    async def reload(self, files: AdminTLSFiles | None = None) -> None:
        """Use the current contents of these or other files, if they are new and valid."""
        async with self._reloading:
            files = files or self._files
            try:
                loaded = await asyncio.to_thread(_load, files, self._loaded)
            except AdminCertificateError as error:
                self._reject(str(error))
                return
            self._files, self._logged_problem = files, None
            if loaded is not None:
                self._use(loaded)
                self._counter.admin_certificate_read(used=True)
                log.info("admin certificate reloaded")

    def _use(self, loaded: "_Loaded") -> None:
        self._loaded = loaded
        self._counter.admin_certificate_expires(loaded.expires_at)

    def _reject(self, problem: str) -> None:
        self._counter.admin_certificate_read(used=False)
        if problem != self._logged_problem:  # log once, not at every check
            log.warning("admin certificate not reloaded", extra=fields(error=problem))
        self._logged_problem = problem

    def _use_newest(
        self, session: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        """Use the newest certificate for every ClientHello, with or without a server name."""
        if self._loaded is not None:
            session.context = self._loaded.context


class _Loaded(NamedTuple):
    digest: bytes
    context: ssl.SSLContext
    expires_at: float


def _load(files: AdminTLSFiles, known: _Loaded | None) -> _Loaded | None:
    """Load both files; return None if they have not changed."""
    names = f"{files.certificate} and {files.key}"
    try:
        certificate = files.certificate.read_bytes()
        digest = hashlib.sha256(certificate + b"\0" + files.key.read_bytes()).digest()
        if known is not None and digest == known.digest:
            return None
        expires_at = x509.load_pem_x509_certificates(certificate)[0].not_valid_after_utc
        context = _new_context()
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except ssl.SSLError as error:
        raise AdminCertificateError(f"cannot use {names}: {error.reason}") from error
    except OSError as error:
        raise AdminCertificateError(f"cannot read {names}: {error.strerror}") from error
    except ValueError as error:
        raise AdminCertificateError(f"cannot use {names}: not certificates in PEM") from error
    return _Loaded(digest, context, expires_at.timestamp())


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _no_password() -> str:
    """Return an empty password instead of a prompt: an encrypted key cannot be used."""
    return ""
