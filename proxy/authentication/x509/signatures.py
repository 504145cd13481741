"""Verification of certificate signatures."""

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from proxy.authentication.x509.certificate import Certificate

_HASHES: dict[int, hashes.HashAlgorithm] = {
    256: hashes.SHA256(),
    384: hashes.SHA384(),
    512: hashes.SHA512(),
}


def is_signed_by(certificate: Certificate, signer: Certificate) -> bool:
    """Return whether a certificate is signed with the key of another certificate.

    It is not checked whether the signer may sign. That its key fits the algorithm is checked.
    """
    try:
        key = serialization.load_der_public_key(signer.key_info)
        algorithm = certificate.signature_algorithm
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(certificate.signature, certificate.signed)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(
                certificate.signature, certificate.signed, ec.ECDSA(_HASHES[algorithm.hash_bits])
            )
        elif isinstance(key, rsa.RSAPublicKey):
            digest = _HASHES[algorithm.hash_bits]
            key.verify(
                certificate.signature, certificate.signed, _padding(certificate, digest), digest
            )
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def _padding(certificate: Certificate, digest: hashes.HashAlgorithm) -> padding.AsymmetricPadding:
    if certificate.signature_algorithm.is_pss:
        return padding.PSS(padding.MGF1(digest), digest.digest_size)
    return padding.PKCS1v15()
