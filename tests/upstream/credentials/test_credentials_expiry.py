"""When a credential says that it ends."""

import base64
import json

import pytest

from proxy.sandbox.identities import DAY, CertificateAuthority, Validity
from proxy.upstream.credentials.credentials import credential_expiry
from tests.upstream.kubeconfigs import now


def jwt(claims: object) -> bytes:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=")
    return b"Bearer e30." + payload + b".c2ln"


def test_a_token_tells_by_its_claim() -> None:
    assert credential_expiry(jwt({"exp": 1234}), None) == 1234


@pytest.mark.parametrize(
    "authorization",
    [
        b"Bearer opaque",
        b"Bearer a.b.c",
        b"Bearer ..",
        jwt([]),
        jwt({}),
        jwt({"exp": "soon"}),
        jwt({"exp": None}),
        b"Basic",
    ],
)
def test_a_token_that_does_not_tell_is_no_error(authorization: bytes) -> None:
    assert credential_expiry(authorization, None) == 0


def test_a_certificate_tells_by_its_end_and_a_token_comes_first() -> None:
    pair = CertificateAuthority("us").issue_client("us", validity=Validity(duration=DAY))
    end = credential_expiry(None, pair.certificate_pem)

    assert end == pytest.approx(now().timestamp() + 23 * 3600, abs=60)
    assert credential_expiry(jwt({"exp": 1234}), pair.certificate_pem) == 1234
    assert credential_expiry(None, b"no certificate") == 0
    assert credential_expiry(None, None) == 0
