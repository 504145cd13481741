"""Verification of one signature: the signer's key verifies it, and no other key does."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519

from proxy.authentication.x509.certificate import Certificate, read_certificate
from proxy.authentication.x509.signatures import is_signed_by
from tests.support.forging import Draft, Forger, Key, new_key, oid, pss, seq

ECDSA_SHA384, ECDSA_SHA512 = seq(oid("1.2.840.10045.4.3.3")), seq(oid("1.2.840.10045.4.3.4"))
RSA_KEY = rsa.generate_private_key(65537, 2048)
OTHER_RSA_KEY = rsa.generate_private_key(65537, 2048)
P256, OTHER_P256 = new_key(), new_key()
P384, OTHER_P384 = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
EDWARDS, OTHER_EDWARDS = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
SUBJECT_KEY = new_key()

SCHEMES: dict[str, tuple[Key, Key, bytes | None]] = {
    "ECDSA with SHA-256": (P256, OTHER_P256, None),
    "ECDSA with SHA-384": (P384, OTHER_P384, ECDSA_SHA384),
    "ECDSA with SHA-512": (P256, OTHER_P256, ECDSA_SHA512),
    "RSA": (RSA_KEY, OTHER_RSA_KEY, None),
    "RSA-PSS": (RSA_KEY, OTHER_RSA_KEY, pss()),
    "Ed25519": (EDWARDS, OTHER_EDWARDS, None),
}


def signed(key: Key, algorithm: bytes | None = None) -> tuple[Certificate, Certificate]:
    """Return a certificate and that of its signer."""
    root = Forger.root("a root", key=key)
    client = root.sign(Draft(key=SUBJECT_KEY, algorithm=algorithm))
    return read_certificate(client), read_certificate(root.der)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_signature_is_verified_by_the_key_of_the_signer(scheme: str) -> None:
    key, _, algorithm = SCHEMES[scheme]

    assert is_signed_by(*signed(key, algorithm))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_signature_is_not_verified_by_another_key_under_the_same_name(scheme: str) -> None:
    key, other_key, algorithm = SCHEMES[scheme]
    certificate, _ = signed(key, algorithm)
    _, impostor = signed(other_key, algorithm)

    assert not is_signed_by(certificate, impostor)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_changed_certificate_is_not_verified(scheme: str) -> None:
    key, _, algorithm = SCHEMES[scheme]
    certificate, signer = signed(key, algorithm)
    changed = certificate.signed[:-1] + bytes([certificate.signed[-1] ^ 1])

    assert not is_signed_by(replace(certificate, signed=changed), signer)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("signature", [b"", bytes(64)], ids=["empty", "zeros"])
def test_malformed_signature_is_not_verified(scheme: str, signature: bytes) -> None:
    key, _, algorithm = SCHEMES[scheme]
    certificate, signer = signed(key, algorithm)

    assert not is_signed_by(replace(certificate, signature=signature), signer)


@pytest.mark.parametrize("scheme", ["ECDSA with SHA-256", "RSA", "RSA-PSS"])
def test_signature_over_another_hash_is_not_verified(scheme: str) -> None:
    key, _, algorithm = SCHEMES[scheme]
    certificate, signer = signed(key, algorithm)
    other_hash = replace(certificate.signature_algorithm, hash_bits=384)

    assert not is_signed_by(replace(certificate, signature_algorithm=other_hash), signer)


@pytest.mark.parametrize("scheme", ["RSA", "RSA-PSS"])
def test_rsa_signature_with_the_other_padding_is_not_verified(scheme: str) -> None:
    key, _, algorithm = SCHEMES[scheme]
    certificate, signer = signed(key, algorithm)
    used = certificate.signature_algorithm
    other_padding = replace(used, is_pss=not used.is_pss)

    assert not is_signed_by(replace(certificate, signature_algorithm=other_padding), signer)


def test_key_that_signs_nothing_verifies_nothing() -> None:
    certificate, signer = signed(P256)
    exchange_key = x25519.X25519PrivateKey.generate().public_key()
    key_info = exchange_key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    assert not is_signed_by(certificate, replace(signer, key_info=key_info))


@pytest.mark.parametrize("key_info", [b"", b"not a key", seq(seq(oid("1.2.3")))])
def test_key_that_cannot_be_loaded_verifies_nothing(key_info: bytes) -> None:
    certificate, signer = signed(P256)

    assert not is_signed_by(certificate, replace(signer, key_info=key_info))
