"""Chains that clients may show, good and hostile, and what Go's verification says of each.

`tests/authentication/x509/test_chains.py` has Go confirm the table and judges each chain here;
`tests/e2e/test_certificate_chains.py` shows each to kube-apiserver and to the proxy.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from tests.support.forging import (
    ANY_USAGE,
    CLIENT_AUTH,
    CN,
    EMAIL,
    HOUR,
    NULL,
    ORG,
    SERVER_AUTH,
    SHA384,
    UID,
    Draft,
    Forger,
    Key,
    alternative_names,
    authority_key,
    basic_constraints,
    boolean,
    common_name,
    extension,
    generalized_time,
    integer,
    key_identifier,
    key_usage,
    name,
    name_constraints,
    new_key,
    now,
    oid,
    pss,
    seq,
    shifted,
    tlv,
    usages,
    utc_time,
    utf8,
    valid,
)

EMAIL_NAME, DNS_NAME, URI_NAME, IP_NAME = 1, 2, 6, 7
NETSCAPE_TYPE = extension("2.16.840.1.113730.1.1", tlv(3, b"\x07\x80"), critical=True)


@dataclass(frozen=True, slots=True)
class Chain:
    """What is shown, as DER, and the key of the first."""

    certificates: tuple[bytes, ...]
    key: Key

    def plus(self, *more: bytes) -> "Chain":
        """Return the chain with more certificates at its end."""
        return Chain((*self.certificates, *more), self.key)


@dataclass(frozen=True, slots=True)
class Case:
    """A chain, whether Go accepts it, and why it is refused here if it does."""

    make: Callable[[], Chain]
    is_accepted: bool
    stricter: str = ""
    ends_handshake: str = ""
    """Why the proxy ends its handshake, if Go does not. Judged without one, it is as in Go."""


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def dsa_key() -> dsa.DSAPrivateKey:
    return dsa.generate_private_key(1024)


ROOT = Forger.root("chain root")
RSA_ROOT = Forger.root("RSA root", key=rsa_key())
ED25519_ROOT = Forger.root("Ed25519 root", key=ed25519.Ed25519PrivateKey.generate())
P384_ROOT = Forger.root("P-384 root", key=ec.generate_private_key(ec.SECP384R1()))
DSA_ROOT = Forger.root("DSA root", key=dsa_key())
KEY_ID_ROOT = Forger.root("root with key id", basic_constraints(), key_identifier(b"\1" * 20))
NETSCAPE_ROOT = Forger.root("Netscape root", basic_constraints(), NETSCAPE_TYPE)
NOT_SIGNING_ROOT = Forger.root("not signing root", basic_constraints(), key_usage(b"\x07\x80"))
PLAIN_ROOT = Forger.root("root without constraints", key_identifier(b"\2" * 20))
NO_CA_ROOT = Forger.root("root that is no CA", basic_constraints(is_ca=False))
FIRST_VERSION_ROOT = Forger.of(
    Draft(subject=common_name("first version root"), version=b"", extensions=None)
)
CONSTRAINED_ROOT = Forger.root(
    "constrained root",
    basic_constraints(),
    name_constraints(
        permitted=[
            (DNS_NAME, b"example.com"),
            (DNS_NAME, b".below.org"),
            (EMAIL_NAME, b"example.com"),
            (EMAIL_NAME, b"alice@one.org"),
            (URI_NAME, b"example.com"),
            (IP_NAME, b"\x0a\x00\x00\x00\xff\x00\x00\x00"),
        ],
        excluded=[(DNS_NAME, b"secret.example.com"), (IP_NAME, b"\x0a\x01\0\0\xff\xff\0\0")],
    ),
)
UNMASKED_ROOT = Forger.root(
    "root with unmasked networks",
    basic_constraints(),
    name_constraints([(IP_NAME, b"\x09\0\0\0\xff\0\0\0"), (IP_NAME, b"\x0a\5\0\0\xff\0\0\0")]),
)
DIRECTORY_ROOT = Forger.root(
    "directory root",
    basic_constraints(),
    extension("2.5.29.30", seq(tlv(0xA0, seq(tlv(0xA4, common_name("x"))))), critical=True),
)
PINNED, PINNED_FOR_SERVERS = (
    Forger.root(f"pinned {kind}", usages(usage))
    for kind, usage in (("client", CLIENT_AUTH), ("server", SERVER_AUTH))
)
ROOTS = tuple(
    one.der
    for one in (
        ROOT,
        RSA_ROOT,
        ED25519_ROOT,
        P384_ROOT,
        DSA_ROOT,
        KEY_ID_ROOT,
        NETSCAPE_ROOT,
        NOT_SIGNING_ROOT,
        PLAIN_ROOT,
        NO_CA_ROOT,
        FIRST_VERSION_ROOT,
        CONSTRAINED_ROOT,
        UNMASKED_ROOT,
        DIRECTORY_ROOT,
        PINNED,
        PINNED_FOR_SERVERS,
    )
)


def shown(signer: Forger, draft: Draft | None = None, *between: Forger) -> Chain:
    """Return the chain of a client below a signer."""
    draft = draft or Draft().with_usage()
    return Chain((signer.sign(draft), *(one.der for one in between)), draft.key)


def client(**fields: object) -> Callable[[], Chain]:
    """Return a client of the usual root whose certificate has these fields."""
    return lambda: shown(ROOT, replace(Draft().with_usage(), **fields))  # type: ignore[arg-type]


def with_extensions(*extensions: bytes) -> Callable[[], Chain]:
    return lambda: shown(ROOT, Draft().with_usage(*extensions))


def named(*attributes: tuple[str, bytes]) -> Callable[[], Chain]:
    return client(subject=name(*attributes))


def text(tag: int, value: bytes) -> Callable[[], Chain]:
    return named((CN, tlv(tag, value)))


def validity(first: bytes, last: bytes) -> Callable[[], Chain]:
    return client(validity=seq(first, last))


def below(signer: Forger, *extensions: bytes) -> Callable[[], Chain]:
    return lambda: shown(signer, Draft().with_usage(*extensions))


def between(*extensions: bytes, key: Key | None = None) -> Callable[[], Chain]:
    """Return a client below a CA that the root has signed, with these extensions."""

    def make() -> Chain:
        middle = ROOT.middle("middle", *(extensions or (basic_constraints(),)), key=key)
        return shown(middle, None, middle)

    return make


def signed_with(algorithm: bytes, signer: Forger = ROOT) -> Callable[[], Chain]:
    return lambda: shown(signer, replace(Draft().with_usage(), algorithm=algorithm))


def with_names(*names: tuple[int, bytes], critical: bool = False) -> Callable[[], Chain]:
    return with_extensions(alternative_names(*names, critical=critical))


def constrained(
    *names: tuple[int, bytes], signer: Forger = CONSTRAINED_ROOT
) -> Callable[[], Chain]:
    return below(signer, *([alternative_names(*names)] if names else []))


def critical(kind: str, value: bytes = NULL) -> Callable[[], Chain]:
    return with_extensions(extension(kind, value, critical=True))


def retagged_issuer(issuer: bytes) -> Callable[[], Chain]:
    return client(issuer=issuer)


def in_hours(hours: float) -> bytes:
    return utc_time(now() + hours * HOUR)


def minutes_only(hours: float) -> bytes:
    return tlv(0x17, (now() + hours * HOUR).strftime("%y%m%d%H%MZ").encode())


def with_offset(hours: float, offset: str) -> bytes:
    return tlv(0x17, (now() + hours * HOUR).strftime("%y%m%d%H%M%S").encode() + offset.encode())


def compressed(key: ec.EllipticCurvePrivateKey) -> bytes:
    point = key.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint
    )
    curve = seq(oid("1.2.840.10045.2.1"), oid("1.2.840.10045.3.1.7"))
    return seq(curve, tlv(3, b"\0" + point))


def padded_point(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key whose bits are shifted, as only Go reads it."""
    point = key.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    return seq(seq(oid("1.2.840.10045.2.1"), oid("1.2.840.10045.3.1.7")), shifted(point, 3))


