"""A client certificate becomes an identity: CN is the name, each O a group.

It is verified before anybody believes what is read here; this file only reads it, as the API
server reads it.
"""

import hashlib
import warnings

from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from proxy.core.errors import Unauthorized
from proxy.core.header_safety import check_caller
from proxy.core.identity import Caller, Identity, authenticated_groups, extra_of

_UID_ATTRIBUTE = ObjectIdentifier("1.3.6.1.4.1.57683.2")
_CREDENTIAL_ID_KEY = "authentication.kubernetes.io/credential-id"


def read_caller(certificate: bytes) -> Caller | None:
    """Return whom a certificate (DER) stands for, None if nobody; Unauthorized if it is flawed.

    A name that would change on its way upstream is Forbidden.
    """
    name = read_common_name(certificate)
    if not name:
        return None
    uids = _values(certificate, _UID_ATTRIBUTE)
    # A uid is there once and not empty, or the certificate is no credential.
    if len(uids) > 1 or "" in uids:
        raise Unauthorized
    fingerprint = hashlib.sha256(certificate).hexdigest()
    groups = _values(certificate, NameOID.ORGANIZATION_NAME)
    identity = Identity(
        name=name,
        uid=uids[0] if uids else "",
        groups=authenticated_groups(name, groups),
        extra=extra_of({_CREDENTIAL_ID_KEY: (f"X509SHA256={fingerprint}",)}),
    )
    check_caller(identity)
    return Caller(identity)


def read_common_name(certificate: bytes) -> str:
    """Return the common name, of several the last one, as in Go; empty if there is none."""
    names = _values(certificate, NameOID.COMMON_NAME)
    return names[-1] if names else ""


def _values(certificate: bytes, attribute: ObjectIdentifier) -> list[str]:
    try:
        values = [one.value for one in _subject(certificate).get_attributes_for_oid(attribute)]
    except (TypeError, ValueError, x509.InvalidVersion) as error:
        # What the parser does not like, Go's does not like either: a BIT STRING for a name, ...
        raise Unauthorized from error
    if not all(isinstance(value, str) for value in values):
        raise Unauthorized
    return [str(value) for value in values]


def _subject(certificate: bytes) -> x509.Name:
    with warnings.catch_warnings():
        # X.520 wants names of at most 64 characters; the API server takes any, and so do we.
        warnings.simplefilter("ignore", UserWarning)
        return x509.load_der_x509_certificate(certificate).subject
