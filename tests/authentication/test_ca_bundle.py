"""Which chains prove something, judged as the API server judges them."""

import datetime
import warnings
from collections.abc import Iterator
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier
from OpenSSL import crypto

from proxy.authentication.ca_bundle import CABundle, ClientCAError, PEMBundle, read_common_name
from proxy.authentication.x509.certificate import Certificate
from proxy.core.errors import Forbidden, Unauthorized
from proxy.wire.exchange import Peer
from tests.support.chain_oracle import ChainOracle, running_chain_oracle
from tests.support.chain_table import BIG_OID, padded_point, rsa_info
from tests.support.chains import (
    CN,
    FOR_CLIENTS,
    FOR_SERVERS,
    NO_USAGE,
    Issuer,
    Shown,
    Window,
)
from tests.support.forging import (
    NULL,
    Draft,
    Forger,
    alternative_names,
    basic_constraints,
    common_name,
    extension,
    integer,
    name_constraints,
    new_key,
    pem_of,
    seq,
    tlv,
)

ANY_USAGE = (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)
ROOT = Issuer()
MIDDLE = Issuer("middle", ROOT)
HOUR, SECOND = datetime.timedelta(hours=1), datetime.timedelta(seconds=1)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def bundle(*issuers: Issuer) -> CABundle[str]:
    text = PEMBundle(b"".join(issuer.pem for issuer in issuers or (ROOT,)), "the CA")
    return CABundle(text, read=read_common_name)


def proves(shown: Shown, *issuers: Issuer) -> bool:
    judgement = bundle(*issuers).verify(peer(shown), now())
    assert judgement.subject == ("alice" if judgement.verified else None)
    return judgement.verified


def peer(shown: Shown) -> Peer:
    return Peer("10.0.0.1", shown.chain)


def test_who_signed_it_decides() -> None:
    assert proves(ROOT.issue((CN, "alice")))
    assert not proves(Issuer().issue((CN, "alice"))), "of a CA of the same name"


def test_any_ca_of_the_bundle_will_do() -> None:
    others = [Issuer("a"), Issuer("b")]

    assert all(proves(one.issue((CN, "alice")), others[0], ROOT, others[1]) for one in others)


def test_a_certificate_between_must_be_shown() -> None:
    shown = MIDDLE.issue((CN, "alice"))

    assert proves(shown)
    assert not proves(shown.alone)


def test_the_order_of_those_between_is_of_no_matter() -> None:
    shown = Issuer("last", MIDDLE).issue((CN, "alice"))
    own, first, second = shown.certificates

    assert proves(shown)
    assert proves(Shown((own, second, first), shown.key))


def test_a_certificate_between_is_an_anchor_when_it_is_in_the_bundle() -> None:
    """As in Go, whoever has signed it."""
    assert proves(MIDDLE.issue((CN, "alice")).alone, MIDDLE)


def test_a_chain_without_end_is_not_even_read() -> None:
    shown = ROOT.issue((CN, "alice"))
    root = ROOT.certificate

    assert proves(Shown((*shown.certificates, *[root] * 7), shown.key))
    assert not proves(Shown((*shown.certificates, *[root] * 8), shown.key))


def test_a_client_signs_nobody() -> None:
    client = Issuer("alice", ROOT, is_ca=False)

    assert not proves(client.issue((CN, "alice")))


def test_a_path_that_is_longer_than_allowed_proves_nothing() -> None:
    short = Issuer("short", path_length=0)
    below = Issuer("below", short)

    assert proves(short.issue((CN, "alice")), short)
    assert not proves(below.issue((CN, "alice")), short)


