"""Handshakes that failed, by a reason from a closed set: what OpenSSL says may be anything."""

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
"""The client was too slow; left without a word; refused us (it does not trust our certificate, for
example); does not speak TLS; has no version, or no cipher, in common with us; shows certificates
that are too large, or a key that is not taken; was closed for a newcomer, or because too much
memory was held; anything else."""

_KNOWN = {
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
    """Counts, from zero on for every reason."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(REASONS, 0))

    def add(self, reason: str) -> None:
        """Count one."""
        self.counts[reason] += 1


def reason_of(error: Exception) -> str:
    """Return the reason in what OpenSSL says."""
    text = str(error)
    for words, reason in _KNOWN.items():
        if words in text:
            return reason
    return ALERT if " alert " in text else OTHER
