"""Certificates whose keys cost OpenSSL much to decode, or that Go does not parse at all."""

from tests.support.forging import common_name, integer, oid, seq, tlv, valid

EC_KEY, PRIME_FIELD = "1.2.840.10045.2.1", "1.2.840.10045.1.1"
P224, SECP256K1, SM2 = "1.3.132.0.33", "1.3.132.0.10", "1.2.156.10197.1.301"
RSA_PSS, DSA = "1.2.840.113549.1.1.10", "1.2.840.10040.4.1"
# 3 * 2**640 + ... + 1 is a prime of 648 bits, less one divisible by two as often as can be: what a
# square root costs grows with the square of that.
_TWOS = 640
_P224_PRIME = 2**224 - 2**96 + 1
_P224_B = 0xB4050A850C04B3ABF54132565044B0B7D7BFD8BA270B39432355FFB4


def certificate(public_key: bytes) -> bytes:
    """Return a certificate with this key (a SubjectPublicKeyInfo) and no signature."""
    algorithm = seq(oid("1.2.840.10045.4.3.2"))
    subject = common_name("mallory")
    signed = seq(integer(1), algorithm, subject, valid(), subject, public_key)
    return seq(signed, algorithm, tlv(3, b"\0"))


def named_curve(curve: str, point: bytes, *, algorithm: str = EC_KEY) -> bytes:
    """Return a key on a curve that is named."""
    return seq(seq(oid(algorithm), oid(curve)), tlv(3, b"\0", point))


def costly_curve() -> bytes:
    """Return a key on a curve of its own, whose generator is compressed."""
    prime = _prime()
    size = (prime.bit_length() + 7) // 8
    generator = b"\2" + _x_of_a_point(prime, 1, 7, start=5).to_bytes(size, "big")
    field = seq(oid(PRIME_FIELD), integer(prime))
    curve = seq(tlv(4, b"\1"), tlv(4, b"\7"))
    parameters = seq(integer(1), field, curve, tlv(4, generator), integer(1), integer(1))
    return seq(seq(oid(EC_KEY), parameters), tlv(3, b"\0"))


def compressed_point() -> bytes:
    """Return a key on P-224 with a compressed point: the costliest of the curves with a name."""
    x = _x_of_a_point(_P224_PRIME, -3, _P224_B, start=10**40)
    return named_curve(P224, b"\2" + x.to_bytes(28, "big"))


def other_algorithm(algorithm: str) -> bytes:
    """Return a key of another algorithm."""
    numbers = seq(integer(2**1024 + 1), integer(17))
    return seq(seq(oid(algorithm)), tlv(3, b"\0", numbers))


def _prime() -> int:
    factor = 3
    while not all(pow(base, factor << _TWOS, (factor << _TWOS) + 1) == 1 for base in (2, 3, 5, 7)):
        factor += 2
    return (factor << _TWOS) + 1


def _x_of_a_point(prime: int, a: int, b: int, *, start: int) -> int:
    x = start
    while pow(x**3 + a * x + b, (prime - 1) // 2, prime) != 1:
        x += 1
    return x
