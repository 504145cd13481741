"""A client certificate becomes an identity: CN is the name, each O a group.

It is verified before anybody believes what is read here; this file only reads it, as the API
server reads it.
"""

import hashlib

from proxy.authentication.x509.certificate import Certificate
from proxy.authentication.x509.names import COMMON_NAME, ORGANIZATION
from proxy.core.errors import Unauthorized
from proxy.core.header_safety import check_caller
from proxy.core.identity import Caller, Identity, authenticated_groups, extra_of

_UID_ATTRIBUTE = bytes.fromhex("2b0601040183c25302")  # 1.3.6.1.4.1.57683.2
_CREDENTIAL_ID_KEY = "authentication.kubernetes.io/credential-id"


def read_caller(certificate: Certificate) -> Caller | None:
    """Return whom a certificate stands for, None if nobody; Unauthorized if it is flawed.

    A name that would change on its way upstream is Forbidden.
    """
    name = read_common_name(certificate)
    if not name:
        return None
    uids = certificate.values(_UID_ATTRIBUTE)
    # A uid is there once and not empty, or the certificate is no credential.
    if len(uids) > 1 or "" in uids:
        raise Unauthorized
    fingerprint = hashlib.sha256(certificate.der).hexdigest()
    identity = Identity(
        name=name,
        uid=uids[0] if uids else "",
        groups=authenticated_groups(name, certificate.values(ORGANIZATION)),
        extra=extra_of({_CREDENTIAL_ID_KEY: (f"X509SHA256={fingerprint}",)}),
    )
    check_caller(identity)
    return Caller(identity)


def read_common_name(certificate: Certificate) -> str:
    """Return the common name, of several the last one, as in Go; empty if there is none."""
    names = certificate.values(COMMON_NAME)
    return names[-1] if names else ""