def test_a_signature_that_does_not_fit_proves_nothing() -> None:
    impostor = Issuer(ROOT.name)
    assert impostor.subject == ROOT.subject

    assert not proves(impostor.issue((CN, "alice")))


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        (FOR_CLIENTS, True),
        ((*FOR_SERVERS, *FOR_CLIENTS), True),
        (ANY_USAGE, True),
        (NO_USAGE, True),
        (FOR_SERVERS, False),
        ((ObjectIdentifier("1.2.3.4"),), False),
    ],
    ids=["clients", "both", "any", "none named", "servers", "something else"],
)
@pytest.mark.parametrize("whose", ["client", "between", "root"])
def test_every_certificate_that_names_its_use_must_be_for_clients(
    usages: tuple[ObjectIdentifier, ...], expected: object, whose: str
) -> None:
    root = Issuer(usages=usages if whose == "root" else NO_USAGE)
    middle = Issuer("middle", root, usages=usages if whose == "between" else NO_USAGE)
    shown = middle.issue((CN, "alice"), usages=usages if whose == "client" else NO_USAGE)

    assert proves(shown, root) is expected


@pytest.mark.parametrize("whose", ["client", "between", "root"])
@pytest.mark.parametrize("window", [Window(-3, -2), Window(2, 3)], ids=["over", "to come"])
def test_every_certificate_must_be_valid_now(whose: str, window: Window) -> None:
    usual = Window()
    root = Issuer(window=window if whose == "root" else usual)
    middle = Issuer("middle", root, window=window if whose == "between" else usual)
    shown = middle.issue((CN, "alice"), window=window if whose == "client" else usual)

    assert not proves(shown, root)


@pytest.mark.parametrize("whose", ["client", "between", "root"])
def test_what_was_verified_counts_to_its_last_moment_and_not_beyond(whose: str) -> None:
    """A connection may outlive the certificates it was opened with."""
    short, usual = Window(-1, 2), Window()
    root = Issuer(window=short if whose == "root" else usual)
    middle = Issuer("middle", root, window=short if whose == "between" else usual)
    shown = middle.issue((CN, "alice"), window=short if whose == "client" else usual)
    trusted, one = bundle(root), peer(shown)
    assert trusted.verify(one, now()).verified
    last = min(one.not_valid_after_utc for one in (*shown.certificates, root.certificate)).replace(
        microsecond=0
    )

    assert trusted.verify(one, last - SECOND).verified
    assert trusted.verify(one, last).verified
    assert not trusted.verify(one, last + SECOND / 2).verified
    assert not trusted.verify(one, last + SECOND).verified
    assert trusted.verify(one, now()).verified, "clocks may be set back"


@pytest.mark.parametrize("whose", ["client", "between", "root"])
def test_what_was_to_come_counts_when_it_has_come(whose: str) -> None:
    late, usual = Window(2, 9), Window()
    root = Issuer(window=late if whose == "root" else usual)
    middle = Issuer("middle", root, window=late if whose == "between" else usual)
    shown = middle.issue((CN, "alice"), window=late if whose == "client" else usual)
    trusted, one = bundle(root), peer(shown)
    first = max(each.not_valid_before_utc for each in (*shown.certificates, root.certificate))
    assert not trusted.verify(one, now()).verified

    assert not trusted.verify(one, first - SECOND / 2).verified
    assert trusted.verify(one, first + SECOND).verified


def test_a_ca_that_was_renewed_counts_beside_the_old_one() -> None:
    """Both have one name and one key; only the new one is valid, and it must be found."""
    old = Issuer(window=Window(-9, -1))
    new = Issuer(key=old.key)

    assert proves(new.issue((CN, "alice")), old, new)
    assert proves(new.issue((CN, "alice")), new, old)


@pytest.mark.parametrize("is_refused", [False, True], ids=["good", "bad"])
def test_a_chain_is_judged_once_on_its_connection(is_refused: object) -> None:
    read: list[Certificate] = []

    def note(certificate: Certificate) -> None:
        read.append(certificate)
        if is_refused:
            raise Unauthorized

    trusted = CABundle(PEMBundle(ROOT.pem, "the CA"), read=note)
    one, other = (peer(ROOT.issue((CN, "alice"))) for _ in range(2))

    judgements = [trusted.verify(one, now()) for _ in range(3)]
    trusted.verify(other, now())

    assert [judgement.verified for judgement in judgements] == [not is_refused] * 3
    assert len(read) == 2, "once for each connection"


