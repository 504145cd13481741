"""Which blocks of a text are certificates, as kube-apiserver finds them."""

import base64

import pytest

from proxy.authentication.x509.pem import PemError, read_certificates


def block(contents: bytes, kind: str = "CERTIFICATE", headers: str = "") -> bytes:
    text = base64.encodebytes(contents).decode()
    return f"-----BEGIN {kind}-----\n{headers}{text}-----END {kind}-----\n".encode()


def test_certificates_are_found_in_their_order_whatever_is_between() -> None:
    text = b"# ours\n" + block(b"one") + b"\n\nmore\n" + block(b"two").replace(b"\n", b" \r\n")

    assert read_certificates(text) == [b"one", b"two"]


@pytest.mark.parametrize(
    "ignored",
    [
        block(b"other", "X509 CERTIFICATE"),
        block(b"other", "TRUSTED CERTIFICATE"),
        block(b"other", "certificate"),
        block(b"other", "PRIVATE KEY"),
        block(b"other", headers="A: b\n\n"),
        block(b"other", headers="Proc-Type: 4,ENCRYPTED\nDEK-Info: x\n\n"),
        block(b"other", headers=":\n"),
    ],
    ids=["X509", "TRUSTED", "small", "a key", "a header", "encrypted", "an empty header"],
)
def test_other_types_and_blocks_with_headers_are_no_certificates(ignored: bytes) -> None:
    assert read_certificates(block(b"one") + ignored + block(b"two")) == [b"one", b"two"]
    with pytest.raises(PemError):
        read_certificates(ignored)


@pytest.mark.parametrize(
    "broken",
    [
        b"-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nQUJD=\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END X509 CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE----- more\n",
        b"-----BEGIN CERTIFICATE-----\nQUJD\n",
        b"-----BEGIN CERTIFICATE-----\nA: b\n-----END CERTIFICATE-----\n",
        b"-----BEGIN a:b-----\n-----END a:b-----\n",
        # At the end of a text Go does not take a carriage return for the end of a line.
        b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\r",
    ],
)
def test_a_certificate_that_go_would_skip_is_an_error(broken: bytes) -> None:
    with pytest.raises(PemError):
        read_certificates(block(b"one") + broken)


def test_a_begin_inside_a_line_begins_nothing() -> None:
    assert read_certificates(block(b"one") + b"x" + block(b"two")) == [b"one"]