def padded_middle() -> Chain:
    """Return a client below a CA whose key is not whole bytes."""
    key = new_key()
    draft = Draft(
        subject=common_name("middle"),
        key=key,
        key_info=padded_point(key),
        extensions=(basic_constraints(),),
    )
    signer = ROOT.below(draft)
    return shown(signer, None, signer)


def rsa_info(modulus: int, exponent: int, parameters: bytes = NULL) -> bytes:
    numbers = seq(integer(modulus), integer(exponent))
    return seq(seq(oid("1.2.840.113549.1.1.1"), parameters), tlv(3, b"\0" + numbers))


def rsa_without_parameters() -> Chain:
    numbers = rsa_key().public_key().public_numbers()
    info = rsa_info(numbers.n, numbers.e, b"")
    return shown(ROOT, replace(Draft().with_usage(), key=rsa_key(), key_info=info))


def compressed_client() -> Chain:
    key = new_key()
    return shown(ROOT, replace(Draft().with_usage(), key=key, key_info=compressed(key)))


def keyed(key: Callable[[], Key]) -> Callable[[], Chain]:
    return lambda: shown(ROOT, replace(Draft().with_usage(), key=key()))


def extra(certificate: Callable[[], bytes]) -> Callable[[], Chain]:
    """Return a good chain with one more certificate, which nobody needs."""
    return lambda: shown(ROOT).plus(certificate())


def with_tail() -> Chain:
    chain = shown(ROOT)
    return Chain((chain.certificates[0] + b"\0",), chain.key)


def spoilt() -> Chain:
    chain = shown(ROOT)
    own = bytearray(chain.certificates[0])
    own[-1] ^= 1
    return Chain((bytes(own),), chain.key)


def cross_signed(*, with_root: bool) -> Chain:
    stranger = Forger.root("stranger")
    draft = Draft(subject=common_name("crossed"), extensions=(basic_constraints(),))
    strange, good = stranger.below(draft), ROOT.below(draft)
    chain = shown(strange, None, strange)
    return chain.plus(good.der) if with_root else chain


def loop(*, with_way_out: bool) -> Chain:
    one = Draft(subject=common_name("one"), extensions=(basic_constraints(),))
    two = Draft(subject=common_name("two"), extensions=(basic_constraints(),))
    first, second = Forger(one.subject, one.key), Forger(two.subject, two.key)
    chain = shown(first).plus(second.sign(one), first.sign(two))
    return chain.plus(ROOT.sign(two)) if with_way_out else chain


def deep(count: int, *, lengths: dict[int, int] | None = None) -> Callable[[], Chain]:
    """Return a client below so many CAs; the first is the root's own, lengths by position."""

    def make() -> Chain:
        signers = [ROOT]
        for number in range(count):
            length = (lengths or {}).get(number)
            signers.append(
                signers[-1].middle(f"ca {number}", basic_constraints(path_length=length))
            )
        return shown(signers[-1], None, *reversed(signers[1:]))

    return make


def mixed_up() -> Chain:
    """Return a chain of three CAs, the highest first."""
    chain = deep(3)()
    own, *others = chain.certificates
    return Chain((own, *reversed(others)), chain.key)


def client_twice() -> Chain:
    chain = shown(ROOT)
    return chain.plus(chain.certificates[0])


def by_itself() -> Chain:
    own = Forger.root("alice", usages(CLIENT_AUTH))
    return Chain((own.der,), own.key)


def namesake_first() -> Chain:
    """Return a chain with a CA of the right name and another key before the right one."""
    right, wrong = ROOT.middle("middle"), ROOT.middle("middle")
    return shown(right, None, wrong, right)


def rolled_over() -> Chain:
    """Return a client below a CA that has the root's name and another key."""
    middle = ROOT.middle("chain root")
    return shown(middle, None, middle)


def first_version_middle() -> Chain:
    middle = ROOT.below(Draft(subject=common_name("middle"), version=b"", extensions=None))
    return shown(middle, None, middle)


def policy(*kinds: str) -> bytes:
    return extension("2.5.29.32", seq(*(seq(oid(kind)) for kind in kinds)))


def policy_chain(own: tuple[bytes, ...], middle: tuple[bytes, ...]) -> Callable[[], Chain]:
    def make() -> Chain:
        signer = ROOT.middle("middle", basic_constraints(), *middle)
        return shown(signer, Draft().with_usage(*own), signer)

    return make