def test_a_refusal_is_remembered_and_told_each_time() -> None:
    read: list[Certificate] = []

    def refuse(certificate: Certificate) -> None:
        read.append(certificate)
        raise Forbidden("not this one", details={"name": "alice"}, retry_after_seconds=7)

    trusted = CABundle(PEMBundle(ROOT.pem, "the CA"), read=refuse)
    one = peer(ROOT.issue((CN, "alice"), window=Window(-1, 2)))
    told = []
    for _ in range(3):
        with pytest.raises(Forbidden) as refused:
            trusted.verify(one, now())
        told.append(refused.value)

    assert len(read) == 1
    assert len({id(error) for error in told}) == 3, "each with frames of its own"
    for error in told:
        assert (error.message, str(error)) == ("not this one", "not this one")
        assert (error.details, error.retry_after_seconds) == ({"name": "alice"}, 7)
    assert not trusted.verify(one, now() + 3 * HOUR).verified, "it ends with the certificate"


def test_a_stranger_is_judged_once_and_for_all() -> None:
    trusted, one = bundle(), peer(Issuer().issue((CN, "alice")))
    first = trusted.verify(one, now())

    assert trusted.verify(one, now() + 1000 * HOUR) is first
    assert not first.verified
    assert trusted.verify(one, first.not_before - HOUR) is not first, "clocks may be set back"


def test_each_bundle_judges_for_itself() -> None:
    one = peer(ROOT.issue((CN, "alice")))
    verdicts = [bundle(root).verify(one, now()).verified for root in (ROOT, Issuer("x")) * 8]

    assert verdicts == [True, False] * 8
    assert len(one.verification_cache) <= 8


def test_a_signature_by_a_broken_hash_proves_nothing() -> None:
    shown = ROOT.issue((CN, "alice"))

    assert proves(Shown((signed_again(shown, "sha256"),), shown.key))
    assert not proves(Shown((signed_again(shown, "sha1"),), shown.key))


def signed_again(shown: Shown, digest: str) -> x509.Certificate:
    """Return the certificate with another signature: only OpenSSL still makes broken ones."""
    certificate = crypto.X509.from_cryptography(shown.certificates[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        certificate.sign(  # type: ignore[deprecated]  # and that is why it still can
            crypto.PKey.from_cryptography_key(ROOT.key), digest
        )
    return certificate.to_cryptography()


def test_a_key_that_is_too_short_proves_nothing() -> None:
    long_enough = rsa.generate_private_key(65537, 2048)
    short_key = serialization.load_pem_private_key(
        SHORT_KEY, None, unsafe_skip_rsa_key_validation=True
    )
    assert isinstance(short_key, rsa.RSAPrivateKey)

    assert proves(ROOT.issue((CN, "alice"), key=long_enough))
    assert not proves(ROOT.issue((CN, "alice"), key=short_key))


def test_what_nobody_understands_and_must_be_understood_proves_nothing() -> None:
    unknown = x509.UnrecognizedExtension(ObjectIdentifier("1.2.3.4"), b"\x05\x00")

    def issued(*, critical: bool) -> Shown:
        extension = x509.Extension(unknown.oid, critical, unknown)
        return ROOT.issue((CN, "alice"), extensions=[extension])

    assert proves(issued(critical=False))
    assert not proves(issued(critical=True))


@pytest.mark.parametrize("chain", [(b"",), (b"text",), (b"\x30\x00",)], ids=repr)
def test_what_is_no_certificate_proves_nothing(chain: tuple[bytes, ...]) -> None:
    assert not bundle().verify(Peer("10.0.0.1", chain), now()).verified


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"hello",
        b"-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n",
        ROOT.pem + b"-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n",
    ],
    ids=["empty", "text", "broken", "one good, one broken"],
)
def test_a_bundle_that_cannot_be_used_is_named_in_one_line(pem: bytes) -> None:
    with pytest.raises(ClientCAError) as refused:
        CABundle(PEMBundle(pem, "/etc/ca.crt"), read=read_common_name)

    assert "/etc/ca.crt" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"CERTIFICATE", b"X509 CERTIFICATE"),
        (b"CERTIFICATE", b"TRUSTED CERTIFICATE"),
        (b"BEGIN CERTIFICATE-----\n", b"BEGIN CERTIFICATE-----\nA: b\n\n"),
    ],
    ids=["X509", "TRUSTED", "a header"],
)
def test_what_kube_apiserver_does_not_take_for_a_ca_is_none(before: bytes, after: bytes) -> None:
    other = Issuer("other")
    pem = ROOT.pem + other.pem.replace(before, after)
    trusted = CABundle(PEMBundle(pem, "the CA"), read=read_common_name)

    assert trusted.verify(peer(ROOT.issue((CN, "alice"))), now()).verified
    assert not trusted.verify(peer(other.issue((CN, "alice"))), now()).verified
    assert len(trusted.signers) == 1


