"""The TLS settings clients meet: our certificate, and the CA their certificates must come from.

Their files are looked at again and again. New contents are loaded into a new context, which is
used if everything in it is good, and not at all otherwise.
"""

import asyncio
import hashlib
import logging
import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from cryptography import x509

from proxy.core.errors import SetupError
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

_PEM_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class CertificateError(SetupError):
    """A certificate, key or CA file cannot be used."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where certificate, key and, if client certificates count, their CA are."""

    certificate: Path
    key: Path
    client_ca: Path | None


@dataclass(frozen=True, slots=True)
class LoadedCertificates:
    """A context, the files it came from, and what they held."""

    files: CertificateFiles
    context: ssl.SSLContext
    digests: tuple[bytes, ...]
    trusted: frozenset[bytes]
    """Each certificate of the client CA's bundle."""
    expires_at: float
    """When our certificate ends, in seconds since 1970; 0 if only OpenSSL can read it."""


class Listening(Protocol):
    """Where clients are met."""

    def use(self, context: ssl.SSLContext, *, keeps_trust: bool) -> None:
        """Meet new clients by this context; without trust, part with those of the old one."""
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

    async def keep_fresh(self, every_seconds: float) -> None:
        """Look at the files again and again."""
        while True:
            await asyncio.sleep(every_seconds)
            await self.look()

    async def look(self, files: CertificateFiles | None = None) -> None:
        """Use what the files hold now, or what other files hold, if it is new and all good."""
        async with self._turn:
            if files is None:
                files = self._loaded.files
            else:
                self._told = None  # whoever asks is told, though it may be known
            try:
                loaded = await asyncio.to_thread(_load_new, files, self._loaded)
            except CertificateError as error:
                self._refuse(str(error))
                return
            self._told = None
            if loaded is None:
                self._loaded = replace(self._loaded, files=files)
            else:
                self._use(loaded)

    def _use(self, loaded: LoadedCertificates) -> None:
        # Whoever was accepted by a certificate that is still in the bundle is still accepted, so
        # a bundle that only grew disturbs nobody. Otherwise every connection with a client
        # certificate is in doubt: which of the bundle's certificates vouched for it is not known
        # (OpenSSL tells the chain only from Python 3.13 on, and verifying again by other means
        # than OpenSSL's would be a second opinion on who is trusted). A handshake settles it.
        keeps_trust = self._loaded.trusted <= loaded.trusted
        self._loaded = loaded
        self._listening.use(loaded.context, keeps_trust=keeps_trust)
        self._counter.certificates_read(used=True)
        self._counter.certificate_expires(loaded.expires_at)
        log.info("certificates reloaded", extra=fields(keeps_trust=keeps_trust))

    def _refuse(self, problem: str) -> None:
        self._counter.certificates_read(used=False)
        if problem != self._told:  # once, not at every look
            log.warning("certificates not reloaded", extra=fields(error=problem))
        self._told = problem


def load_certificates(files: CertificateFiles) -> LoadedCertificates:
    """Read the files, all of them good, or raise CertificateError."""
    contents = _read(files)
    context = serving_context(
        certificate_file=files.certificate, key_file=files.key, client_ca_file=files.client_ca
    )
    # OpenSSL read the files for itself. What is remembered must be what it has seen.
    if _read(files) != contents:
        raise CertificateError(f"{files.certificate} or its key or CA changes while it is read")
    certificate, _, client_ca = contents
    return LoadedCertificates(
        files, context, _digests(contents), _blocks(client_ca), _expiry(certificate)
    )


def serving_context(
    *, certificate_file: Path, key_file: Path, client_ca_file: Path | None
) -> ssl.SSLContext:
    """Return the context of the listening side.

    A client may show a certificate; with a client CA only one that verifies gets through the
    handshake, without one none is asked for.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # No resumption: a resumed session would skip the check against the client CA.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    # An encrypted key would make OpenSSL ask at the terminal; no password makes it fail instead.
    _load(partial(context.load_cert_chain, password=""), certificate_file, key_file)
    if client_ca_file is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        _load(context.load_verify_locations, client_ca_file)
    return context


def _load_new(files: CertificateFiles, current: LoadedCertificates) -> LoadedCertificates | None:
    """Load what the files hold, or return None when that is what is in use."""
    if _digests(_read(files)) == current.digests:
        return None
    return load_certificates(files)


def _read(files: CertificateFiles) -> tuple[bytes, ...]:
    return tuple(
        b"" if file is None else _read_file(file)
        for file in (files.certificate, files.key, files.client_ca)
    )


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot read {file}: {error.strerror}") from error


def _digests(contents: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(hashlib.sha256(content).digest() for content in contents)


def _blocks(bundle: bytes) -> frozenset[bytes]:
    """Return each PEM block of a bundle, whatever its line breaks; all kinds, so none is missed."""
    return frozenset(
        kind + b":" + b"".join(block.split()) for kind, block in _PEM_BLOCK.findall(bundle)
    )


def _expiry(chain: bytes) -> float:
    try:
        return x509.load_pem_x509_certificate(chain).not_valid_after_utc.timestamp()
    except ValueError:
        return 0.0  # What OpenSSL serves by is not refused for the sake of a gauge.


def _load(load: Callable[..., None], *files: Path) -> None:
    names = " and ".join(str(file) for file in files)
    try:
        load(*files)
    except ssl.SSLError as error:
        raise CertificateError(f"cannot use {names}: {error.reason or error}") from error
    except OSError as error:
        # OpenSSL does not say which file it could not open.
        unreadable = [str(file) for file in files if not os.access(file, os.R_OK)]
        name = " and ".join(unreadable) or names
        raise CertificateError(f"cannot read {name}: {error.strerror}") from error
