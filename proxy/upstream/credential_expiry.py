"""When a credential ends, as far as it says so itself. For a gauge: nothing is decided by it."""

import base64
import json

from cryptography import x509

_PARTS_OF_A_JWT = 3


def expiry_of(authorization: bytes | None, certificate: bytes | None) -> float:
    """Return when a token, or else a certificate, ends, in seconds since 1970; 0 if unknown."""
    try:
        if authorization is not None:
            return _token_expiry(authorization.partition(b" ")[2])
        if certificate is not None:
            return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()
    except (ValueError, TypeError, AttributeError):
        pass  # What the API server takes is not refused for the sake of a gauge.
    return 0.0


def _token_expiry(token: bytes) -> float:
    parts = token.split(b".")
    if len(parts) != _PARTS_OF_A_JWT:
        return 0.0
    claims = json.loads(base64.urlsafe_b64decode(parts[1] + b"=="))
    return float(claims.get("exp", 0))