def constrained_middle(
    constraints: bytes, own: tuple[tuple[int, bytes], ...]
) -> Callable[[], Chain]:
    def make() -> Chain:
        signer = ROOT.middle("middle", basic_constraints(), constraints)
        names = [alternative_names(*own)] if own else []
        return shown(signer, Draft().with_usage(*names), signer)

    return make


def middle_with_names() -> Chain:
    """Return a client whose CA has a name that the root does not permit."""
    names = alternative_names((DNS_NAME, b"elsewhere.net"))
    signer = CONSTRAINED_ROOT.middle("middle", basic_constraints(), names)
    return shown(signer, None, signer)


BAD_DER = "OpenSSL parses more strictly than Go"
NAMESAKES = "OpenSSL takes the anchor of a name before a CA of the same name that was shown"
POLICIES = "whoever demands or maps policies is not believed"
TIMES = "RFC 5280 knows one form of each time; OpenSSL refuses the others, too"
EXCLUDED = "an excluded network excludes all addresses that agree with it, mapped or not"
KEYS = "before OpenSSL decodes a key, it must be of a kind that is known to be cheap"
PADDING = "OpenSSL reads other bits than Go"
PSS = "OpenSSL takes one form of the parameters"
PLAIN_HOSTS = "only hosts of plain URIs are compared"
MAPPED = bytes(10) + b"\xff\xff"
ALL_OF_IPV6 = (IP_NAME, bytes(32))
WORDS = b"\x1c" + bytes([4 * 5]) + "alice".encode("utf-32-be")
REQUIRE_POLICY = extension("2.5.29.36", seq(tlv(0x80, b"\0")), critical=True)
MAPPING = extension("2.5.29.33", seq(seq(oid("1.2.3"), oid("1.2.4"))))
BIG_OID = tlv(6, b"\x2a\x90\x80\x80\x80\x00")
YES, NO = True, False

NAMES: dict[str, Case] = {
    "a name": Case(client(), YES),
    "groups": Case(named((CN, utf8("alice")), (ORG, utf8("b")), (ORG, utf8("a"))), YES),
    "groups and names mixed": Case(
        named((ORG, utf8("b")), (CN, utf8("x")), (ORG, utf8("a")), (CN, utf8("alice"))), YES
    ),
    "one group twice": Case(named((CN, utf8("alice")), (ORG, utf8("a")), (ORG, utf8("a"))), YES),
    "all in one part": Case(
        client(subject=seq(tlv(0x31, seq(oid(CN), utf8("alice")), seq(oid(ORG), utf8("a"))))),
        YES,
    ),
    "parts of a set out of order": Case(
        client(subject=seq(tlv(0x31, seq(oid(ORG), utf8("a")), seq(oid(CN), utf8("alice"))))),
        YES,
    ),
    "an empty part": Case(
        client(subject=seq(tlv(0x31), tlv(0x31, seq(oid(CN), utf8("alice"))))), YES
    ),
    "a uid": Case(named((CN, utf8("alice")), (UID, utf8("u-1"))), YES),
    "an email address in the subject": Case(
        named((CN, utf8("alice")), (EMAIL, tlv(22, b"a@b.c"))), YES
    ),
    "an unknown attribute": Case(named((CN, utf8("alice")), ("1.2.3.4", utf8("x"))), YES),
    "an attribute Go cannot number": Case(
        client(subject=seq(tlv(0x31, seq(BIG_OID, utf8("x"))), common_name("alice")[2:])), NO
    ),
    "T61String": Case(text(20, b"j\xfcrgen"), YES),
    "T61String as a group": Case(named((CN, utf8("alice")), (ORG, tlv(20, b"j\xfcrgen"))), YES),
    "BMPString": Case(text(30, "älice".encode("utf-16-be")), YES),
    "BMPString with an end": Case(text(30, "alice\0".encode("utf-16-be")), YES),
    "half a BMPString": Case(text(30, b"\0a\0"), NO),
    "BMPString with a surrogate": Case(text(30, b"\xd8\x00\xdc\x00"), NO),
    "BMPString with a noncharacter": Case(text(30, b"\0a\xff\xfe"), NO),
    "BMPString with a reserved one": Case(text(30, b"\0a\xfd\xd0"), NO),
    "IA5String": Case(text(22, b"alice"), YES),
    "IA5String that is not": Case(text(22, b"al\xefce"), NO),
    "NumericString": Case(text(18, b"12 34"), YES),
    "NumericString that is not": Case(text(18, b"12a"), NO),
    "PrintableString": Case(text(19, b"alice.b-c"), YES),
    "PrintableString with an asterisk": Case(text(19, b"*alice&"), YES),
    "PrintableString with an at": Case(text(19, b"alice@b"), NO),
    "PrintableString with an underscore": Case(text(19, b"alice_b"), NO),
    "UniversalString": Case(named((CN, WORDS)), NO),
    "UniversalString as a group": Case(named((CN, utf8("alice")), (ORG, WORDS)), NO),
    "UniversalString in another attribute": Case(
        named((CN, utf8("alice")), ("2.5.4.11", WORDS)), NO
    ),
    "VisibleString": Case(text(26, b"alice"), NO),
    "GeneralString": Case(text(27, b"alice"), NO),
    "an OCTET STRING for a name": Case(text(4, b"alice"), NO),
    "UTF8String that is not": Case(text(12, b"al\xffce"), NO),
    "a surrogate in UTF8String": Case(text(12, b"\xed\xa0\x80"), NO),
    "an issuer written in another type": Case(
        retagged_issuer(name((CN, tlv(19, b"chain root")))), NO
    ),
    "an issuer in capitals": Case(retagged_issuer(common_name("Chain Root")), NO),
    "an issuer with another blank": Case(retagged_issuer(common_name("chain  root")), NO),
}

