"""Failure reasons of TLS handshakes, and their counts."""

from collections import Counter

TIMEOUT, LEFT, ALERT, NOT_TLS, VERSION, CIPHER, CERTIFICATE, EVICTED, OTHER = REASONS = (
    "timeout",
    "left",
    "alert",
    "not-tls",
    "version",
    "cipher",
    "certificate",
    "evicted",
    "other",
)
"""Why a handshake failed, in the order above.

- The client was too slow.
- The client disconnected without an alert.
- The client sent an alert, for example because it does not trust the serving certificate.
- The client does not use TLS.
- There is no common TLS version.
- There is no common cipher.
- The client's certificates are too large, or their key is not accepted.
- The connection was evicted for a new one, or for too much held memory.
- Any other reason.
"""

_REASONS_BY_TEXT = {
    "http request": NOT_TLS,
    "https proxy request": NOT_TLS,
    "wrong version number": NOT_TLS,
    "packet length too long": NOT_TLS,
    "unsupported protocol": VERSION,
    "version too low": VERSION,
    "no shared cipher": CIPHER,
    "no suitable key share": CIPHER,
    "no shared signature algorithms": CIPHER,
    "no suitable signature algorithm": CIPHER,
    "excessive message size": CERTIFICATE,
    "certificate verify failed": CERTIFICATE,
}


class HandshakeFailures:
    """Counts of failed handshakes; every reason starts at zero."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(REASONS, 0))

    def add(self, reason: str) -> None:
        """Count one failed handshake."""
        self.counts[reason] += 1


def failure_reason(error: Exception) -> str:
    """Return the reason for an OpenSSL error, by its text."""
    text = str(error)
    for fragment, reason in _REASONS_BY_TEXT.items():
        if fragment in text:
            return reason
    return ALERT if " alert " in text else OTHER
