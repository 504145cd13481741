"""The TLS settings clients meet: our certificate, and the CA their certificates must come from."""

import os
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

from proxy.core.errors import SetupError


class CertificateError(SetupError):
    """A certificate, key or CA file cannot be used."""


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
