"""Which signatures are verified on the way to an anchor, and how many."""

import contextlib
import datetime

import pytest

from proxy.authentication.x509.certificate import Certificate, read_certificate
from proxy.authentication.x509.path import PathError, find_paths
from proxy.authentication.x509.signatures import is_signed_by
from tests.support.forging import Draft, Forger, basic_constraints, common_name

ROOT = Forger.root("the root")


class Verifier:
    """Verifies signatures, and notes whose keys were used."""

    def __init__(self) -> None:
        self.signers: list[bytes] = []

    def __call__(self, one: Certificate, signer: Certificate) -> bool:
        self.signers.append(signer.der)
        return is_signed_by(one, signer)


def paths(chain: list[bytes], verifier: Verifier, *anchors: Forger) -> list[list[Certificate]]:
    certificates = [read_certificate(der) for der in chain]
    trusted = [read_certificate(one.der) for one in anchors or (ROOT,)]
    return list(find_paths(certificates, trusted, datetime.datetime.now(datetime.UTC), verifier))


def impostor_chain(length: int) -> list[bytes]:
    """Return a chain whose highest CA says it is the root's, signed by a key of its own."""
    signer = Forger(ROOT.subject, Draft().key)
    certificates = []
    for number in range(length):
        signer = signer.middle(f"ca {number}")
        certificates.append(signer.der)
    return [signer.sign(Draft().with_usage()), *reversed(certificates)]


def test_a_path_is_found_and_each_of_its_signatures_verified() -> None:
    verifier = Verifier()
    middle = ROOT.middle("middle")

    (path,) = paths([middle.sign(Draft().with_usage()), middle.der], verifier)

    assert [one.der for one in path[1:]] == [middle.der, ROOT.der]
    assert verifier.signers == [ROOT.der, middle.der]


def test_only_keys_of_anchors_are_used_for_a_chain_that_no_anchor_signed() -> None:
    """So nobody chooses a key that is costly to verify with."""
    verifier = Verifier()

    assert paths(impostor_chain(6), verifier) == []
    assert verifier.signers == [ROOT.der], "one certificate says that the root signed it"


def test_a_stranger_s_chain_has_no_signature_verified() -> None:
    verifier = Verifier()
    stranger = Forger.root("a stranger")

    assert paths([stranger.sign(Draft().with_usage()), stranger.der], verifier) == []
    assert verifier.signers == []


def test_signatures_are_bounded_by_the_number_of_anchors_and_a_few() -> None:
    """Certificates may all say that the root signed them."""
    verifier = Verifier()
    impostor = Forger(ROOT.subject, Draft().key)
    chain = [impostor.sign(Draft(extensions=(basic_constraints(),))) for _ in range(40)]

    with pytest.raises(PathError):
        paths(chain, verifier)
    assert len(verifier.signers) == 9

    anchors = [Forger.root("the root") for _ in range(30)]
    with pytest.raises(PathError):
        paths(chain, verifier := Verifier(), *anchors)
    assert len(verifier.signers) == 38


def test_one_of_many_anchors_of_one_name_is_found() -> None:
    anchors = [Forger.root("the root") for _ in range(30)]

    for anchor in (anchors[0], anchors[-1]):
        (path,) = paths([anchor.sign(Draft().with_usage())], Verifier(), *anchors)
        assert path[-1].der == anchor.der


def test_a_maze_of_cas_that_an_anchor_signed_is_left_after_some_steps() -> None:
    """Every CA has one name and one of few keys, so that each may have signed each."""
    drafts = [
        Draft(subject=common_name("a ca"), extensions=(basic_constraints(),)) for _ in range(7)
    ]
    signers = [Forger(draft.subject, draft.key) for draft in drafts]
    between = [signers[one].sign(drafts[one + 1]) for one in range(6)]
    chain = [signers[6].sign(Draft().with_usage()), ROOT.sign(drafts[0]), *between]

    verifier = Verifier()
    found: list[list[Certificate]] = []
    with contextlib.suppress(PathError):
        found = paths(chain, verifier)
    assert len(found) <= 1
    assert len(verifier.signers) <= 9