FIELDS: dict[str, Case] = {
    "a negative serial": Case(client(serial=tlv(2, b"\xff")), NO),
    "a serial of zero": Case(client(serial=integer(0)), YES),
    "a serial of forty bytes": Case(client(serial=tlv(2, b"\x01" * 40)), YES),
    "a serial of twenty bytes": Case(client(serial=tlv(2, b"\x01" * 20)), YES),
    "a serial longer than needed": Case(client(serial=tlv(2, b"\0\1")), NO),
    "no version, no extensions": Case(client(version=b"", extensions=None), YES),
    "version 1, written": Case(client(version=tlv(0xA0, integer(0)), extensions=None), YES),
    "version 1 with extensions for servers": Case(
        client(version=b"", extensions=(usages(SERVER_AUTH),)), YES
    ),
    "version 2": Case(client(version=tlv(0xA0, integer(1)), extensions=None), YES),
    "version 4": Case(client(version=tlv(0xA0, integer(3))), NO),
    "a negative version": Case(client(version=tlv(0xA0, tlv(2, b"\xff"))), NO),
    "unique ids": Case(client(unique_ids=tlv(0x81, b"\0\1") + tlv(0x82, b"\0\2")), YES),
    "something after the extensions": Case(client(tail=NULL), YES, BAD_DER),
    "GeneralizedTime before 2050": Case(
        validity(generalized_time(now() - HOUR), generalized_time(now() + HOUR)), YES
    ),
    "until the year 9999": Case(validity(in_hours(-1), tlv(0x18, b"99991231235959Z")), YES),
    "a time without seconds": Case(validity(minutes_only(-1), in_hours(1)), YES, TIMES),
    "a time in another zone": Case(validity(with_offset(-9, "+0100"), in_hours(9)), YES, TIMES),
    "a time with a zone of zero": Case(validity(with_offset(-1, "+0000"), in_hours(1)), NO),
    "a time with a fraction": Case(validity(tlv(0x18, b"20200101000000.5Z"), in_hours(1)), NO),
    "a month that is none": Case(validity(tlv(0x17, b"201301000000Z"), in_hours(1)), NO),
    "a time in words": Case(validity(utf8("yesterday"), in_hours(1)), NO),
    "ended": Case(client(validity=valid(-3, -1)), NO),
    "not begun": Case(client(validity=valid(1, 3)), NO),
    "ends before it begins": Case(client(validity=valid(1, -1)), NO),
    "begun in the year 0": Case(validity(tlv(0x18, b"00000101000000Z"), in_hours(1)), YES),
    "ended in the year 0": Case(validity(in_hours(-1), tlv(0x18, b"00000229000000Z")), NO),
    "a day that year 0 did not have": Case(
        validity(tlv(0x18, b"00000230000000Z"), in_hours(1)), NO
    ),
    "begun in 1950": Case(validity(tlv(0x17, b"500101000000Z"), in_hours(1)), YES),
    "an empty subject": Case(client(subject=seq()), NO),
    "a tail": Case(with_tail, NO),
}

EXTENSIONS: dict[str, Case] = {
    "no extensions": Case(client(extensions=None), YES),
    "no usage": Case(client(extensions=(basic_constraints(is_ca=False),)), YES),
    "usage for clients, critical": Case(
        client(extensions=(usages(CLIENT_AUTH, critical=True),)), YES
    ),
    "any usage": Case(client(extensions=(usages(ANY_USAGE),)), YES),
    "many usages": Case(client(extensions=(usages(SERVER_AUTH, "1.2.3", CLIENT_AUTH),)), YES),
    "usage for servers": Case(client(extensions=(usages(SERVER_AUTH),)), NO),
    "unknown usage": Case(client(extensions=(usages("1.2.3"),)), NO),
    "a list of no usages": Case(client(extensions=(usages(),)), YES),
    "a usage Go cannot number": Case(
        client(extensions=(extension("2.5.29.37", seq(oid(CLIENT_AUTH), BIG_OID)),)), NO
    ),
    "an extension twice": Case(client(extensions=(usages(CLIENT_AUTH),) * 2), NO),
    "an unknown extension twice": Case(with_extensions(*[extension("1.2.3.4", NULL)] * 2), NO),
    "an unknown extension": Case(with_extensions(extension("1.2.3.4", NULL)), YES),
    "an unknown extension, critical": Case(critical("1.2.3.4"), NO),
    "Netscape type": Case(
        with_extensions(extension("2.16.840.1.113730.1.1", tlv(3, b"\x07\x80"))), YES
    ),
    "Netscape type, critical": Case(with_extensions(NETSCAPE_TYPE), NO),
    "Netscape comment, critical": Case(critical("2.16.840.1.113730.1.13", tlv(22, b"x")), NO),
    "issuer's names, critical": Case(critical("2.5.29.18", seq(tlv(0x82, b"a.b"))), NO),
    "freshest CRL, critical": Case(critical("2.5.29.46", seq()), NO),
    "no check of revocation, critical": Case(critical("1.3.6.1.5.5.7.48.1.5"), NO),
    "TLS feature, critical": Case(critical("1.3.6.1.5.5.7.1.24", seq(integer(5))), NO),
    "addresses, critical": Case(critical("1.3.6.1.5.5.7.1.7", seq(seq(tlv(4, b"\0\1"), NULL))), NO),
    "proxy certificate, critical": Case(
        critical("1.3.6.1.5.5.7.1.14", seq(seq(oid("1.3.6.1.5.5.7.21.1")))), NO
    ),
    "a precertificate": Case(critical("1.3.6.1.4.1.11129.2.4.3"), NO),
    "points of CRLs, critical": Case(
        critical("2.5.29.31", seq(seq(tlv(0xA0, tlv(0xA0, tlv(0x86, b"http://a.b/c")))))),
        YES,
    ),
    "points of CRLs that are none": Case(with_extensions(extension("2.5.29.31", NULL)), NO),
    "authority information, critical": Case(critical("1.3.6.1.5.5.7.1.1", seq()), NO),
    "authority information": Case(
        with_extensions(
            extension(
                "1.3.6.1.5.5.7.1.1",
                seq(seq(oid("1.3.6.1.5.5.7.48.1"), tlv(0x86, b"http://a.b"))),
            )
        ),
        YES,
    ),
    "authority information that is none": Case(
        with_extensions(extension("1.3.6.1.5.5.7.1.1", seq(NULL))), NO
    ),
    "an authority's key, critical": Case(critical("2.5.29.35", seq()), NO),
    "a subject's key, critical": Case(critical("2.5.29.14", tlv(4, b"1")), NO),
    "a subject's key that is none": Case(with_extensions(extension("2.5.29.14", NULL)), NO),
    "an authority's key that is none": Case(with_extensions(extension("2.5.29.35", NULL)), NO),
    "critical, written oddly": Case(
        with_extensions(seq(oid("1.2.3.4"), boolean(b"\1"), tlv(4, NULL))), NO
    ),
    "not critical, written out": Case(
        with_extensions(seq(oid("1.2.3.4"), boolean(b"\0"), tlv(4, NULL))), YES
    ),
    "key usage": Case(with_extensions(key_usage(b"\x07\x80")), YES),
    "key usage for encryption": Case(with_extensions(key_usage(b"\x05\x20")), YES),
    "key usage of nothing": Case(with_extensions(key_usage(b"\x07\x00")), YES, BAD_DER),
    "key usage that is none": Case(with_extensions(extension("2.5.29.15", NULL)), NO),
    "key usage with dirty padding": Case(with_extensions(key_usage(b"\x07\x81")), NO),
    "a client that is a CA": Case(with_extensions(basic_constraints()), YES),
    "a negative path length": Case(
        with_extensions(extension("2.5.29.19", seq(boolean(), integer(-1)))), NO
    ),
    "a path length above 64 bits": Case(
        with_extensions(extension("2.5.29.19", seq(boolean(), integer(1 << 70)))), NO
    ),
    "constraints that are none": Case(with_extensions(extension("2.5.29.19", NULL)), NO),
    "policies": Case(with_extensions(policy("1.2.3", "1.2.4")), YES),
    "a policy of a large number": Case(
        with_extensions(extension("2.5.29.32", seq(seq(BIG_OID)))), YES
    ),
    "a policy that is none": Case(
        with_extensions(extension("2.5.29.32", seq(seq(tlv(6, b"\x2a\x80\x01"))))), NO
    ),
    "a policy twice": Case(with_extensions(policy("1.2.3", "1.2.3")), NO),
    "policies demanded by the client": Case(with_extensions(REQUIRE_POLICY), NO),
    "policies demanded above, and there": Case(
        policy_chain((policy("1.2.3"),), (policy("1.2.3"), REQUIRE_POLICY)), YES, POLICIES
    ),
    "policies demanded above, not there": Case(policy_chain((), (REQUIRE_POLICY,)), NO),
    "policies mapped": Case(
        policy_chain((policy("1.2.4"),), (policy("1.2.3"), MAPPING)), YES, POLICIES
    ),
    "any policy inhibited": Case(critical("2.5.29.54", integer(0)), YES),
    "inhibited by no number": Case(with_extensions(extension("2.5.29.54", NULL)), NO),
}

