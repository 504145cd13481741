"""Certificates with much content in one field, and what it costs to judge them.

    for title, make in FIELDS.items():
        judge((make(64 * 1024),))
    for title, chain in CONSTRAINED.items():
        judge(chain())

Each is signed by a root that is believed, so no check is skipped for a bad signature.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from proxy.authentication.ca_bundle import CABundle, PEMBundle, caller_from_certificate
from proxy.core.errors import StatusError
from proxy.core.userinfo import Caller
from proxy.wire.exchange import Peer
from tests.support.forging import (
    CN,
    EMAIL,
    NULL,
    ORG,
    UID,
    Draft,
    Forger,
    alternative_names,
    basic_constraints,
    extension,
    integer,
    key_usage,
    name,
    name_constraints,
    new_key,
    oid,
    pem_of,
    seq,
    tlv,
    utf8,
)

ROOT = Forger.root("the root")
BUNDLE: CABundle[Caller | None] = CABundle(
    PEMBundle(pem_of(ROOT.der), "the CA"), read=caller_from_certificate
)


def judge(chain: Sequence[bytes]) -> bool:
    """Judge a chain once, as with the first request of a connection; tell if it is believed."""
    try:
        now = datetime.datetime.now(datetime.UTC)
        return BUNDLE.verify(Peer("10.0.0.1", tuple(chain)), now).verified
    except StatusError:
        return False


_KEY = new_key()
PLAIN_CLIENT = ROOT.sign(Draft(key=_KEY).with_usage())


def _signed(**fields: object) -> bytes:
    return ROOT.sign(replace(Draft(key=_KEY).with_usage(), **fields))  # type: ignore[arg-type]


def _with(extension_: bytes) -> bytes:
    return ROOT.sign(Draft(key=_KEY).with_usage(extension_))


def _named(kind: str, tag: int, unit: bytes, size: int) -> bytes:
    """Return a certificate with one long value in its subject."""
    value = tlv(tag, unit * (size // len(unit)))
    return _signed(subject=name((CN, utf8("alice")), (kind, value)))


def _repeated(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def _attributes(size: int) -> bytes:
    part = tlv(0x31, seq(oid(ORG), utf8("")))
    return _signed(subject=seq(name((CN, utf8("alice")))[2:], _repeated(part, size)))


def _attributes_of_one_part(size: int) -> bytes:
    return _signed(subject=seq(tlv(0x31, _repeated(seq(oid(ORG), utf8("")), size))))


def _extensions(size: int) -> bytes:
    count = size // len(extension("1.2.3.9999", b""))
    return _signed(extensions=[extension(f"1.2.3.{1000 + one}", b"") for one in range(count)])


def _names(kind: int, value: bytes, size: int) -> bytes:
    count = size // (len(value) + 2)
    return _with(alternative_names(*[(kind, value)] * count))


def within_items(make: Callable[[int], bytes], *, least: int = 64) -> bytes:
    """Return the largest certificate of a kind that is believed: one byte less than is refused."""
    low, high = least, 31 * 1024
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if judge((make(middle),)) else (low, middle)
    return make(low)


def _constraints(kind: int, value: bytes, size: int) -> bytes:
    count = size // (len(value) + 4)
    return _with(name_constraints([(kind, value)] * count))


def _key(size: int, *, exponent: bool) -> bytes:
    large, small = (1 << 8 * size - 1) + 1, 65537
    numbers = seq(integer(small if exponent else large), integer(large if exponent else small))
    rsa = seq(oid("1.2.840.113549.1.1.1"), NULL)
    return _signed(key_info=seq(rsa, tlv(3, b"\0" + numbers)))


def _signature(size: int) -> bytes:
    whole = ROOT.sign(Draft(key=_KEY))
    # The body of the certificate is its second element; the signature is what follows it.
    body = whole[whole.index(b"\x30", 1) :]
    length = int.from_bytes(body[2:4]) + 4 if body[1] == 0x82 else body[2] + 3
    algorithm = seq(oid("1.2.840.10045.4.3.2"))
    return seq(body[:length], algorithm, tlv(3, b"\0" * size))


def _nested(size: int) -> bytes:
    value = b""
    while len(value) < size:
        value = seq(value, b"\0" * (size // 64))
    return value


FIELDS: dict[str, Callable[[int], bytes]] = {
    "serial": lambda size: _signed(serial=tlv(2, b"\1" * size)),
    "version": lambda size: _signed(version=tlv(0xA0, tlv(2, b"\1" * size))),
    "algorithm": lambda size: _signed(algorithm=seq(tlv(6, b"\x2a" * size))),
    "issuer": lambda size: _signed(issuer=name((CN, utf8("a" * size)))),
    "validity": lambda size: _signed(validity=seq(tlv(0x18, b"2" * size), tlv(0x17, b"2" * size))),
    "common name": lambda size: _signed(subject=name((CN, utf8("a" * size)))),
    "uid": partial(_named, UID, 12, b"a"),
    "UTF8String": partial(_named, ORG, 12, "\u00e4".encode()),
    "PrintableString": partial(_named, ORG, 19, b"a"),
    "IA5String": partial(_named, EMAIL, 22, b"a"),
    "NumericString": partial(_named, ORG, 18, b"1"),
    "T61String": partial(_named, ORG, 20, b"\xfc"),
    "BMPString": partial(_named, ORG, 30, b"\0a"),
    "attribute type": lambda size: _signed(
        subject=seq(tlv(0x31, seq(tlv(6, b"\x2a" * size), utf8("a"))))
    ),
    "attributes": _attributes,
    "attributes of one part": _attributes_of_one_part,
    "empty parts": lambda size: _signed(subject=seq(_repeated(tlv(0x31), size))),
    "key": lambda size: _signed(
        key_info=seq(seq(oid("1.2.840.10045.2.1"), oid("1.2.3")), tlv(3, b"\0" * size))
    ),
    "RSA modulus": partial(_key, exponent=False),
    "RSA exponent": partial(_key, exponent=True),
    "unique id": lambda size: _signed(unique_ids=tlv(0x81, b"\0" * size)),
    "extensions": _extensions,
    "unknown extension": lambda size: _with(extension("1.2.3.4", b"\0" * size)),
    "extension type": lambda size: _with(seq(tlv(6, b"\x2a" * size), tlv(4, b""))),
    "usages": lambda size: _with(extension("2.5.29.37", seq(_repeated(oid("1.2.3"), size)))),
    "key usage": lambda size: _with(key_usage(b"\0" * size)),
    "path length": lambda size: _with(extension("2.5.29.19", seq(tlv(2, b"\1" * size)))),
    "DNS names": partial(_names, 2, b"a.b"),
    "empty DNS names": partial(_names, 2, b""),
    "email addresses": partial(_names, 1, b"a@b.c"),
    "URIs": partial(_names, 6, b"a://b.c"),
    "relative URIs": partial(_names, 6, b"a/b"),
    "URIs with users": partial(_names, 6, b"s://a:b@c:1/x#y"),
    "URIs with IPv6 hosts": partial(_names, 6, b"s://[1:2::1.2.3.4]/"),
    "IP addresses": partial(_names, 7, b"\x0a\0\0\1"),
    "a long DNS name": lambda size: _names(2, b"a." * (size // 2) + b"a", size + 3),
    "a long URI host": lambda size: _names(6, b"a://" + b"a." * (size // 2) + b"a", size + 7),
    "a long URI path": lambda size: _names(6, b"a://b/" + b"a/" * (size // 2), size + 8),
    "a long URI that is none": lambda size: _names(6, b"a://b/" + b"%4" * (size // 2), size + 8),
    "permitted DNS names": partial(_constraints, 2, b"a.b"),
    "permitted networks": partial(_constraints, 7, b"\x0a\0\0\0\xff\0\0\0"),
    "permitted email addresses": partial(_constraints, 1, b"a@b.c"),
    "permitted email addresses with escapes": partial(_constraints, 1, b"\\a" * 30 + b"@c"),
    "permitted email addresses with periods": partial(_constraints, 1, b"a." * 30 + b"a@b"),
    "permitted hosts": partial(_constraints, 6, b"a.b"),
    "permitted hosts like IPv4": partial(_constraints, 6, b"1.2"),
    "permitted hosts like IPv6": partial(_constraints, 6, b"1:2:3:4:5:6:7:1.2.3.x"),
    "a long constraint": lambda size: _constraints(2, b"a." * (size // 2) + b"a", size + 5),
    "policies": lambda size: _with(
        extension("2.5.29.32", seq(*(seq(oid(f"1.2.{1000 + one}")) for one in range(size // 7))))
    ),
    "policy mappings": lambda size: _with(
        extension("2.5.29.33", seq(_repeated(seq(oid("1.2.3"), oid("1.2.4")), size)))
    ),
    "points of CRLs": lambda size: _with(extension("2.5.29.31", seq(_repeated(seq(), size)))),
    "URIs of a point": lambda size: _with(
        extension("2.5.29.31", seq(seq(tlv(0xA0, tlv(0xA0, _repeated(tlv(0x86, b"a:b"), size))))))
    ),
    "authority information": lambda size: _with(
        extension("1.3.6.1.5.5.7.1.1", seq(_repeated(seq(oid("1.2.3")), size)))
    ),
    "authority key": lambda size: _with(extension("2.5.29.35", seq(tlv(0x80, b"1" * size)))),
    "subject key": lambda size: _with(extension("2.5.29.14", tlv(4, b"1" * size))),
    "signature": _signature,
    "nothing but lengths": lambda size: seq(_repeated(b"\x30\x00", size)),
    "nested": _nested,
}
"""Certificates by the field that is large: each function takes its size in bytes."""


Names = Sequence[tuple[int, bytes]]


def constrained_chain(
    permitted: Names, names: Names, *, excluded: Names = (), depth: int = 1, subject: bytes = b""
) -> tuple[bytes, ...]:
    """Return a client with these names below nested CAs, all with the same constraints."""
    signers = [ROOT]
    for number in range(depth):
        constraints = name_constraints(permitted, excluded)
        signers.append(
            signers[-1].middle(f"ca {number}", basic_constraints(), constraints, key=_KEY)
        )
    draft = Draft(key=_KEY).with_usage(*([alternative_names(*names)] if names else []))
    own = signers[-1].sign(replace(draft, subject=subject) if subject else draft)
    return (own, *(one.der for one in reversed(signers[1:])))


def _domains(count: int, size: int = 6) -> list[tuple[int, bytes]]:
    """Return domains of which only the first has the name that hostile clients have."""
    return [(2, b"a"), *((2, b"%03d" % one + b"x" * (size - 3)) for one in range(count - 1))]


def _decoded_again(count: int) -> tuple[bytes, ...]:
    """Return a client with internationalized email addresses below constraints in Punycode."""
    domains = [
        (1, b"xn--" + bytes(97 + (one + 7 * at) % 26 for at in range(59))) for one in range(60)
    ]
    signer = ROOT.middle("ca", basic_constraints(), name_constraints((), domains), key=_KEY)
    address = tlv(0xA0, oid("1.3.6.1.5.5.7.8.9"), tlv(0xA0, utf8("a@b.c")))
    names = extension("2.5.29.17", seq(*[address] * count, tlv(0x82, b"a")))
    return (signer.sign(Draft(key=_KEY).with_usage(names)), signer.der)


_FAR_NETWORKS = [
    (7, b"\x80" + bytes(15) + ((1 << 128) - (1 << 128 - one)).to_bytes(16, "big"))
    for one in range(1, 129)
]
_NEAR_MISSES = [(2, b"y" + b"x" * 48)] * 240
_SUBJECT_OF_EMAILS = name((CN, utf8("alice")), *[(EMAIL, tlv(22, b"x@a.b"))] * 240)

CONSTRAINED: dict[str, Callable[[], tuple[bytes, ...]]] = {
    "6 CAs, 64 constraints, 60 names": lambda: constrained_chain(
        _domains(64), [(2, b"a")] * 60, depth=6
    ),
    "12 long constraints, 340 names": lambda: constrained_chain(
        _domains(12, 800), [(2, b"a")] * 340
    ),
    "2 CAs, 9 long constraints, 450 names": lambda: constrained_chain(
        _domains(9, 330), [(2, b"a")] * 450, depth=2
    ),
    "240 constraints, 240 names": lambda: constrained_chain(_domains(240), [(2, b"a")] * 240),
    "240 near misses, 240 names": lambda: constrained_chain(
        (), [(2, b"x" * 49)] * 240, excluded=_NEAR_MISSES
    ),
    "128 networks, 240 addresses": lambda: constrained_chain(
        (), [(7, b"\1" + bytes(15))] * 240, excluded=_FAR_NETWORKS
    ),
    "240 mailboxes, 240 email addresses": lambda: constrained_chain(
        [(1, b"a.b"), *((1, b"u%d@a.c" % one) for one in range(239))], [(1, b"x@a.b")] * 240
    ),
    "240 hosts, 240 URIs": lambda: constrained_chain(
        [(6, b"a.b"), *((6, b"u%d.c" % one) for one in range(239))], [(6, b"s://a.b/")] * 240
    ),
    "240 constraints, 240 email addresses of a subject": lambda: constrained_chain(
        [(1, b"a.b"), *((1, b"u%d.c" % one) for one in range(239))],
        (),
        subject=_SUBJECT_OF_EMAILS,
    ),
    "60 constraints in Punycode, 200 names": lambda: _decoded_again(200),
    "names within the budget": lambda: constrained_chain(_domains(70), [(2, b"a")] * 60),
    "long names within the budget": lambda: constrained_chain(
        [(2, b"x" * 49)], [(2, b"x" * 49)] * 90, excluded=_NEAR_MISSES[:20]
    ),
    "6 CAs within the budget": lambda: constrained_chain(_domains(12), [(2, b"a")] * 12, depth=6),
    "many names within the budget": lambda: constrained_chain([(2, b"a")], [(2, b"a")] * 300),
}
"""Chains whose names and constraints are many; those within the budget are believed."""
