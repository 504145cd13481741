"""The table of chains: Go confirms what it says, and each chain is judged as it says."""

import datetime
import random
from collections.abc import Iterator

import pytest

from proxy.authentication.ca_bundle import CABundle, PEMBundle, caller_from_certificate
from proxy.authentication.x509.der import SEQUENCE, DerReader
from proxy.core.errors import Forbidden
from proxy.core.userinfo import Caller
from proxy.wire.exchange import Peer
from tests.support.chain_oracle import ChainOracle, running_chain_oracle
from tests.support.chain_table import (
    CASES,
    CONSTRAINED_ROOT,
    DNS_NAME,
    EMAIL_NAME,
    IP_NAME,
    ROOT,
    ROOTS,
    URI_NAME,
    Case,
    Chain,
    policy,
)
from tests.support.forging import (
    CLIENT_AUTH,
    CN,
    NULL,
    ORG,
    Draft,
    Forger,
    algorithm_of,
    alternative_names,
    authority_key,
    basic_constraints,
    extension,
    integer,
    key_identifier,
    key_usage,
    name,
    name_constraints,
    oid,
    pem_of,
    seq,
    signature_of,
    tlv,
    usages,
    utf8,
)

MUTATIONS_OF_A_CHAIN = 8
SIGNED_MUTATIONS = 600


BUNDLE: CABundle[Caller | None] = CABundle(
    PEMBundle(pem_of(*ROOTS), "the CAs"), read=caller_from_certificate
)


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChainOracle]:
    with running_chain_oracle() as oracle:
        yield oracle


def caller_of(certificates: tuple[bytes, ...]) -> Caller | None:
    """Return who a chain stands for now, None if it proves nothing or stands for nobody."""
    now = datetime.datetime.now(datetime.UTC)
    return BUNDLE.verify(Peer("10.0.0.1", certificates), now).subject


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_chain_is_judged_as_go_judges_it_or_more_strictly(
    case: Case, oracle: ChainOracle
) -> None:
    chain = case.make()

    native = oracle.verify(chain.certificates, ROOTS)
    caller = caller_of(chain.certificates)

    assert (native.is_accepted and native.name != "") is case.is_accepted, native.error
    assert (caller is not None) is (case.is_accepted and not case.stricter)
    if caller is not None:
        assert caller.user.name == native.name
        assert list(caller.user.groups) == [*native.groups, "system:authenticated"]


def test_the_table_has_chains_of_both_kinds() -> None:
    accepted = [case for case in CASES.values() if case.is_accepted]
    stricter = [case for case in accepted if case.stricter]

    assert len(CASES) >= 300
    assert len(accepted) >= 80
    assert len(CASES) - len(accepted) >= 80
    assert len(stricter) <= 24, "each is a line of docs/security/client-certificates.md"


def mutated(chain: Chain, chance: random.Random) -> tuple[bytes, ...]:
    """Return a chain with one certificate changed in a byte, a bit, or two bytes."""
    certificates = list(chain.certificates)
    which = chance.randrange(len(certificates))
    der = bytearray(certificates[which])
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(der))
        der[at] = chance.choice((der[at] ^ 1 << chance.randrange(8), chance.randrange(256)))
    certificates[which] = bytes(der)
    return tuple(certificates)


@pytest.mark.timeout(120)
def test_no_mutated_chain_is_accepted_that_go_refuses(oracle: ChainOracle) -> None:
    """Nearly all fail by their signature; what remains are bytes that no signature covers."""
    chance = random.Random(12)
    for title, case in CASES.items():
        chain = case.make()
        for _ in range(MUTATIONS_OF_A_CHAIN):
            certificates = mutated(chain, chance)
            try:
                caller = caller_of(certificates)
            except Forbidden:
                continue
            if caller is not None:
                native = oracle.verify(certificates, ROOTS)
                assert native.is_accepted, (title, native.error)
                assert native.name == caller.user.name


