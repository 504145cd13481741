"""A client certificate becomes an identity: CN is the name, each O a group.

TLS has verified the certificate before it gets here; this file only reads it, as the API server
reads it.
"""

import hashlib
import warnings
from collections.abc import Callable
from datetime import datetime

from cachetools import LRUCache
from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from proxy.core.errors import Unauthorized
from proxy.core.identity import Caller, Identity, extra_of, with_authenticated

_UID_ATTRIBUTE = ObjectIdentifier("1.3.6.1.4.1.57683.2")
_CREDENTIAL_ID_KEY = "authentication.kubernetes.io/credential-id"
_REMEMBERED_CERTIFICATES = 4096


class CertificateAuthenticator:
    """Reads certificates, each once while it is in use."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._callers: LRUCache[bytes, tuple[Caller, datetime]] = LRUCache(_REMEMBERED_CERTIFICATES)

    def authenticate(self, certificate: bytes) -> Caller:
        """Return who a verified certificate (DER) stands for; Unauthorized if nobody.

        It was valid in the handshake, but a connection may outlive it: as at the API server, a
        request that comes after its end has no credential.
        """
        known = self._callers.get(certificate)
        if known is None:
            known = self._callers[certificate] = _read(certificate)
        caller, last_moment = known
        if self._clock() > last_moment:
            raise Unauthorized
        return caller


def _read(certificate: bytes) -> tuple[Caller, datetime]:
    """Return the caller, and until when the certificate is valid."""
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        names, groups, uids = _subject(parsed)
        last_moment = parsed.not_valid_after_utc
    except (TypeError, ValueError, x509.InvalidVersion) as error:
        # What the parser does not like, Go's does not like either: a BIT STRING for a name, ...
        raise Unauthorized from error
    # Of several common names the last one counts, as in Go. A uid is there once and not empty,
    # or the certificate is no credential.
    if not names or not names[-1] or len(uids) > 1 or "" in uids:
        raise Unauthorized
    fingerprint = hashlib.sha256(certificate).hexdigest()
    identity = Identity(
        name=names[-1],
        uid=uids[0] if uids else "",
        groups=with_authenticated(groups),
        extra=extra_of({_CREDENTIAL_ID_KEY: (f"X509SHA256={fingerprint}",)}),
    )
    return Caller(identity), last_moment


def _subject(certificate: x509.Certificate) -> tuple[list[str], list[str], list[str]]:
    with warnings.catch_warnings():
        # X.520 wants names of at most 64 characters; the API server takes any, and so do we.
        warnings.simplefilter("ignore", UserWarning)
        subject = certificate.subject
    return (
        _values(subject, NameOID.COMMON_NAME),
        _values(subject, NameOID.ORGANIZATION_NAME),
        _values(subject, _UID_ATTRIBUTE),
    )


def _values(subject: x509.Name, attribute: ObjectIdentifier) -> list[str]:
    values = [one.value for one in subject.get_attributes_for_oid(attribute)]
    if not all(isinstance(value, str) for value in values):
        raise ValueError("a name that is not a text")
    return [str(value) for value in values]
