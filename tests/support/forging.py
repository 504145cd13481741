"""Certificates written byte by byte: those that no library would make.

    root = Forger.root("a root")
    der = root.sign(Draft(subject=name((CN, utf8("alice"))), key=new_key()))

A draft has every field of a certificate; the defaults are those of a client's good one.
"""

import base64
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, padding, rsa

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | dsa.DSAPrivateKey

HOUR = datetime.timedelta(hours=1)
CN, ORG, UID, EMAIL = "2.5.4.3", "2.5.4.10", "1.3.6.1.4.1.57683.2", "1.2.840.113549.1.9.1"
CLIENT_AUTH, SERVER_AUTH = "1.3.6.1.5.5.7.3.2", "1.3.6.1.5.5.7.3.1"
ANY_USAGE = "2.5.29.37.0"
NULL = b"\x05\x00"


def tlv(tag: int, *contents: bytes) -> bytes:
    """Return an element: tag, length, contents."""
    body = b"".join(contents)
    if len(body) < 128:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def seq(*contents: bytes) -> bytes:
    return tlv(0x30, *contents)


def oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    contents = b""
    for number in (first * 40 + second, *rest):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.insert(0, 0x80 | number & 0x7F)
        contents += bytes(digits)
    return tlv(6, contents)


def integer(value: int) -> bytes:
    return tlv(2, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def boolean(value: bytes = b"\xff") -> bytes:
    return tlv(1, value)


def utf8(text: str) -> bytes:
    return tlv(12, text.encode())


def name(*attributes: tuple[str, bytes]) -> bytes:
    """Return a name, each attribute in a part of its own; values are whole elements."""
    return seq(*(tlv(0x31, seq(oid(kind), value)) for kind, value in attributes))


def common_name(text: str) -> bytes:
    return name((CN, utf8(text)))


def extension(kind: str, value: bytes, *, critical: bool = False) -> bytes:
    return seq(oid(kind), boolean() if critical else b"", tlv(4, value))


def basic_constraints(
    *, is_ca: bool = True, path_length: int | None = None, critical: bool = True
) -> bytes:
    length = b"" if path_length is None else integer(path_length)
    return extension("2.5.29.19", seq(boolean() if is_ca else b"", length), critical=critical)


def usages(*kinds: str, critical: bool = False) -> bytes:
    return extension("2.5.29.37", seq(*map(oid, kinds)), critical=critical)


def key_usage(bits: bytes, *, critical: bool = True) -> bytes:
    return extension("2.5.29.15", tlv(3, bits), critical=critical)


def alternative_names(*names: tuple[int, bytes], critical: bool = False) -> bytes:
    """Return names by the number of their kind: 1 email, 2 DNS, 6 URI, 7 IP."""
    return extension(
        "2.5.29.17", seq(*(tlv(0x80 + kind, value) for kind, value in names)), critical=critical
    )


def name_constraints(
    permitted: Sequence[tuple[int, bytes]] = (),
    excluded: Sequence[tuple[int, bytes]] = (),
    *,
    critical: bool = True,
) -> bytes:
    trees = [
        tlv(0xA0 + number, *(seq(tlv(0x80 + kind, value)) for kind, value in subtrees))
        for number, subtrees in enumerate((permitted, excluded))
        if subtrees
    ]
    return extension("2.5.29.30", seq(*trees), critical=critical)


def key_identifier(value: bytes) -> bytes:
    return extension("2.5.29.14", tlv(4, value))


def authority_key(value: bytes) -> bytes:
    return extension("2.5.29.35", seq(tlv(0x80, value)))


def utc_time(moment: datetime.datetime) -> bytes:
    return tlv(0x17, moment.strftime("%y%m%d%H%M%SZ").encode())


def generalized_time(moment: datetime.datetime) -> bytes:
    return tlv(0x18, moment.strftime("%Y%m%d%H%M%SZ").encode())


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def valid(first: float = -1, last: float = 24) -> bytes:
    """Return a validity, in hours from now."""
    return seq(utc_time(now() + first * HOUR), utc_time(now() + last * HOUR))


def pem_of(*certificates: bytes) -> bytes:
    """Return certificates in PEM."""
    return b"".join(
        b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"
        for der in certificates
    )


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public(key: Key) -> bytes:
    """Return the SubjectPublicKeyInfo of a key."""
    return key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


ECDSA_SHA256 = seq(oid("1.2.840.10045.4.3.2"))
RSA_SHA256 = seq(oid("1.2.840.113549.1.1.11"), NULL)
ED25519 = seq(oid("1.3.101.112"))
DSA_SHA256 = seq(oid("2.16.840.1.101.3.4.3.2"))
SHA256, SHA384 = "2.16.840.1.101.3.4.2.1", "2.16.840.1.101.3.4.2.2"


def pss(
    *,
    salt: int = 32,
    mask: str = SHA256,
    after: Sequence[bytes] = (b"", b"", b""),
    more: Sequence[bytes] = (b"", b"", b""),
    tail: bytes = b"",
    end: bytes = b"",
) -> bytes:
    """Return the algorithm of RSA-PSS with SHA-256.

    What comes `after` hash, mask and salt in their tags, `more` in the algorithms of the hash, the
    mask and the mask's hash, `tail` after the salt's tag, and `end` after all parameters.
    """
    mgf = seq(oid("1.2.840.113549.1.1.8"), seq(oid(mask), NULL, more[2]), more[1])
    return seq(
        oid("1.2.840.113549.1.1.10"),
        seq(
            tlv(0xA0, seq(oid(SHA256), NULL, more[0]), after[0]),
            tlv(0xA1, mgf, after[1]),
            tlv(0xA2, integer(salt), after[2]),
            tail,
        ),
        end,
    )


def shifted(data: bytes, bits: int) -> bytes:
    """Return data as a BIT STRING whose last bits are padding; its first bits must be zero."""
    return tlv(3, bytes([bits]), (int.from_bytes(data) << bits).to_bytes(len(data), "big"))


@dataclass(frozen=True)
class Draft:
    """The fields of a certificate, each as its DER."""

    subject: bytes = field(default_factory=lambda: common_name("alice"))
    key: Key = field(default_factory=new_key)
    key_info: bytes | None = None
    """In place of the key's own."""
    version: bytes = tlv(0xA0, integer(2))
    serial: bytes = integer(77)
    algorithm: bytes | None = None
    """In place of the one the signer uses; in both places."""
    outer_algorithm: bytes | None = None
    issuer: bytes | None = None
    """In place of the signer's subject."""
    validity: bytes = field(default_factory=valid)
    unique_ids: bytes = b""
    extensions: Sequence[bytes] | None = ()
    """None: not even an empty list."""
    tail: bytes = b""
    """After the extensions."""
    signature_padding: int = 0
    """In bits."""

    def with_usage(self, *more: bytes) -> "Draft":
        """Return the draft as one for clients, with more extensions."""
        return replace(self, extensions=(usages(CLIENT_AUTH), *more))


@dataclass(frozen=True)
class Forger:
    """Signs anything."""

    subject: bytes
    key: Key
    der: bytes = b""
    """Its own certificate."""

    @classmethod
    def root(cls, text: str, *extensions: bytes, key: Key | None = None) -> "Forger":
        """Return a root of this common name."""
        key = key or new_key()
        draft = Draft(
            subject=common_name(text), key=key, extensions=extensions or (basic_constraints(),)
        )
        return cls.of(draft)

    @classmethod
    def of(cls, draft: Draft) -> "Forger":
        """Return whoever signs its own draft."""
        bare = cls(draft.subject, draft.key)
        return replace(bare, der=bare.sign(draft))

    def below(self, draft: Draft) -> "Forger":
        """Return a signer whose certificate this one signs."""
        return Forger(draft.subject, draft.key, self.sign(draft))

    def middle(self, text: str, *extensions: bytes, key: Key | None = None) -> "Forger":
        """Return a CA of this common name below this one."""
        key = key or new_key()
        return self.below(
            Draft(
                subject=common_name(text), key=key, extensions=extensions or (basic_constraints(),)
            )
        )

    def sign(self, draft: Draft) -> bytes:
        """Return a certificate."""
        algorithm = draft.algorithm or algorithm_of(self.key)
        listed = draft.extensions
        extensions = b"" if listed is None else tlv(0xA3, seq(*listed)) if listed else b""
        signed = seq(
            draft.version,
            draft.serial,
            algorithm,
            draft.issuer or self.subject,
            draft.validity,
            draft.subject,
            draft.key_info or public(draft.key),
            draft.unique_ids,
            extensions,
            draft.tail,
        )
        signature = signature_of(self.key, signed, algorithm)
        bits = shifted(signature, draft.signature_padding)
        return seq(signed, draft.outer_algorithm or algorithm, bits)


def algorithm_of(key: Key) -> bytes:
    if isinstance(key, rsa.RSAPrivateKey):
        return RSA_SHA256
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return ED25519
    return DSA_SHA256 if isinstance(key, dsa.DSAPrivateKey) else ECDSA_SHA256


def signature_of(key: Key, data: bytes, algorithm: bytes) -> bytes:
    digest = hash_of(algorithm)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(data)
    if isinstance(key, rsa.RSAPrivateKey):
        if oid("1.2.840.113549.1.1.10") in algorithm:
            mask = hashes.SHA384() if oid(SHA384) in algorithm else hashes.SHA256()
            salt = 20 if integer(20) in algorithm else 32
            return key.sign(data, padding.PSS(padding.MGF1(mask), salt), hashes.SHA256())
        return key.sign(data, padding.PKCS1v15(), digest)
    if isinstance(key, dsa.DSAPrivateKey):
        return key.sign(data, digest)
    return key.sign(data, ec.ECDSA(digest))


def hash_of(algorithm: bytes) -> hashes.HashAlgorithm:
    """Return the hash that an algorithm names, SHA-256 where it names none of these."""
    named: dict[str, hashes.HashAlgorithm] = {
        "1.2.840.113549.1.1.5": hashes.SHA1(),
        "1.2.840.10045.4.1": hashes.SHA1(),
        "1.2.840.10045.4.3.1": hashes.SHA224(),
        "1.2.840.113549.1.1.14": hashes.SHA224(),
        "1.2.840.10045.4.3.3": hashes.SHA384(),
        "1.2.840.10045.4.3.4": hashes.SHA512(),
        "1.2.840.113549.1.1.12": hashes.SHA384(),
        "1.2.840.113549.1.1.13": hashes.SHA512(),
        "2.16.840.1.101.3.4.3.10": hashes.SHA3_256(),
    }
    for dotted, one in named.items():
        if oid(dotted) in algorithm:
            return one
    return hashes.SHA256()