FORGED_ROOT = Forger.root("forged root")


def odd_ca(**fields: object) -> bytes:
    draft = Draft(subject=common_name("odd"), extensions=(basic_constraints(),))
    return FORGED_ROOT.sign(replace(draft, **fields))  # type: ignore[arg-type]


def odd_extension(one: bytes) -> bytes:
    return odd_ca(extensions=(basic_constraints(), one))


def since(text: bytes, tag: int) -> bytes:
    return odd_ca(validity=seq(tlv(tag, text), tlv(0x17, b"490101000000Z")))


READ_BY_GO = {
    "RSA of 16384 bits": odd_ca(key_info=rsa_info((1 << 16383) + 1, 65537)),
    "RSA of 20000 bits": odd_ca(key_info=rsa_info((1 << 19999) + 1, 65537)),
    "a relative URI": odd_extension(alternative_names((6, b"/rel"))),
    "a URI with an IPv6 host": odd_extension(alternative_names((6, b"https://[::1]/"))),
    "a time in another zone": since(b"200101000000+0100", 0x17),
    "a time without seconds": since(b"2001010000Z", 0x17),
    "the year 0": since(b"00000101000000Z", 0x18),
    "a policy of a large number": odd_extension(extension("2.5.29.32", seq(seq(BIG_OID)))),
    "an email constraint in quotes": odd_extension(name_constraints([(1, b'"a b"@c.org')])),
    "an email constraint without a domain": odd_extension(name_constraints([(1, b"x@")])),
    "a URI constraint with a colon": odd_extension(name_constraints([(6, b"a:b")])),
    "a key with padding": odd_ca(key_info=padded_point(new_key())),
    "a signature with padding": odd_ca(signature_padding=2),
    "something after the extensions": odd_ca(tail=NULL),
}
NOT_READ_BY_GO = {
    "a negative serial": odd_ca(serial=integer(-1)),
    "a URI that is none": odd_extension(alternative_names((6, b"http://[::1"))),
    "an email constraint that is none": odd_extension(name_constraints([(1, b'"a@c.org')])),
    "a time with a zone of zero": since(b"200101000000+0000", 0x17),
    "a policy that is none": odd_extension(extension("2.5.29.32", seq(seq(tlv(6, b"\x80\x01"))))),
    "an RSA key without an exponent": odd_ca(key_info=rsa_info((1 << 2047) + 1, 0)),
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChainOracle]:
    with running_chain_oracle() as oracle:
        yield oracle


