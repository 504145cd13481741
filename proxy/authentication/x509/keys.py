"""Public keys and signature algorithms that Go parses, and those that it verifies with."""

from dataclasses import dataclass, replace
from enum import Enum, auto

from proxy.authentication.x509.der import (
    CONTEXT_CONSTRUCTED,
    NULL,
    SEQUENCE,
    DerError,
    DerReader,
)

_MIN_RSA_BITS = 1024
_MAX_RSA_EXPONENT = (1 << 31) - 1
_MAX_PARSED_EXPONENT = (1 << 63) - 1
_ED25519_BYTES = 32
_UNCOMPRESSED = 0x04

_RSA = bytes.fromhex("2a864886f70d010101")
_DSA = bytes.fromhex("2a8648ce380401")
_ECDSA = bytes.fromhex("2a8648ce3d0201")
_ED25519 = bytes.fromhex("2b6570")


@dataclass(frozen=True, slots=True)
class _Curve:
    """The points with y^2 = x^3 - 3x + b, modulo a prime."""

    coordinate_bytes: int
    prime: int
    b: int

    def has(self, x: int, y: int) -> bool:
        """Return whether a point is on the curve."""
        if x >= self.prime or y >= self.prime:
            return False
        return (y * y - (x * x - 3) * x - self.b) % self.prime == 0


_P224 = _Curve(28, 2**224 - 2**96 + 1, 0xB4050A850C04B3ABF54132565044B0B7D7BFD8BA270B39432355FFB4)
_P256 = _Curve(
    32,
    2**256 - 2**224 + 2**192 + 2**96 - 1,
    0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
)
_P384 = _Curve(
    48,
    2**384 - 2**128 - 2**96 + 2**32 - 1,
    int(
        "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875a"
        "c656398d8a2ed19d2a85c8edd3ec2aef",
        16,
    ),
)
_P521 = _Curve(
    66,
    2**521 - 1,
    int(
        "51953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109"
        "e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00",
        16,
    ),
)
_CURVES = {
    bytes.fromhex("2b81040021"): _P224,
    bytes.fromhex("2a8648ce3d030107"): _P256,
    bytes.fromhex("2b81040022"): _P384,
    bytes.fromhex("2b81040023"): _P521,
}


class KeyKind(Enum):
    """The signature scheme that a key verifies."""

    RSA = auto()
    ECDSA = auto()
    ED25519 = auto()
    NOTHING = auto()
    """Go parses certificates with such a key, but verifies nothing with it."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key: its kind, and whether Go verifies signatures with it."""

    kind: KeyKind
    verifies: bool
    rsa_bits: int = 0
    """The size of an RSA key; Go has no limit for certificates that it only parses."""


@dataclass(frozen=True, slots=True)
class SignatureAlgorithm:
    """A signature algorithm: kind of key, hash, and RSA padding."""

    kind: KeyKind
    hash_bits: int = 0
    """The SHA-2 variant; 0 for Ed25519."""
    is_pss: bool = False


UNKNOWN_ALGORITHM = SignatureAlgorithm(KeyKind.NOTHING)
"""Go verifies nothing with it."""

_PKCS1 = "2a864886f70d0101"
_ECDSA_SHA2 = "2a8648ce3d0403"
_SIGNATURES = {
    bytes.fromhex(_PKCS1 + "0b"): SignatureAlgorithm(KeyKind.RSA, 256),
    bytes.fromhex(_PKCS1 + "0c"): SignatureAlgorithm(KeyKind.RSA, 384),
    bytes.fromhex(_PKCS1 + "0d"): SignatureAlgorithm(KeyKind.RSA, 512),
    bytes.fromhex(_ECDSA_SHA2 + "02"): SignatureAlgorithm(KeyKind.ECDSA, 256),
    bytes.fromhex(_ECDSA_SHA2 + "03"): SignatureAlgorithm(KeyKind.ECDSA, 384),
    bytes.fromhex(_ECDSA_SHA2 + "04"): SignatureAlgorithm(KeyKind.ECDSA, 512),
}
_RSA_PSS = bytes.fromhex(_PKCS1 + "0a")
_MGF1 = bytes.fromhex(_PKCS1 + "08")
_SALT_BYTES = {
    bytes.fromhex("608648016503040201"): 32,  # SHA-256, 384, 512
    bytes.fromhex("608648016503040202"): 48,
    bytes.fromhex("608648016503040203"): 64,
}


def read_algorithm(contents: DerReader) -> tuple[bytes, bytes]:
    """Return an algorithm's object identifier and its parameters, as a whole element."""
    oid = contents.read_object_identifier()
    return oid, b"" if contents.is_empty else contents.read_any_element()


