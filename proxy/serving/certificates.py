"""The TLS settings clients meet: our certificate, and whether theirs is asked for.

The files are looked at again and again. New contents are loaded into a new context, which is used
if everything in it is good, and not at all otherwise. Whom a client's certificate stands for is
decided with each request, elsewhere.
"""

import asyncio
import hashlib
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from OpenSSL import SSL

from proxy.core.errors import OperatorError
from proxy.telemetry.logs import fields
from proxy.wire.tls_server import server_context

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
    """Where certificate and key are, and whether clients are asked for theirs."""

    certificate: Path
    key: Path
    requests_client_certificate: bool


@dataclass(frozen=True, slots=True)
class LoadedCertificates:
    """A context, the files it came from, and what they held."""

    files: CertificateFiles
    context: SSL.Context
    digests: tuple[bytes, ...]
    expires_at: float
    """When our certificate ends, in seconds since 1970."""


class Listening(Protocol):
    """Where clients are met."""

    def set_tls_context(self, context: SSL.Context) -> None:
        """Meet new clients by this context."""
        ...


class ReloadCounter(Protocol):
    """Learns what is in use, and what became of new contents."""

    def certificate_expires(self, at: float) -> None:
        """Tell when the certificate in use ends, in seconds since 1970."""
        ...

    def certificates_read(self, *, used: bool) -> None:
        """Count new contents, used or refused."""
        ...


class ServingCertificates:
    """Keeps a listener's context the one that the files describe."""

    def __init__(
        self, loaded: LoadedCertificates, *, listening: Listening, counter: ReloadCounter
    ) -> None:
        self._loaded = loaded
        self._listening = listening
        self._counter = counter
        # One look at a time: an older one must not overtake a newer one.
        self._turn = asyncio.Lock()
        self._told: str | None = None
        counter.certificate_expires(loaded.expires_at)

    async def run(self, every_seconds: float) -> None:
        """Look at the files again and again."""
        while True:
            await asyncio.sleep(every_seconds)
            await self.reload()

    @property
    def loaded(self) -> LoadedCertificates:
        """What is in use."""
        return self._loaded

    async def reload(self) -> None:
        """Use what the files hold now, if it is new and all good."""
        async with self._turn:
            current = self._loaded
            try:
                loaded = await asyncio.to_thread(load_again, current.files, current)
            except CertificateError as error:
                self._refuse(str(error))
                return
            self._told = None
            if current is self._loaded:  # or else other files were chosen meanwhile
                self.use(loaded)

    def use(self, loaded: LoadedCertificates) -> None:
        """Use what was loaded, and follow its files from now on."""
        is_new, self._loaded = loaded.context is not self._loaded.context, loaded
        if is_new:
            self._listening.set_tls_context(loaded.context)
            self._counter.certificates_read(used=True)
            self._counter.certificate_expires(loaded.expires_at)
            log.info("certificates reloaded")

    def _refuse(self, problem: str) -> None:
        self._counter.certificates_read(used=False)
        if problem != self._told:  # once, not at every look
            log.warning("certificates not reloaded", extra=fields(error=problem))
        self._told = problem


def load_certificates(files: CertificateFiles) -> LoadedCertificates:
    """Read the files, both of them good, or raise CertificateError."""
    contents = _read(files)
    own, *others = _certificates(contents[0], files.certificate)
    context = _context(own, others, _key(contents[1], files.key), files)
    expires_at = own.not_valid_after_utc.timestamp()
    return LoadedCertificates(files, context, _digests(contents), expires_at)


def read_certificate(file: Path) -> None:
    """Raise CertificateError unless this file alone could be used."""
    _certificates(_read_file(file), file)


def read_key(file: Path) -> None:
    """Raise CertificateError unless this file alone could be used."""
    _key(_read_file(file), file)


def context_of(certificate_pem: bytes, key_pem: bytes) -> SSL.Context:
    """Return a context that shows this certificate and asks for none; or raise CertificateError.

    For one that is in no file.
    """
    files = CertificateFiles(Path("certificate"), Path("key"), requests_client_certificate=False)
    own, *others = _certificates(certificate_pem, files.certificate)
    return _context(own, others, _key(key_pem, files.key), files)


def _context(
    own: x509.Certificate, others: list[x509.Certificate], key: _Key, files: CertificateFiles
) -> SSL.Context:
    context = server_context(asks_for_certificate=files.requests_client_certificate)
    try:
        context.use_certificate(own)
        for one in others:
            context.add_extra_chain_cert(one)
        context.use_privatekey(key)
        context.check_privatekey()
    except SSL.Error as error:
        names = f"{files.certificate} and {files.key}"
        raise CertificateError(f"cannot use {names}: {_reason(error)}") from error
    return context


def _certificates(content: bytes, file: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise CertificateError(f"cannot use {file}: not certificates in PEM") from error


def _key(content: bytes, file: Path) -> _Key:
    try:
        key = serialization.load_pem_private_key(content, None)
    except (TypeError, UnsupportedAlgorithm, ValueError) as error:
        # A TypeError: the key is encrypted. Nobody is asked for a password.
        raise CertificateError(f"cannot use {file}: not a plain private key in PEM") from error
    if not isinstance(key, _Key):
        raise CertificateError(f"cannot use {file}: a key of this kind serves no TLS")
    return key


def load_again(files: CertificateFiles, current: LoadedCertificates) -> LoadedCertificates:
    """Load what the files hold now; the context stays the same one if that is what is in use."""
    asks_as_before = files.requests_client_certificate == current.files.requests_client_certificate
    if asks_as_before and _digests(_read(files)) == current.digests:
        return replace(current, files=files)
    return load_certificates(files)


def _read(files: CertificateFiles) -> tuple[bytes, bytes]:
    return _read_file(files.certificate), _read_file(files.key)


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot read {file}: {error.strerror}") from error


def _digests(contents: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(hashlib.sha256(content).digest() for content in contents)


def _reason(error: SSL.Error) -> str:
    """Return the first of OpenSSL's reasons, which is the one that says most."""
    reasons = error.args[0] if error.args else []
    return str(reasons[0][-1]) if reasons else "no reason given"
