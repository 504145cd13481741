"""Which signature algorithms are known, and how large a key may be."""

import pytest

from proxy.authentication.x509.der import SEQUENCE, DerReader
from proxy.authentication.x509.keys import (
    UNKNOWN_ALGORITHM,
    KeyKind,
    SignatureAlgorithm,
    read_algorithm,
    read_public_key,
    read_signature_algorithm,
)
from tests.support.chain_table import padded_point, rsa_info
from tests.support.forging import NULL, SHA384, integer, new_key, pss, public, tlv


def known(algorithm: bytes) -> SignatureAlgorithm:
    return read_signature_algorithm(*read_algorithm(DerReader(algorithm).read(SEQUENCE)))


def test_rsa_pss_is_known_in_one_form() -> None:
    assert known(pss()) == SignatureAlgorithm(KeyKind.RSA, 256, is_pss=True)


@pytest.mark.parametrize("place", range(3), ids=["hash", "mask", "salt"])
def test_rsa_pss_with_anything_after_a_parameter_is_unknown(place: int) -> None:
    """OpenSSL refuses it as well, but one of the two must not rely on the other."""
    after = [b"", b"", b""]
    after[place] = NULL

    assert known(pss(after=after)) == UNKNOWN_ALGORITHM


@pytest.mark.parametrize("place", range(3), ids=["hash", "mask", "hash of the mask"])
def test_rsa_pss_with_more_in_an_algorithm_is_unknown(place: int) -> None:
    more = [b"", b"", b""]
    more[place] = NULL

    assert known(pss(more=more)) == UNKNOWN_ALGORITHM


@pytest.mark.parametrize(
    "algorithm", [pss(salt=20), pss(mask=SHA384), pss(tail=tlv(0xA3, integer(1)))]
)
def test_rsa_pss_with_other_parameters_is_unknown(algorithm: bytes) -> None:
    assert known(algorithm) == UNKNOWN_ALGORITHM


def test_an_rsa_key_of_any_size_is_read() -> None:
    key = read_public_key(rsa_info((1 << 16383) + 1, 65537))

    assert key.verifies
    assert key.rsa_bits == 16384


def test_a_key_that_is_not_whole_bytes_verifies_nothing() -> None:
    key = new_key()

    assert read_public_key(public(key)).verifies
    assert not read_public_key(padded_point(key)).verifies