# What a DER reader may take for something else.
ODD_BYTES = (0, 1, 2, 3, 4, 6, 12, 19, 22, 28, 30, 0x30, 0x31, 0x7F, 0x80, 0xA0, 0xFF)
RICH_EXTENSIONS = (
    usages(CLIENT_AUTH, "1.2.3"),
    key_usage(b"\x07\x80"),
    basic_constraints(path_length=3),
    alternative_names(
        (DNS_NAME, b"a.example.com"),
        (EMAIL_NAME, b"b@example.com"),
        (URI_NAME, b"https://example.com/x"),
        (IP_NAME, b"\x0a\x02\0\1"),
    ),
    name_constraints(
        [(DNS_NAME, b"c.org"), (IP_NAME, b"\x0a\0\0\0\xff\0\0\0"), (EMAIL_NAME, b"x@y.z")],
        [(DNS_NAME, b"d.org"), (URI_NAME, b"u.v")],
    ),
    policy("1.2.3", "2.5.29.32.0"),
    key_identifier(b"abc"),
    authority_key(b"\1" * 20),
    extension("2.5.29.31", seq(seq(tlv(0xA0, tlv(0xA0, tlv(0x86, b"http://a.b/c")))))),
    extension("1.3.6.1.5.5.7.1.1", seq(seq(oid("1.3.6.1.5.5.7.48.1"), tlv(0x86, b"a:b")))),
    extension("1.2.3.4", NULL),
    extension("2.5.29.54", integer(1)),
)


def rich_draft(chance: random.Random) -> Draft:
    """Return a certificate with many kinds of text and some of the extensions."""
    attributes = (
        (CN, utf8("alice")),
        (ORG, tlv(19, b"printable")),
        (ORG, tlv(30, b"\0a\0b")),
        (ORG, tlv(20, b"t61")),
        (ORG, tlv(22, b"ia5")),
        ("2.5.4.5", tlv(18, b"12")),
    )
    count = chance.randint(1, len(RICH_EXTENSIONS))
    return Draft(subject=name(*attributes), extensions=chance.sample(RICH_EXTENSIONS, count))


def signed_after_mutation(signer: Forger, draft: Draft, chance: random.Random) -> bytes:
    """Return a certificate that was changed in a byte or two before it was signed."""
    certificate = DerReader(signer.sign(draft)).read(SEQUENCE)
    signed = bytearray(certificate.read_element(SEQUENCE))
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(4, len(signed))
        signed[at] = chance.choice((signed[at] ^ 1 << chance.randrange(8), *ODD_BYTES))
    algorithm = algorithm_of(signer.key)
    signature = signature_of(signer.key, bytes(signed), algorithm)
    return seq(bytes(signed), algorithm, tlv(3, b"\0" + signature))


@pytest.mark.timeout(120)
def test_no_chain_is_accepted_that_go_refuses_if_the_ca_signs_anything(
    oracle: ChainOracle,
) -> None:
    """The CA's signature is good: all that is left are the rules."""
    chance = random.Random(34)
    seen: set[tuple[bool, bool]] = set()
    for _ in range(SIGNED_MUTATIONS):
        signer = chance.choice((ROOT, ROOT, CONSTRAINED_ROOT))
        draft = rich_draft(chance)
        der = signed_after_mutation(signer, draft, chance)
        middle = Forger(draft.subject, draft.key, der)
        chains = ((der,), (middle.sign(Draft().with_usage()), der))
        for certificates in chains:
            native = oracle.verify(certificates, ROOTS)
            try:
                caller = caller_of(certificates)
            except Forbidden:
                continue
            seen.add((caller is not None, native.is_accepted))
            if caller is not None:
                assert native.is_accepted, (native.error, der.hex())
                assert caller.user.name == native.name
                assert list(caller.user.groups)[:-1] == native.groups
    assert seen >= {(True, True), (False, False)}
