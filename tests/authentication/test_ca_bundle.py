"""Which chains prove something, judged as the API server judges them."""

import datetime
import warnings

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier
from OpenSSL import crypto

from proxy.authentication.ca_bundle import CaBundle, CaText, TrustError
from proxy.authentication.client_certificate import read_common_name
from proxy.core.errors import Unauthorized
from tests.support.chains import (
    CN,
    FOR_CLIENTS,
    FOR_SERVERS,
    NO_USAGE,
    Issuer,
    Shown,
    Window,
)

ANY_USAGE = (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)
ROOT = Issuer()
MIDDLE = Issuer("middle", ROOT)
HOUR = datetime.timedelta(hours=1)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def bundle(*issuers: Issuer) -> CaBundle[str]:
    text = CaText(b"".join(issuer.pem for issuer in issuers or (ROOT,)), "the CA")
    return CaBundle(text, read=read_common_name)


def proves(shown: Shown, *issuers: Issuer, at: datetime.datetime | None = None) -> bool:
    try:
        return bundle(*issuers).meaning(shown.chain, at or now()) == "alice"
    except Unauthorized:
        return False


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
    chain = impostor.issue((CN, "alice")).chain

    with pytest.raises(Unauthorized):
        bundle().meaning(chain, now())


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
    trusted = bundle(root)
    assert trusted.meaning(shown.chain, now()) == "alice"
    last = min(one.not_valid_after_utc for one in (*shown.certificates, root.certificate)).replace(
        microsecond=0
    )

    assert trusted.meaning(shown.chain, last - datetime.timedelta(seconds=1)) == "alice"
    with pytest.raises(Unauthorized):
        trusted.meaning(shown.chain, last + datetime.timedelta(seconds=2))
    assert trusted.meaning(shown.chain, now()) == "alice", "clocks may be set back"


def test_what_was_to_come_counts_when_it_has_come() -> None:
    shown = ROOT.issue((CN, "alice"), window=Window(2, 9))
    trusted = bundle()
    with pytest.raises(Unauthorized):
        trusted.meaning(shown.chain, now())

    assert trusted.meaning(shown.chain, now() + 3 * HOUR) == "alice"


def test_a_ca_that_was_renewed_counts_beside_the_old_one() -> None:
    """Both have one name and one key; only the new one is valid, and it must be found."""
    old = Issuer(window=Window(-9, -1))
    new = Issuer(key=old.key)

    assert proves(new.issue((CN, "alice")), old, new)
    assert proves(new.issue((CN, "alice")), new, old)


def test_a_chain_is_verified_once_while_it_is_in_use() -> None:
    trusted = bundle()
    shown = ROOT.issue((CN, "alice"))
    read: list[bytes] = []
    remembering = CaBundle(CaText(ROOT.pem, "the CA"), read=read.append)

    for _ in range(3):
        remembering.meaning(tuple(bytes(one) for one in shown.chain), now())

    assert len(read) == 1
    assert trusted.meaning(shown.chain, now()) == "alice"


def test_what_reading_refuses_is_refused_each_time() -> None:
    read: list[bytes] = []

    def refuse(der: bytes) -> None:
        read.append(der)
        raise Unauthorized

    trusted = CaBundle(CaText(ROOT.pem, "the CA"), read=refuse)
    chain = ROOT.issue((CN, "alice")).chain
    for _ in range(2):
        with pytest.raises(Unauthorized):
            trusted.meaning(chain, now())

    assert len(read) == 2


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.authentication.ca_bundle._REMEMBERED_CHAINS", 2)
    trusted = bundle()
    shown = [ROOT.issue((CN, name)) for name in ("alice", "bob", "carol")]

    names = [trusted.meaning(one.chain, now()) for one in (*shown, shown[0])]

    assert names == ["alice", "bob", "carol", "alice"]
    assert len(trusted._verified) == 2


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
    with pytest.raises(Unauthorized):
        bundle().meaning(chain, now())


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
    with pytest.raises(TrustError) as refused:
        CaBundle(CaText(pem, "/etc/ca.crt"), read=read_common_name)

    assert "/etc/ca.crt" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_comments_and_line_breaks_of_a_bundle_are_of_no_matter() -> None:
    pem = b"# ours\r\n" + ROOT.pem.replace(b"\n", b"\r\n") + b"\n\n" + ROOT.pem
    trusted = CaBundle(CaText(pem, "the CA"), read=read_common_name)

    assert trusted.meaning(ROOT.issue((CN, "alice")).chain, now()) == "alice"


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
