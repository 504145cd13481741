import pytest

from proxy.serving.limits.handshakes import (
    ALERT,
    CERTIFICATE,
    CIPHER,
    NOT_TLS,
    OTHER,
    REASONS,
    VERSION,
    HandshakeFailures,
    failure_reason,
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("http request", NOT_TLS),
        ("wrong version number", NOT_TLS),
        ("unsupported protocol", VERSION),
        ("no shared cipher", CIPHER),
        ("excessive message size", CERTIFICATE),
        ("tlsv1 alert unknown ca", ALERT),
        ("something else", OTHER),
    ],
)
def test_failure_reason_follows_the_text_of_openssl(text: str, reason: str) -> None:
    assert failure_reason(Exception(text)) == reason


def test_every_failure_reason_is_counted_from_zero() -> None:
    failures = HandshakeFailures()
    assert failures.counts == dict.fromkeys(REASONS, 0)

    failures.add(CIPHER)

    assert failures.counts[CIPHER] == 1
    assert sum(failures.counts.values()) == 1