ALTERNATIVE_NAMES: dict[str, Case] = {
    "DNS name": Case(with_names((DNS_NAME, b"a.example.com")), YES),
    "DNS name, critical": Case(with_names((DNS_NAME, b"a.example.com"), critical=True), YES),
    "a DNS name that is not ASCII": Case(with_names((DNS_NAME, b"\xe4.b")), NO),
    "a DNS name that is none": Case(with_names((DNS_NAME, b"not a name..")), YES),
    "an email address": Case(with_names((EMAIL_NAME, b"alice@example.com")), YES),
    "an email address that is none": Case(with_names((EMAIL_NAME, b"@@")), YES),
    "IPv4": Case(with_names((IP_NAME, b"\x0a\0\0\1")), YES),
    "IPv6": Case(with_names((IP_NAME, b"\0" * 15 + b"\1")), YES),
    "an address of five bytes": Case(with_names((IP_NAME, b"\0" * 5)), NO),
    "a URI": Case(with_names((URI_NAME, b"spiffe://example.com/ns/a/sa/b")), YES),
    "a URI with a port": Case(with_names((URI_NAME, b"https://example.com:8443/x?y=z")), YES),
    "a URN": Case(with_names((URI_NAME, b"urn:uuid:6ba7b810-9dad-11d1")), YES),
    "a URI that is none": Case(with_names((URI_NAME, b"http://[::1")), NO),
    "a URI with a control character": Case(with_names((URI_NAME, b"http://a.b/\x7f")), NO),
    "a URI with a bad escape": Case(with_names((URI_NAME, b"http://a.b/%zz")), NO),
    "a URI with a bad port": Case(with_names((URI_NAME, b"http://a.b:x/")), NO),
    "a URI with an empty label": Case(with_names((URI_NAME, b"http://a..b/")), NO),
    "a URI with an IPv6 host": Case(with_names((URI_NAME, b"https://[::1]/")), YES),
    "a URI with a zone": Case(
        with_names((URI_NAME, b"https://[fe80::1%25eth0]/")), YES, "zones are not read"
    ),
    "a URI with a user": Case(with_names((URI_NAME, b"https://a:b@example.com/")), YES),
    "a relative URI": Case(with_names((URI_NAME, b"a/b")), YES),
    "a relative URI that is none": Case(with_names((URI_NAME, b"a:b/c:d%")), YES),
    "a relative URI with a colon": Case(with_names((URI_NAME, b"1a:b/c")), NO),
    "names of no known kind": Case(
        with_extensions(extension("2.5.29.17", seq(tlv(0x88, b"\x2a\3")))), YES
    ),
    "names of no known kind, critical": Case(critical("2.5.29.17", seq(tlv(0x88, b"\x2a\3"))), NO),
    "names that are none": Case(with_extensions(extension("2.5.29.17", NULL)), NO),
}

