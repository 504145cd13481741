"""Signatures of certificates, verified with the keys of their signers."""

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from proxy.authentication.x509.certificate import Certificate

_HASHES: dict[int, hashes.HashAlgorithm] = {
    256: hashes.SHA256(),
    384: hashes.SHA384(),
    512: hashes.SHA512(),
}


def is_signed_by(one: Certificate, signer: Certificate) -> bool:
    """Return whether the signature of a certificate is by the key of another.

    Whether the signer may sign is not asked: that its key fits the algorithm is.
    """
    try:
        key = serialization.load_der_public_key(signer.key_info)
        algorithm = one.signature_algorithm
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(one.signature, one.signed)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(one.signature, one.signed, ec.ECDSA(_HASHES[algorithm.hash_bits]))
        elif isinstance(key, rsa.RSAPublicKey):
            digest = _HASHES[algorithm.hash_bits]
            key.verify(one.signature, one.signed, _padding(one, digest), digest)
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def _padding(one: Certificate, digest: hashes.HashAlgorithm) -> padding.AsymmetricPadding:
    if one.signature_algorithm.is_pss:
        return padding.PSS(padding.MGF1(digest), digest.digest_size)
    return padding.PKCS1v15()