def read_public_key(info: bytes) -> PublicKey:
    """Return the key of a SubjectPublicKeyInfo; raise DerError if Go does not parse it.

    Stricter than Go: a key that is not whole bytes verifies nothing, because OpenSSL would verify
    with a different key than Go.
    """
    contents = DerReader(info).read(SEQUENCE)
    oid, parameters = read_algorithm(contents.read(SEQUENCE))
    bits, is_whole = contents.read_aligned_bits()
    key = _key(oid, bits, parameters)
    return key if is_whole else replace(key, verifies=False)


def read_signature_algorithm(oid: bytes, parameters: bytes) -> SignatureAlgorithm:
    """Return the signature algorithm; UNKNOWN_ALGORITHM if Go does not verify it.

    MD5, SHA-1 and all DSA algorithms are unknown.
    """
    if oid == _ED25519:
        return UNKNOWN_ALGORITHM if parameters else SignatureAlgorithm(KeyKind.ED25519)
    if oid == _RSA_PSS:
        try:
            return _pss_algorithm(parameters)
        except DerError:
            return UNKNOWN_ALGORITHM
    return _SIGNATURES.get(oid, UNKNOWN_ALGORITHM)


def _key(oid: bytes, bits: bytes, parameters: bytes) -> PublicKey:
    if oid == _RSA:
        return _rsa_key(bits, parameters)
    if oid == _ECDSA:
        return _ecdsa_key(bits, parameters)
    if oid == _ED25519:
        if parameters or len(bits) != _ED25519_BYTES:
            raise DerError("not an Ed25519 key")
        return PublicKey(KeyKind.ED25519, verifies=True)
    if oid == _DSA:
        _check_dsa_key(bits, parameters)
    return PublicKey(KeyKind.NOTHING, verifies=False)


def _rsa_key(bits: bytes, parameters: bytes) -> PublicKey:
    if parameters != NULL:
        raise DerError("RSA key without NULL parameters")
    numbers = DerReader(bits).read(SEQUENCE)
    modulus, exponent = numbers.read_integer(), numbers.read_integer()
    if modulus <= 0 or not 0 < exponent <= _MAX_PARSED_EXPONENT:
        raise DerError("not an RSA key")
    size = modulus.bit_length()
    verifies = (
        size >= _MIN_RSA_BITS
        and modulus % 2 == 1
        and exponent % 2 == 1
        and 1 < exponent <= _MAX_RSA_EXPONENT
    )
    return PublicKey(KeyKind.RSA, verifies=verifies, rsa_bits=size)


def _ecdsa_key(point: bytes, parameters: bytes) -> PublicKey:
    curve = _CURVES.get(DerReader(parameters).read_object_identifier())
    if curve is None:
        raise DerError("curve that Go does not support")
    size = curve.coordinate_bytes
    if len(point) != 1 + 2 * size or point[0] != _UNCOMPRESSED:
        raise DerError("point not in uncompressed form")
    if not curve.has(int.from_bytes(point[1 : 1 + size]), int.from_bytes(point[1 + size :])):
        raise DerError("point not on its curve")
    return PublicKey(KeyKind.ECDSA, verifies=True)


def _check_dsa_key(bits: bytes, parameters: bytes) -> None:
    numbers = DerReader(parameters).read(SEQUENCE)
    values = [DerReader(bits).read_integer(), *(numbers.read_integer() for _ in range(3))]
    if min(values) <= 0:
        raise DerError("not a DSA key")


def _pss_algorithm(parameters: bytes) -> SignatureAlgorithm:
    """Return the PSS algorithm if mask and hash are the same SHA-2, and the salt is as long.

    Stricter than Go: no trailing data is allowed, and the trailer field must be absent. It has only
    one value anyway.
    """
    contents = DerReader(parameters).read(SEQUENCE)
    hash_, mask, salt = (contents.read(CONTEXT_CONSTRUCTED + number) for number in range(3))
    oid, none = _only_algorithm(hash_)
    mask_oid, mask_parameters = _only_algorithm(mask)
    mask_hash, mask_none = _only_algorithm(DerReader(mask_parameters))
    salt_bytes = _SALT_BYTES.get(oid, 0)
    is_known = (
        salt_bytes
        and mask_oid == _MGF1
        and mask_hash == oid
        and {none, mask_none} <= {b"", NULL}
        and salt.read_integer() == salt_bytes
        and salt.is_empty
        and contents.is_empty
    )
    if not is_known:
        return UNKNOWN_ALGORITHM
    return SignatureAlgorithm(KeyKind.RSA, 8 * salt_bytes, is_pss=True)


def _only_algorithm(holder: DerReader) -> tuple[bytes, bytes]:
    """Return the only algorithm of an element; raise DerError for trailing data."""
    contents = holder.read(SEQUENCE)
    algorithm = read_algorithm(contents)
    if not contents.is_empty or not holder.is_empty:
        raise DerError("trailing data after an algorithm")
    return algorithm
