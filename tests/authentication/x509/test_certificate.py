"""Fields in which Go reads more than RFC 5280 allows: what Go parses is parsed, and nothing else.

An anchor is read by the same rules, so that one odd CA does not keep a whole bundle from use.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from proxy.authentication.x509.certificate import CertificateParseError, read_certificate
from tests.support.chain_oracle import ChainOracle, running_chain_oracle
from tests.support.forging import (
    Draft,
    Forger,
    alternative_names,
    name_constraints,
    new_key,
    seq,
    tlv,
)

ROOT = Forger.root("the root")
KEY = new_key()
CLIENT = ROOT.sign(Draft(key=KEY).with_usage())
TRIES = 400

URI_PARTS = (
    *'a.b:/@?#[]%*1"<>\\ _~\x7f\x01',
    *("http:", "https://", "s://", "//", "///", "[::1]", "[1.2.3.4]", "[::ffff:1.2.3.4]"),
    *("%25", "%C3", "%41", "%zz", ":80", "a.b"),
)
MAILBOX_PARTS = (*'a.b@"\\ \x00\x01\x09\x0a\x0b\x7f!#', '"', "\\", "a@b", "..", "@a.b", "@a.b")
ADDRESS_PARTS = (*"0123456789abcf:.%", "::", "1.2.3.4", "ffff", ":", "01", ".256")
ZONES = ("Z", "+0100", "-0100", "+0000", "-0000", "+2400", "+2459", "+2500", "+0060", "", "z")
DAYS = ("0101", "0229", "0230", "1231", "0000", "1301")


def some_of(parts: tuple[str, ...], chance: random.Random) -> bytes:
    return "".join(chance.choices(parts, k=chance.randint(0, 8))).encode()


def moment(chance: random.Random) -> bytes:
    year = chance.choice(("24", "50", "2024", "0000", "9999", "2023"))
    clock = chance.choice(("1530", "153059", "153060", "2400", "235959"))
    text = year + chance.choice(DAYS) + clock + chance.choice(ZONES)
    return tlv(chance.choice((0x17, 0x18)), text.encode())


FIELDS: dict[str, Callable[[random.Random], Draft]] = {
    "a URI": lambda chance: Draft(key=KEY).with_usage(
        alternative_names((6, some_of(URI_PARTS, chance)))
    ),
    "an email constraint": lambda chance: Draft(key=KEY).with_usage(
        name_constraints([(1, some_of(MAILBOX_PARTS, chance))])
    ),
    "a URI constraint": lambda chance: Draft(key=KEY).with_usage(
        name_constraints([(6, some_of(ADDRESS_PARTS, chance))])
    ),
    "a moment": lambda chance: Draft(key=KEY, validity=seq(moment(chance), moment(chance))),
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChainOracle]:
    with running_chain_oracle() as oracle:
        yield oracle


def is_parsed(der: bytes) -> bool:
    try:
        read_certificate(der)
    except CertificateParseError:
        return False
    return True


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_is_read_if_go_reads_it(field: str, oracle: ChainOracle) -> None:
    chance = random.Random(56)
    seen: set[bool] = set()
    for _ in range(TRIES):
        der = ROOT.sign(FIELDS[field](chance))
        is_parsed_by_go = not oracle.verify((CLIENT,), (der,)).error.startswith("root:")
        seen.add(is_parsed_by_go)

        assert is_parsed(der) is is_parsed_by_go, der.hex()
    assert seen == {True, False}