@pytest.mark.parametrize("odd", READ_BY_GO.values(), ids=READ_BY_GO)
def test_a_ca_that_go_reads_does_not_keep_the_others_from_use(
    odd: bytes, oracle: ChainOracle
) -> None:
    """A CA that was removed beside it would stay in force."""
    chain = (FORGED_ROOT.sign(Draft(subject=common_name("alice")).with_usage()),)
    assert oracle.verify(chain, (odd, FORGED_ROOT.der)).is_accepted

    trusted = CABundle(PEMBundle(pem_of(odd, FORGED_ROOT.der), "the CA"), read=read_common_name)

    assert trusted.verify(Peer("10.0.0.1", chain), now()).verified
    assert len(trusted.signers) == 2


@pytest.mark.parametrize("odd", NOT_READ_BY_GO.values(), ids=NOT_READ_BY_GO)
def test_a_ca_that_go_does_not_read_spoils_the_bundle(odd: bytes, oracle: ChainOracle) -> None:
    chain = (FORGED_ROOT.sign(Draft().with_usage()),)
    assert oracle.verify(chain, (odd, FORGED_ROOT.der)).error.startswith("root: ")

    with pytest.raises(ClientCAError):
        CABundle(PEMBundle(pem_of(odd, FORGED_ROOT.der), "the CA"), read=read_common_name)


def test_a_ca_that_openssl_does_not_read_proves_nothing() -> None:
    key = new_key()
    draft = Draft(subject=common_name("odd"), key=key, extensions=(basic_constraints(),))
    good, odd = Forger.of(draft), Forger.of(replace(draft, tail=NULL))
    chain = (good.sign(Draft(subject=common_name("alice")).with_usage()),)

    def judged(anchor: Forger) -> bool:
        trusted = CABundle(PEMBundle(pem_of(anchor.der), "the CA"), read=read_common_name)
        return trusted.verify(Peer("10.0.0.1", chain), now()).verified

    assert judged(good)
    assert not judged(odd)


def test_an_rsa_key_is_bounded_in_what_clients_show() -> None:
    chain = (FORGED_ROOT.sign(Draft(subject=common_name("alice")).with_usage()),)
    trusted = CABundle(PEMBundle(pem_of(FORGED_ROOT.der), "the CA"), read=read_common_name)

    def judged(bits: int) -> bool:
        more = odd_ca(key_info=rsa_info((1 << bits - 1) + 1, 65537))
        return trusted.verify(Peer("10.0.0.1", (*chain, more)), now()).verified

    assert judged(8192)
    assert not judged(8193)


def test_comments_and_line_breaks_of_a_bundle_are_of_no_matter() -> None:
    pem = b"# ours\r\n" + ROOT.pem.replace(b"\n", b"\r\n") + b"\n\n" + ROOT.pem
    trusted = CABundle(PEMBundle(pem, "the CA"), read=read_common_name)

    assert trusted.verify(peer(ROOT.issue((CN, "alice"))), now()).verified


# 512 bits; nothing makes such keys any more.
SHORT_KEY = b"""-----BEGIN RSA PRIVATE KEY-----
MIIBOwIBAAJBALSg920X+RVs9vByTQIwKgl4XabMZykpUKF+sf6cLieBEjG3to9j
rVKKIAfmoJGmBlkW24gp0u89vJJ2ydpfyCUCAwEAAQJBAKmgVFtt3OtjBc+t92Wr
p353O7ONVv+PnfnbCfqp3qoW9wV6CMO/j3EUVZb5iJX4EmTSIb2cAmEhYE2LyyWZ
RA0CIQDXpR55SNX+ntOL4sNiU2mfAEjT9aMAVWHiQW/ShsH/5wIhANZuVEod96Am
MpjoDuaLiNFDHVu72UcSfKwHfoAoZqYTAiBwNq0X4c3xdEaS2UpgxRUGN0iue3j5
uHR6HyEIRTV4awIhAJJkRDtNdi7ppQVq+DFA9akXzsU/27h/0ImJnD1WV63tAiAk
9JU76NspBAC3Cb858lVc7hZsSkmlWH1l7sXPoEx8PA==
-----END RSA PRIVATE KEY-----
"""