CONSTRAINTS: dict[str, Case] = {
    "permitted, and no names": Case(constrained(), YES),
    "a permitted DNS name": Case(constrained((DNS_NAME, b"a.example.com")), YES),
    "a permitted DNS name in capitals": Case(constrained((DNS_NAME, b"A.EXAMPLE.COM")), YES),
    "the permitted DNS name itself": Case(constrained((DNS_NAME, b"example.com")), YES),
    "a DNS name that only ends so": Case(constrained((DNS_NAME, b"anexample.com")), NO),
    "another DNS name": Case(constrained((DNS_NAME, b"example.org")), NO),
    "an excluded DNS name": Case(constrained((DNS_NAME, b"a.secret.example.com")), NO),
    "a wildcard above an excluded one": Case(constrained((DNS_NAME, b"*.example.com")), NO),
    "a wildcard beside an excluded one": Case(constrained((DNS_NAME, b"*.b.example.com")), YES),
    "below a leading period": Case(constrained((DNS_NAME, b"x.below.org")), YES),
    "at a leading period": Case(constrained((DNS_NAME, b"below.org")), NO),
    "a DNS name that cannot be compared": Case(constrained((DNS_NAME, b"a..example.com")), NO),
    "a DNS name with a final period": Case(constrained((DNS_NAME, b"example.com.")), NO),
    "one name permitted, one not": Case(
        constrained((DNS_NAME, b"example.com"), (DNS_NAME, b"other.org")), NO
    ),
    "a permitted email address": Case(constrained((EMAIL_NAME, b"bob@example.com")), YES),
    "the one permitted email address": Case(constrained((EMAIL_NAME, b"alice@one.org")), YES),
    "another of its domain": Case(constrained((EMAIL_NAME, b"bob@one.org")), NO),
    "an email address that cannot be compared": Case(constrained((EMAIL_NAME, b"bob")), NO),
    "a permitted URI": Case(constrained((URI_NAME, b"https://example.com/a")), YES),
    "a permitted URI with a port": Case(constrained((URI_NAME, b"https://example.com:1/a")), YES),
    "another URI": Case(constrained((URI_NAME, b"https://example.org/a")), NO),
    "a URI of an address": Case(constrained((URI_NAME, b"https://10.0.0.1/a")), NO),
    "a URI without a host": Case(constrained((URI_NAME, b"urn:a:b")), NO),
    "a permitted address": Case(constrained((IP_NAME, b"\x0a\2\0\1")), YES),
    "an excluded address": Case(constrained((IP_NAME, b"\x0a\1\0\1")), NO),
    "another address": Case(constrained((IP_NAME, b"\x0b\0\0\1")), NO),
    "an address of the other family": Case(constrained((IP_NAME, b"\0" * 16)), NO),
    "an address beside an unmasked network": Case(
        constrained((IP_NAME, b"\x0a\1\0\1"), signer=UNMASKED_ROOT), NO
    ),
    "an address in an unmasked network": Case(
        constrained((IP_NAME, b"\x0a\6\0\1"), signer=UNMASKED_ROOT), YES
    ),
    "a mapped address, all of IPv6 permitted": Case(
        constrained_middle(name_constraints([ALL_OF_IPV6]), ((IP_NAME, MAPPED + b"\x0a\0\0\1"),)),
        NO,
    ),
    "an address of IPv6, all of IPv6 permitted": Case(
        constrained_middle(
            name_constraints([ALL_OF_IPV6]), ((IP_NAME, b"\x20\1\x0d\xb8" + bytes(12)),)
        ),
        YES,
    ),
    "an address of IPv6, a mapped network permitted": Case(
        constrained_middle(
            name_constraints([(IP_NAME, MAPPED + b"\1\2\3\4" + bytes(16))]),
            ((IP_NAME, b"\x20\1\x0d\xb8" + bytes(12)),),
        ),
        NO,
    ),
    "a mapped address, a mapped network permitted": Case(
        constrained_middle(
            name_constraints([(IP_NAME, MAPPED + b"\1\2\3\4" + bytes(16))]),
            ((IP_NAME, MAPPED + b"\x0a\0\0\1"),),
        ),
        YES,
    ),
    "a mapped address, all of IPv6 excluded": Case(
        constrained_middle(
            name_constraints((), [ALL_OF_IPV6]), ((IP_NAME, MAPPED + b"\x0a\0\0\1"),)
        ),
        YES,
        EXCLUDED,
    ),
    "an email address in quotes": Case(constrained((EMAIL_NAME, b'"bob"@example.com')), YES),
    "the one permitted email address in quotes": Case(
        constrained((EMAIL_NAME, b'"alice"@one.org')), YES, "OpenSSL does not unquote"
    ),
    "the excluded email address in quotes": Case(
        constrained_middle(
            name_constraints((), [(EMAIL_NAME, b"bob@a.org")]), ((EMAIL_NAME, b'"bo\\b"@a.org'),)
        ),
        NO,
    ),
    "an email address without a domain": Case(
        constrained_middle(name_constraints([(EMAIL_NAME, b"")]), ((EMAIL_NAME, b"x@"),)), YES
    ),
    "a constraint of email without a domain": Case(
        constrained_middle(name_constraints([(EMAIL_NAME, b"x@")]), ((DNS_NAME, b"a.org"),)), YES
    ),
    "an email address with an empty label": Case(constrained((EMAIL_NAME, b"x@a..b")), NO),
    "a constraint of URIs with a colon": Case(
        constrained_middle(name_constraints([(URI_NAME, b"a:b")]), ()), YES
    ),
    "a URI below a constraint with a colon": Case(
        constrained_middle(name_constraints([(URI_NAME, b"a:1")]), ((URI_NAME, b"s://a:1/"),)), NO
    ),
    "a permitted URI with a user": Case(
        constrained((URI_NAME, b"https://a:b@example.com/")), YES, PLAIN_HOSTS
    ),
    "a permitted URI of digits": Case(
        constrained_middle(name_constraints([(URI_NAME, b"2.3")]), ((URI_NAME, b"s://1.2.3/"),)),
        YES,
        PLAIN_HOSTS,
    ),
    "directory names, critical": Case(constrained(signer=DIRECTORY_ROOT), NO),
    "a CA between with another name": Case(middle_with_names, NO),
    "constraints between, kept": Case(
        constrained_middle(name_constraints([(DNS_NAME, b"a.org")]), ((DNS_NAME, b"x.a.org"),)),
        YES,
    ),
    "constraints between, broken": Case(
        constrained_middle(name_constraints([(DNS_NAME, b"a.org")]), ((DNS_NAME, b"b.org"),)), NO
    ),
    "constraints between, not critical, broken": Case(
        constrained_middle(
            name_constraints([(DNS_NAME, b"a.org")], critical=False), ((DNS_NAME, b"b.org"),)
        ),
        NO,
    ),
    "everything permitted": Case(
        constrained_middle(name_constraints([(DNS_NAME, b"")]), ((DNS_NAME, b"b.org"),)), YES
    ),
    "everything excluded": Case(
        constrained_middle(name_constraints((), [(DNS_NAME, b"")]), ((DNS_NAME, b"b.org"),)), NO
    ),
    "a mask with holes": Case(
        constrained_middle(name_constraints([(IP_NAME, b"\x0a\0\0\0\xff\0\xff\0")]), ()), NO
    ),
    "a network of six bytes": Case(
        constrained_middle(name_constraints([(IP_NAME, b"\x0a\0\0\xff\0\0")]), ()), NO
    ),
    "constraints without any": Case(
        constrained_middle(extension("2.5.29.30", seq(), critical=True), ()), NO
    ),
    "a constraint of URIs that is an address": Case(
        constrained_middle(name_constraints([(URI_NAME, b"10.0.0.1")]), ()), NO
    ),
    "a constraint of email that is none": Case(
        constrained_middle(name_constraints([(EMAIL_NAME, b"a@b@c..")]), ()), NO
    ),
    "a constraint of DNS that is none": Case(
        constrained_middle(name_constraints([(DNS_NAME, b"a..b")]), ()), NO
    ),
}

KEYS_AND_SIGNATURES: dict[str, Case] = {
    "a client with RSA": Case(keyed(rsa_key), YES),
    "a client with RSA, 1024 bits": Case(keyed(lambda: rsa_key(1024)), YES),
    "a client on P-384": Case(keyed(lambda: ec.generate_private_key(ec.SECP384R1())), YES),
    "a client on P-521": Case(keyed(lambda: ec.generate_private_key(ec.SECP521R1())), YES),
    "a client with Ed25519": Case(keyed(ed25519.Ed25519PrivateKey.generate), YES),
    "RSA without NULL": Case(rsa_without_parameters, NO),
    "a compressed point": Case(compressed_client, NO),
    "below RSA": Case(below(RSA_ROOT), YES),
    "below Ed25519": Case(below(ED25519_ROOT), YES),
    "below P-384": Case(below(P384_ROOT), YES),
    "below DSA": Case(below(DSA_ROOT), NO),
    "a CA between with DSA": Case(between(key=dsa_key()), NO, ends_handshake=KEYS),
    "a CA between on secp256k1": Case(between(key=ec.generate_private_key(ec.SECP256K1())), NO),
    "a CA between on brainpoolP256r1": Case(
        between(key=ec.generate_private_key(ec.BrainpoolP256R1())), NO
    ),
    "a CA between on P-384": Case(between(key=ec.generate_private_key(ec.SECP384R1())), YES),
    "a CA between on P-521": Case(between(key=ec.generate_private_key(ec.SECP521R1())), YES),
    "a CA between with RSA": Case(between(key=rsa_key()), YES),
    "a CA between with Ed25519": Case(between(key=ed25519.Ed25519PrivateKey.generate()), YES),
    "ECDSA with SHA-384": Case(signed_with(seq(oid("1.2.840.10045.4.3.3"))), YES),
    "ECDSA with SHA-512": Case(signed_with(seq(oid("1.2.840.10045.4.3.4"))), YES),
    "ECDSA with SHA-1": Case(signed_with(seq(oid("1.2.840.10045.4.1"))), NO),
    "ECDSA with SHA-224": Case(signed_with(seq(oid("1.2.840.10045.4.3.1"))), NO),
    "ECDSA with SHA3-256": Case(signed_with(seq(oid("2.16.840.1.101.3.4.3.10"))), NO),
    "ECDSA with parameters": Case(signed_with(seq(oid("1.2.840.10045.4.3.2"), NULL)), YES),
    "RSA with SHA-512": Case(signed_with(seq(oid("1.2.840.113549.1.1.13"), NULL), RSA_ROOT), YES),
    "RSA with SHA-1": Case(signed_with(seq(oid("1.2.840.113549.1.1.5"), NULL), RSA_ROOT), NO),
    "RSA with SHA-224": Case(signed_with(seq(oid("1.2.840.113549.1.1.14"), NULL), RSA_ROOT), NO),
    "RSA-PSS": Case(signed_with(pss(), RSA_ROOT), YES),
    "RSA-PSS with a short salt": Case(signed_with(pss(salt=20), RSA_ROOT), NO),
    "RSA-PSS with another mask": Case(signed_with(pss(mask=SHA384), RSA_ROOT), NO),
    "RSA-PSS with something after the hash": Case(
        signed_with(pss(after=(NULL, b"", b"")), RSA_ROOT), NO
    ),
    "RSA-PSS with something after the mask": Case(
        signed_with(pss(after=(b"", NULL, b"")), RSA_ROOT), NO
    ),
    "RSA-PSS with something after the salt": Case(
        signed_with(pss(after=(b"", b"", NULL)), RSA_ROOT), NO
    ),
    "RSA-PSS with its trailer": Case(
        signed_with(pss(tail=tlv(0xA3, integer(1))), RSA_ROOT), YES, PSS
    ),
    "RSA-PSS with another trailer": Case(
        signed_with(pss(tail=tlv(0xA3, integer(2))), RSA_ROOT), NO
    ),
    "RSA-PSS with more in its hash": Case(
        signed_with(pss(more=(NULL, b"", b"")), RSA_ROOT), YES, PSS
    ),
    "RSA-PSS with more in its mask": Case(
        signed_with(pss(more=(b"", NULL, b"")), RSA_ROOT), YES, PSS
    ),
    "RSA-PSS with more in its mask's hash": Case(
        signed_with(pss(more=(b"", b"", NULL)), RSA_ROOT), YES, PSS
    ),
    "RSA-PSS with something after all": Case(signed_with(pss(end=NULL), RSA_ROOT), YES, PSS),
    "a signature with padding": Case(client(signature_padding=2), YES, PADDING),
    "a CA between with a padded key": Case(padded_middle, YES, PADDING),
    "Ed25519 with parameters": Case(signed_with(seq(oid("1.3.101.112"), NULL), ED25519_ROOT), NO),
    "two algorithms": Case(client(outer_algorithm=seq(oid("1.2.840.10045.4.3.3"))), NO),
    "an algorithm of another kind of key": Case(
        signed_with(seq(oid("1.2.840.10045.4.3.2")), ED25519_ROOT), NO
    ),
    "a spoilt signature": Case(spoilt, NO),
    "signed by nobody's key": Case(lambda: shown(Forger(common_name("chain root"), new_key())), NO),
}

PATHS: dict[str, Case] = {
    "one between": Case(between(), YES),
    "two between": Case(deep(2), YES),
    "six between": Case(deep(6), YES),
    "seven between": Case(deep(7), YES),
    "eight between": Case(deep(8), YES, "a chain of more than 8 certificates is not read"),
    "one between is missing": Case(lambda: shown(ROOT.middle("middle")), NO),
    "between, mixed up": Case(
        mixed_up,
        YES,
    ),
    "a long enough path": Case(deep(2, lengths={0: 1}), YES),
    "a path that is too long": Case(deep(3, lengths={0: 1}), NO),
    "a path of length 0": Case(deep(2, lengths={0: 0}), NO),
    "between without constraints": Case(between(key_identifier(b"1")), NO),
    "between that is no CA": Case(between(basic_constraints(is_ca=False)), NO),
    "between, not critical": Case(between(basic_constraints(critical=False)), YES),
    "between that may sign": Case(between(basic_constraints(), key_usage(b"\x01\x06")), YES),
    "between that must not sign": Case(between(basic_constraints(), key_usage(b"\x07\x80")), NO),
    "between with a key usage of nothing": Case(
        between(basic_constraints(), key_usage(b"\x07\0")), YES, BAD_DER
    ),
    "between for servers": Case(between(basic_constraints(), usages(SERVER_AUTH)), NO),
    "between for clients": Case(between(basic_constraints(), usages(CLIENT_AUTH)), YES),
    "between for anything": Case(between(basic_constraints(), usages(ANY_USAGE)), YES),
    "between for something else": Case(between(basic_constraints(), usages("1.2.3")), NO),
    "between with Netscape type, critical": Case(between(basic_constraints(), NETSCAPE_TYPE), NO),
    "between with an unknown extension, critical": Case(
        between(basic_constraints(), extension("1.2.3.4", NULL, critical=True)), NO
    ),
    "between of version 1": Case(first_version_middle, NO),
    "between of the root's name": Case(rolled_over, YES, NAMESAKES),
    "between, a namesake first": Case(namesake_first, YES),
    "a root with Netscape type, critical": Case(below(NETSCAPE_ROOT), NO),
    "a root that must not sign": Case(below(NOT_SIGNING_ROOT), NO),
    "a root without constraints": Case(below(PLAIN_ROOT), NO),
    "a root that is no CA": Case(below(NO_CA_ROOT), NO),
    "a root of version 1": Case(below(FIRST_VERSION_ROOT), YES),
    "the root shown as well": Case(lambda: shown(ROOT).plus(ROOT.der), YES),
    "the client twice": Case(client_twice, YES),
    "an anchor itself": Case(lambda: Chain((PINNED.der,), PINNED.key), YES),
    "a root itself": Case(lambda: Chain((ROOT.der,), ROOT.key), YES),
    "an anchor itself, for servers": Case(
        lambda: Chain((PINNED_FOR_SERVERS.der,), PINNED_FOR_SERVERS.key), NO
    ),
    "signed by itself": Case(
        by_itself,
        NO,
    ),
    "signed by a pinned client": Case(below(PINNED), NO),
    "cross-signed": Case(lambda: cross_signed(with_root=True), YES),
    "cross-signed, but not by the root": Case(lambda: cross_signed(with_root=False), NO),
    "a loop": Case(lambda: loop(with_way_out=False), NO),
    "a loop with a way out": Case(lambda: loop(with_way_out=True), YES),
    "the key that was named": Case(below(KEY_ID_ROOT, authority_key(b"\1" * 20)), YES),
    "another key than was named": Case(below(KEY_ID_ROOT, authority_key(b"\2" * 20)), YES),
    "a key named that nobody has": Case(below(ROOT, authority_key(b"\3" * 20)), YES),
    "a key named by another serial": Case(
        below(
            KEY_ID_ROOT,
            extension(
                "2.5.29.35",
                seq(tlv(0xA1, tlv(0xA4, common_name("elsewhere"))), tlv(0x82, b"\x01")),
            ),
        ),
        YES,
    ),
    "one more certificate": Case(extra(lambda: Forger.root("stranger").der), YES),
    "one more that Go does not parse": Case(
        extra(lambda: ROOT.sign(Draft(serial=tlv(2, b"\xff")))), NO
    ),
    "one more on a curve Go does not know": Case(
        extra(lambda: ROOT.sign(Draft(key=ec.generate_private_key(ec.SECP256K1())))), NO
    ),
    "one more with a key of 9000 bits": Case(
        extra(lambda: ROOT.sign(Draft(key_info=rsa_info((1 << 8999) + 1, 65537)))), NO
    ),
    "one more with a huge exponent": Case(
        extra(lambda: ROOT.sign(Draft(key_info=rsa_info((1 << 2047) + 1, (1 << 100) + 1)))), NO
    ),
    "one more with a padded key": Case(
        extra(lambda: ROOT.sign(Draft(key_info=padded_point(new_key())))),
        YES,
        ends_handshake=KEYS,
    ),
    "one more with an unknown key": Case(
        extra(lambda: ROOT.sign(Draft(key_info=seq(seq(oid("1.2.3")), tlv(3, b"\0\1"))))),
        YES,
        ends_handshake=KEYS,
    ),
    "one more that has ended": Case(extra(lambda: ROOT.sign(Draft(validity=valid(-3, -1)))), YES),
}

CASES: dict[str, Case] = {
    f"{kind}: {title}": case
    for kind, cases in {
        "name": NAMES,
        "field": FIELDS,
        "extension": EXTENSIONS,
        "alternative name": ALTERNATIVE_NAMES,
        "constraint": CONSTRAINTS,
        "key": KEYS_AND_SIGNATURES,
        "path": PATHS,
    }.items()
    for title, case in cases.items()
}
